package index

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Ordered is an order among ordinals of an index that its terms do not tell: that of documents by
// strings which are longer than MaxString and begin alike. Each has the rest of its string in a
// form that bytes.Compare puts in order, and of which none is the beginning of another. Of a rest
// only its first bytes are kept.
type Ordered struct {
	list   []uint32 // by rest, then by ordinal
	heads  []uint64 // of each the first bytes of its rest behind common, zeros behind its end
	common []byte   // with which all rests begin
	ties   Set      // the places in list with the same rest as the place before
	others *Set     // ordinals with such a string that list lacks; nil: none
}

// MostOrdered is about how many ordinals an Ordered may have that a Kept keeps.
const MostOrdered = KeptBytes / 2 / 12

// Rest is an ordinal with the rest of its string.
type Rest struct {
	Ordinal uint32
	Text    []byte
}

// NewOrdered puts the ordinals of a list in order, and changes it. all are the ordinals of the documents that have
// such a string in the index, and are taken over; of the list it leaves out others, and what is there twice.
func NewOrdered(list []Rest, all *Set) *Ordered {
	list = slices.DeleteFunc(list, func(r Rest) bool {
		some := all.Contains(r.Ordinal)
		all.Remove(r.Ordinal)
		return !some
	})
	slices.SortFunc(list, func(a, b Rest) int {
		if c := bytes.Compare(a.Text, b.Text); c != 0 {
			return c
		}
		return int(int64(a.Ordinal) - int64(b.Ordinal))
	})
	o := &Ordered{list: make([]uint32, len(list)), heads: make([]uint64, len(list)), others: all}
	if len(list) > 0 {
		first, last := list[0].Text, list[len(list)-1].Text
		n := 0
		for n < len(first) && n < len(last) && first[n] == last[n] {
			n++
		}
		o.common = bytes.Clone(first[:n])
	}
	o.ties.Reset(0, uint32(len(list)))
	for i := range list {
		var head [8]byte
		copy(head[:], list[i].Text[len(o.common):])
		o.list[i], o.heads[i] = list[i].Ordinal, binary.BigEndian.Uint64(head[:])
		if i > 0 && bytes.Equal(list[i].Text, list[i-1].Text) {
			o.ties.Add(uint32(i))
		}
	}
	if all.Empty() {
		o.others = nil
	}
	return o
}

// Covers says whether the order has all ordinals of a set that have such a string.
func (o *Ordered) Covers(set *Set) bool {
	return o.others == nil || !set.Meets(o.others)
}

// Len returns the number of places.
func (o *Ordered) Len() int { return len(o.list) }

// At returns the ordinal at a place.
func (o *Ordered) At(place int) uint32 { return o.list[place] }

// Tied says that a place has the same string as the place before.
func (o *Ordered) Tied(place int) bool { return o.ties.Contains(uint32(place)) }

// AppendHead appends what is known of the rest at a place.
func (o *Ordered) AppendHead(dst []byte, place int) []byte {
	return binary.BigEndian.AppendUint64(append(dst, o.common...), o.heads[place])
}

func (o *Ordered) bytes() int64 {
	n := len(o.common) + 12*len(o.list) + 8*len(o.ties.words)
	if o.others != nil {
		n += 8 * len(o.others.words)
	}
	return int64(n)
}
