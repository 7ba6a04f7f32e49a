package engine

import "math"

// Request units (RU) measure throughput. What an operation costs depends on the operation
// and on the size of the document, not on how busy the store is. The published figures
// are anchors; between them the cost grows with the square root of the size:
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
const (
	kilobyte     = 1 << 10
	failedCharge = 1   // for reading the present version
	deleteCharge = 5   // as for the insert of an empty document
	visitCharge  = 2.3 // for each physical partition that a scan visits
)

// readCharge returns the RU of a point read.
func readCharge(bytes int) float64 {
	if bytes <= kilobyte {
		return 1
	}
	return math.Sqrt(float64(bytes) / kilobyte)
}

// insertCharge returns the RU of a write of a document that was not there.
func insertCharge(bytes int) float64 { return 5 * readCharge(bytes) }

// replaceCharge returns the RU of a write in the place of another document.
func replaceCharge(bytes int) float64 { return 2 * insertCharge(bytes) }

// writeCharge returns the RU of a write that succeeds.
func writeCharge(d precondition, ifMatch ETag, deletes bool, bytes int) float64 {
	switch {
	case deletes:
		return deleteCharge
	case d == present || d == anything && ifMatch != 0:
		return replaceCharge(bytes)
	}
	return insertCharge(bytes)
}

// charge returns the RU of the request if it succeeds.
func (r *request) charge() float64 {
	return writeCharge(r.precondition, r.ifMatch, r.ver.Deleted(), len(r.ver.Body))
}

// outcome returns the RU of the request, which ended with err.
func (r *request) outcome(err error) float64 {
	if err != nil {
		return failedCharge
	}
	return r.charge()
}
