// Package scancache holds parts of files decoded that scans read often.
//
// A stretch is consecutive groups of a file: those that begin in a part of the file of a fixed
// length. Its documents are kept one after the other, so that a scan copies many at once,
// or refers to them where they are.
//
//	text    payload of group 0 | payload of group 1 | …
//	heads   columns and members of group 0 | of group 1 | …
//	groups  what a group is, and where it lies in text and heads
//	runs    documents of consecutive groups that have nothing else, of one logical partition
//	docs    the documents of all runs
//
// Package segment fills and reads a Cache; the engine makes one for all its files. A Cache is
// safe for concurrent use, and no call waits. Invariants:
//
//  1. A Stretch never changes. It is valid as long as it is referred to.
//  2. It has all groups that begin in its part of the file up to the last that it has.
//  3. All that it has was verified when it was decoded.
package scancache

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/cleavestore/cleave/internal/hotcache"
)

const (
	// StretchBytes is about how many bytes of documents a stretch has.
	StretchBytes = 32 << 10
	// MostBytes is how many it has at most.
	MostBytes = 4 * StretchBytes

	timesWanted     = 4  // a stretch is held when cursors have wanted it so often
	timesWantedFull = 16 // the same, if others must go
)

// Cache is a cache of stretches. A file is identified by the number of its reader, a stretch
// by its number in the file.
type Cache struct {
	stretches *hotcache.Cache[Stretch]
}

// New returns a cache of up to size bytes; nil, which is a cache of none, if no stretch is sure to fit.
func New(size int64) *Cache {
	if size < 2*MostBytes {
		return nil
	}
	return &Cache{hotcache.New[Stretch](size, StretchBytes)}
}

// Bytes returns how many bytes the stretches take.
func (c *Cache) Bytes() int64 {
	if c == nil {
		return 0
	}
	return c.stretches.Bytes()
}

// Drop drops all stretches. One that is Put at the same time may stay.
func (c *Cache) Drop() {
	if c != nil {
		c.stretches.Drop()
	}
}

// Find returns a stretch, nil if it is not held.
func (c *Cache) Find(file, n uint64) *Stretch { return c.stretches.Find(file, n) }

// Want says that a cursor decodes groups of a stretch that is not held. It reports whether the
// stretch should be Put.
func (c *Cache) Want(file, n uint64) bool {
	times := uint32(timesWanted)
	if c.stretches.Room() < MostBytes {
		times = timesWantedFull
	}
	return c.stretches.Want(file, n, times)
}

// Put keeps the stretch that was made, if there is room, and returns it.
func (c *Cache) Put(file, n uint64, m *Maker) *Stretch {
	s := Stretch{text: slices.Clone(m.text), heads: slices.Clone(m.heads), groups: slices.Clone(m.groups), docs: slices.Clone(m.docs), runs: slices.Clone(m.runs)}
	return c.stretches.Put(file, n, s.size(), s)
}

// Stretch is consecutive groups, decoded.
type Stretch struct {
	text   []byte
	heads  []byte
	groups []Group
	docs   []doc
	runs   []run
}

// Group is a group of a stretch.
type Group struct {
	Off           int64  // in the file
	Seq           uint64 // what its column of sequences is relative to
	Mod           int64  // the same for times
	Size          uint32 // bytes in the file
	head, headLen uint32
	text, textLen uint32
	doc           uint32 // index of its first document, if it is in a run
	run           int32  // index; -1: it has something else
	Count         uint8  // members
	Coding        byte
	WS, WM        uint8 // widths of the columns
}

type run struct {
	end  int    // index of the document behind it
	text uint32 // where its text ends
	mod  int64  // none was modified before
}

// doc is a document of a run. What lies between its body and the next one belongs to it.
type doc struct {
	seq      uint64
	modified int64
	body, id Part
}

// size returns how much memory the stretch takes.
func (s *Stretch) size() int64 {
	return int64(unsafe.Sizeof(*s)) + int64(cap(s.text)+cap(s.heads)) + int64(cap(s.groups))*int64(unsafe.Sizeof(Group{})) +
		int64(cap(s.docs))*int64(unsafe.Sizeof(doc{})) + int64(cap(s.runs))*int64(unsafe.Sizeof(run{}))
}

// Index returns the index of the group at off, -1 if it is not there. It is fast for a neighbour of group near.
func (s *Stretch) Index(off int64, near int) int {
	for _, i := range [...]int{near + 1, near - 1} {
		if i >= 0 && i < len(s.groups) && s.groups[i].Off == off {
			return i
		}
	}
	i, found := slices.BinarySearchFunc(s.groups, off, func(g Group, off int64) int { return cmp.Compare(g.Off, off) })
	if !found {
		return -1
	}
	return i
}

// Group returns group i, its columns and members, and its payload.
func (s *Stretch) Group(i int) (g *Group, head, payload []byte) {
	g = &s.groups[i]
	return g, s.heads[g.head : g.head+g.headLen : g.head+g.headLen], s.text[g.text : g.text+g.textLen : g.text+g.textLen]
}

// HasNext says whether a group follows group i.
func (s *Stretch) HasNext(i int) bool { return i+1 < len(s.groups) }

// Maker is the memory in which a stretch is made.
type Maker struct {
	Stretch
	pk []byte // of the last run
}

var makers = sync.Pool{New: func() any { return new(Maker) }}

// NewMaker returns a Maker without groups. Free gives it back.
func NewMaker() *Maker {
	m := makers.Get().(*Maker)
	m.text, m.heads, m.groups, m.docs, m.runs = m.text[:0], m.heads[:0], m.groups[:0], m.docs[:0], m.runs[:0]
	return m
}

// Free ends the use of the Maker.
func (m *Maker) Free() { makers.Put(m) }

// Groups returns how many groups there are.
func (m *Maker) Groups() int { return len(m.groups) }

// Text returns the payloads so far. The caller appends that of the next group and calls Add.
func (m *Maker) Text() []byte { return m.text }

// Add adds a group, with its columns and members, and with text, which is Text and its payload.
func (m *Maker) Add(g Group, head, text []byte) {
	g.head, g.headLen, g.text, g.textLen, g.run = uint32(len(m.heads)), uint32(len(head)), uint32(len(m.text)), uint32(len(text)-len(m.text)), -1
	m.heads, m.text = append(m.heads, head...), text
	m.groups = append(m.groups, g)
}

// Join says that the group which was added last has only documents, of the logical partition pk, one version
// each. AddDoc follows for each of them.
func (m *Maker) Join(pk []byte) {
	g := &m.groups[len(m.groups)-1]
	if n := len(m.groups); n > 1 && m.groups[n-2].run >= 0 && bytes.Equal(m.pk, pk) {
		g.run = m.groups[n-2].run
	} else {
		g.run = int32(len(m.runs))
		m.runs = append(m.runs, run{mod: math.MaxInt64})
		m.pk = append(m.pk[:0], pk...)
	}
	g.doc = uint32(len(m.docs))
	r := &m.runs[g.run]
	r.text, r.mod = uint32(len(m.text)), min(r.mod, g.Mod)
}

// AddDoc adds a document. body and id are where they lie in the payload of its group.
func (m *Maker) AddDoc(seq uint64, modified int64, body, id Part) {
	g := &m.groups[len(m.groups)-1]
	body.Off, id.Off = body.Off+g.text, id.Off+g.text
	m.docs = append(m.docs, doc{seq, modified, body, id})
	m.runs[g.run].end = len(m.docs)
}
