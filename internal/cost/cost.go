// Package cost has the prices of operations in request units (RU), which measure
// throughput. What an operation costs depends on the operation and on the size of the
// document, not on how busy the store is. The published figures are anchors; between
// them the cost grows with the square root of the size:
//
//	                    1 KB   100 KB
//	point read             1       10
//	insert, upsert         5       50
//	replace               10      100
//	delete                 5            it writes no document
//	scan                 2.3            for each physical partition, and a read for each item
//	query                2.3            the same, for each document that it reads; counts from indexes read none
//	not found, exists, precondition   1
//
// An upsert does not read the item that it overwrites, so it costs as much as an insert.
// With an etag it costs as much as a replace. A KB is 1,024 bytes; smaller documents cost
// as much as one of 1 KB.
package cost

import "math"

const kilobyte = 1 << 10

// Prices that no size changes.
const (
	Failed = 1   // reading the present version, where an operation fails
	Delete = 5   // as the insert of an empty document
	Visit  = 2.3 // for each physical partition that a scan visits
)

// Read returns the price of a point read of a document.
func Read(bytes int) float64 {
	if bytes <= kilobyte {
		return 1
	}
	return math.Sqrt(float64(bytes) / kilobyte)
}

// Insert returns the price of a write of a document that was not there.
func Insert(bytes int) float64 { return 5 * Read(bytes) }

// Replace returns the price of a write in the place of another document.
func Replace(bytes int) float64 { return 2 * Insert(bytes) }
