package keyadvice

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/partmap"
)

// candidate is what was counted of a partition key.
type candidate struct {
	paths     []string
	counter   *counter
	firsts    *counter // values of the first level, if there are more levels
	table     *partmap.Table
	physical  []tally // by partition of table
	total     tally   // of the documents counted
	levels    []level
	tooLong   int64 // documents with a key over the limit
	notScalar int64 // documents whose value is an object, an array or no double
	inexact   int64 // documents with a whole number that a double cannot tell from its neighbours
	longest   int   // bytes of the longest string
	order     order
	enc, text []byte // scratch
}

// level counts the documents whose value at a level is missing.
type level struct{ undefined, null int64 }

func newCandidate(paths []string, table *partmap.Table, maxKeys, heavyMax int) *candidate {
	c := &candidate{
		paths: paths, counter: newCounter(maxKeys, heavyMax), table: table,
		physical: make([]tally, table.Len()), levels: make([]level, len(paths)),
	}
	if len(paths) > 1 {
		c.firsts = newCounter(min(maxKeys, firstKeys), 1)
	}
	return c
}

// name is how a key definition is written: no other one is written so.
func (c *candidate) name() string { return jsondoc.JoinPaths(c.paths) }

// add counts documents whose values at the levels are these.
func (c *candidate) add(t tally, values ...jsondoc.Value) {
	c.enc = c.enc[:0]
	long := false
	first := 0 // bytes of the first level
	for i := range values {
		v, start := &values[i], len(c.enc)
		var ok bool
		if c.enc, ok = v.AppendKey(c.enc, &c.text); !ok {
			c.notScalar += t.documents
			return
		}
		if v.Kind == jsondoc.KindString {
			length := len(c.enc) - start - 2
			c.longest = max(c.longest, length)
			long = long || length > partmap.MaxString
		}
		if beyondDoubles(v) {
			c.inexact += t.documents
		}
		if i == 0 {
			first = len(c.enc)
			if len(values) == 1 && v.Kind != jsondoc.KindUndefined {
				c.order.add(c.enc)
			}
		}
	}
	if long || len(c.enc) > partmap.MaxEncoded {
		c.tooLong += t.documents
		return
	}
	for i := range values {
		switch values[i].Kind {
		case jsondoc.KindUndefined:
			c.levels[i].undefined += t.documents
		case jsondoc.KindNull:
			c.levels[i].null += t.documents
		}
	}
	epk := partmap.HashEncoded(c.enc)
	c.counter.add(c.enc, hashBits(&epk), t)
	if c.firsts != nil {
		c.firsts.add(c.enc[:first], hashOf(c.enc[:first]), t)
	}
	c.total.add(t)
	c.physical[c.table.Find(&epk)].add(t)
}

// beyondDoubles reports whether a value is written as a whole number that
// doubles do not tell from the next one.
func beyondDoubles(v *jsondoc.Value) bool {
	return v.Kind == jsondoc.KindNumber && len(v.Text) >= 16 && !bytes.ContainsAny(v.Text, ".eE") && math.Abs(v.Number()) >= 1<<53
}

// hashBits returns the bits of an EPK that thin a counter: the last ones of
// every level, so that they have nothing to do with the partition it lies in.
func hashBits(epk *partmap.EPK) uint64 {
	var h uint64
	for b := epk.Bytes(); len(b) >= 16; b = b[16:] {
		h = (h ^ binary.BigEndian.Uint64(b[8:])) * 0x9E3779B97F4A7C15
		h ^= h >> 32
	}
	return h
}

// hashOf returns hashBits of an encoded key.
func hashOf(key []byte) uint64 {
	epk := partmap.HashEncoded(key)
	return hashBits(&epk)
}

// order notes whether the values of a property only rise from document to
// document, as those of a date or a counter do.
type order struct {
	last         []byte
	rises, falls int64
	other        int64 // values that are neither numbers nor dates
}

const (
	numberMark = 0x05 // of package partmap's encoding
	stringMark = 0x08
)

// add notes the next value, encoded.
func (o *order) add(enc []byte) {
	if !ranks(enc) {
		o.other++
		return
	}
	if len(o.last) > 0 && o.last[0] == enc[0] {
		switch compareRanked(o.last, enc) {
		case -1:
			o.rises++
		case 1:
			o.falls++
		}
	}
	o.last = append(o.last[:0], enc...)
}

// ranks reports whether an encoded value is a number or begins as a date of ISO
// 8601 does.
func ranks(enc []byte) bool {
	if enc[0] == numberMark {
		return true
	}
	if enc[0] != stringMark || len(enc) < 8 || enc[5] != '-' {
		return false
	}
	for _, c := range enc[1:5] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func compareRanked(a, b []byte) int {
	if a[0] == stringMark {
		return bytes.Compare(a, b)
	}
	x := math.Float64frombits(binary.LittleEndian.Uint64(a[1:]))
	y := math.Float64frombits(binary.LittleEndian.Uint64(b[1:]))
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// rising reports whether the values rise, but for one in a thousand.
func (o *order) rising() bool {
	return o.rises >= 3 && o.falls <= o.rises/1000 && o.other == 0
}

func (t *tally) add(o tally) {
	t.documents += o.documents
	t.bytes += o.bytes
}
