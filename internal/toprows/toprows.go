// Package toprows keeps the first of many rows in memory of a given size.
//
// # Invariants
//
//  1. Rows keeps all rows before its End that it was offered, and none from there on.
//  2. It keeps at most Most rows in at most Memory bytes, or one row that is larger.
//  3. What a row points to is its own memory, or that of the Rows, which is not written again.
package toprows

import (
	"bytes"
	"container/heap"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
)

const (
	rowOverhead = 128
	rowText     = 32 << 10 // the memory of rows grows in steps of this size, in bytes
)

// Row is a row of an order. Its sort key is the order key, EPK, encoded partition key and id,
// one behind the other. Sort keys compare as bytes.
type Row struct {
	Key   []byte // the sort key
	Order int    // length of the order key
	EPK   int    // length of the EPK
	PK    int    // length of the encoded partition key
	Unit  int    // where the row was found
	// Ver is the document, if the row keeps it: then Seq is not 0. If the query has
	// columns, they are its body.
	Ver item.Version
}

func (r *Row) size() int64 { return int64(len(r.Key)+len(r.Ver.Body)) + rowOverhead }

// Rows keeps the first of many rows: all rows before End, and none from End on.
// Rows have any size. It is a heap with the last row on top, and serves one goroutine.
type Rows struct {
	Most   int   // limit of rows
	Memory int64 // limit of bytes; one row is kept even if it is larger
	// End is the key of the first of all rows that were left out; nil: none was.
	// A row behind End is not kept even if there is room: it would be given out before
	// the rows that were left out.
	End []byte

	rows   []Row
	bytes  int64
	heaped bool   // rows are a heap; false: they have no order yet
	text   []byte // memory that rows share while heaped is false
}

// Reserve makes room for so many rows.
func (t *Rows) Reserve(n int) { t.rows = make([]Row, 0, n) }

// Len returns the number of rows.
func (t *Rows) Len() int { return len(t.rows) }

// Sorted returns the rows in their order. No row can be offered afterwards.
func (t *Rows) Sorted() []Row {
	slices.SortFunc(t.rows, func(a, b Row) int { return bytes.Compare(a.Key, b.Key) })
	return t.rows
}

// rowHeap is Rows as a heap.Interface.
type rowHeap Rows

func (h *rowHeap) Len() int           { return len(h.rows) }
func (h *rowHeap) Less(i, j int) bool { return bytes.Compare(h.rows[i].Key, h.rows[j].Key) > 0 }
func (h *rowHeap) Swap(i, j int)      { h.rows[i], h.rows[j] = h.rows[j], h.rows[i] }
func (h *rowHeap) Push(x any)         { h.rows = append(h.rows, x.(Row)) }
func (h *rowHeap) Pop() any {
	last := h.rows[len(h.rows)-1]
	h.rows = h.rows[:len(h.rows)-1]
	return last
}

// heap makes a heap of the rows.
func (t *Rows) heap() {
	if !t.heaped {
		heap.Init((*rowHeap)(t))
		t.heaped = true
	}
}

// Wants says whether a row with this key would be kept, if there is memory.
// If it would not, the row counts as left out.
func (t *Rows) Wants(key []byte) bool {
	if t.End != nil && bytes.Compare(key, t.End) >= 0 {
		return false
	}
	if len(t.rows) < t.Most {
		return true
	}
	t.heap()
	if bytes.Compare(key, t.rows[0].Key) < 0 {
		return true
	}
	t.End = bytes.Clone(key)
	return false
}

// Offer adds a row if it is among the first. It copies the memory that r points to.
func (t *Rows) Offer(r *Row) {
	if !t.Wants(r.Key) {
		return
	}
	if len(t.rows) > 0 && t.bytes+r.size() > t.Memory {
		t.heap()
		if bytes.Compare(r.Key, t.rows[0].Key) > 0 {
			t.End = bytes.Clone(r.Key)
			return
		}
	}
	own := append(append(t.room(len(r.Key)+len(r.Ver.Body)), r.Key...), r.Ver.Body...)
	row := *r
	row.Key, row.Ver.Body = own[:len(r.Key):len(r.Key)], own[len(r.Key):]
	t.bytes += row.size()
	t.rows = append(t.rows, row)
	if t.heaped {
		heap.Fix((*rowHeap)(t), len(t.rows)-1)
	}
	for len(t.rows) > t.Most || t.bytes > t.Memory && len(t.rows) > 1 {
		t.drop()
	}
}

// room returns n bytes of memory for a row. Rows share larger blocks until the rows
// become a heap.
func (t *Rows) room(n int) []byte {
	if t.heaped {
		return make([]byte, 0, n)
	}
	if n > cap(t.text)-len(t.text) {
		t.text = make([]byte, 0, max(n, min(rowText, n*min(t.Most-len(t.rows), rowText))))
	}
	at := len(t.text)
	t.text = t.text[:at+n]
	return t.text[at : at : at+n]
}

// drop leaves out the last row.
func (t *Rows) drop() {
	t.heap()
	t.bytes -= t.rows[0].size()
	t.End = t.rows[0].Key
	last := len(t.rows) - 1
	t.rows[0] = t.rows[last]
	t.rows[last] = Row{}
	if t.rows = t.rows[:last]; last > 0 {
		heap.Fix((*rowHeap)(t), 0)
	}
}

// Merge adds the rows of o.
func (t *Rows) Merge(o *Rows) {
	if t.End == nil || o.End != nil && bytes.Compare(o.End, t.End) < 0 {
		t.End = o.End
	}
	t.rows, t.bytes = append(t.rows, o.rows...), t.bytes+o.bytes
	if t.End != nil {
		t.rows = slices.DeleteFunc(t.rows, func(r Row) bool {
			behind := bytes.Compare(r.Key, t.End) >= 0
			if behind {
				t.bytes -= r.size()
			}
			return behind
		})
	}
	t.heaped = false
	for len(t.rows) > t.Most {
		t.drop()
	}
}
