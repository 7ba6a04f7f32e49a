package lsm

import (
	"bytes"
	"context"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/segment"
)

// Cursor merges the memtables and runs of a version. For each key it shows the
// newest version at or below a sequence, tombstones included, in either direction. From
// open to close it is used inside epoch guards in which its version is still that of the
// partition: so the memtables and files of the version are still there. Its buffers are
// reused by the next open.
type Cursor struct {
	Version *Version        // nil: closed
	Ctx     context.Context // of the reader, set after open; nil: pick cannot be cancelled
	at      uint64
	Since   uint64 // keys whose newest version up to at is not above it may be left out
	reverse bool
	InPlace bool           // set after Open: bodies may stay in mappings (segment.Cursor.InPlace); the files are pinned
	Lo, Hi  *item.Key      // set after Open; keys that are not from Lo to Hi may be left out; nil: none are
	sources []cursorSource // newest first
	current int            // index of the source with the next key, -1 at the end
	Opened  int            // files that were opened: after Start or Seek, of how many runs about
	order   []place        // the sources that have a key, in the order of their keys

	Deleted DeletedKeys
	hidden  item.Version    // what top returns if the item was deleted with its logical partition; Seq 0: it was not
	failure error           // of a source, Deleted or Ctx
	edge    item.KeyCopy    // key at which passPartition leaves a logical partition
	Limits  [2]item.KeyCopy // what lo and hi may point to
}

// place is the place of a source in the order of keys. Of equal keys the newest source
// comes first: its version is the newest.
type place struct {
	source int
	same   bool // its key is that of the place before
}

// cursorSource is a memtable or, if run is set, a run.
type cursorSource struct {
	mem  memtable.Cursor
	run  *Run
	clip *keybounds.Bounds // only keys within it are shown; nil: all
	file int               // index of the open file in run
	seg  *segment.Cursor   // over that file; kept for reuse
	ok   bool

	// passed says how often newer sources hide versions of this one: it rises by passedWorth with each that
	// is hidden and falls by one with each other, from 0 to twice passedOften.
	passed int

	key *item.Key     // of the open cursor, if ok
	ver *item.Version // the same
}

// A run whose versions are passed over shows keys first. A body that is not decoded saves some 350 ns with 1.4 KB, and
// one that is decoded after its key costs some 70 more: so it pays from one version in six on.
const (
	passedWorth = 5
	passedOften = 8
)

// Open begins with the sources of a version.
func (m *Cursor) Open(v *Version, at uint64, reverse bool) {
	m.Close()
	m.Version, m.at, m.reverse = v, at, reverse
	m.Deleted.Begin(v, at)
	tables := 1 + len(v.Frozen)
	n := tables + len(v.Runs)
	if cap(m.sources) < n {
		m.sources = append(m.sources[:cap(m.sources)], make([]cursorSource, n-cap(m.sources))...)
	}
	m.sources = m.sources[:n]
	m.sources[0].useTable(v.Active, at)
	for i := range v.Frozen {
		m.sources[1+i].useTable(v.Frozen[i].Table, at)
		m.sources[1+i].clip = v.Frozen[i].Clip
	}
	for i, r := range v.Runs {
		s := &m.sources[tables+i]
		if s.run = r; i < len(v.Runs)-1 { // a scan that ends soon comes to one key of each newer run that it does not show
			s.passed = passedOften + passedWorth - 1
		}
	}
}

// Close drops the memtables and files. They may go away after it.
func (m *Cursor) Close() {
	for i := range m.sources {
		s := &m.sources[i]
		s.mem.Reset(nil, 0)
		if s.seg != nil {
			s.seg.Reset(nil, 0)
		}
		s.run, s.clip, s.key, s.ver, s.ok, s.passed = nil, nil, nil, nil, false, 0
	}
	m.Version, m.Ctx, m.sources, m.order, m.current, m.Opened = nil, nil, m.sources[:0], m.order[:0], -1, 0
	m.Deleted.v, m.failure, m.hidden, m.Lo, m.Hi, m.InPlace = nil, nil, item.Version{}, nil, nil, false
}

// useTable points the source's cursor at a memtable.
func (s *cursorSource) useTable(t *memtable.Table, at uint64) {
	s.mem.Reset(t, at)
	s.key, s.ver = s.mem.Key(), s.mem.Version()
}

// use points the source's cursor at a file of its run.
func (s *cursorSource) use(file int, m *Cursor) {
	s.file, s.clip = file, s.run.Files[file].Clip
	if s.seg == nil {
		s.seg = new(segment.Cursor)
	}
	m.Opened++
	s.seg.Reset(s.run.Files[file].Reader, m.at)
	s.seg.Within(m.Lo, m.Hi)
	s.seg.KeysFirst(s.passed >= passedOften)
	if m.InPlace {
		s.seg.InPlace()
	}
	s.key, s.ver = s.seg.Key(), s.seg.Version()
}

// Start goes to the first key, in reverse to the last.
func (m *Cursor) Start() {
	for i := range m.sources {
		s := &m.sources[i]
		if s.run == nil {
			s.mem.Within(m.Lo, m.Hi)
			s.ok = s.clip.Start(&s.mem, m.reverse)
			continue
		}
		s.file = -1
		if m.reverse {
			s.file = len(s.run.Files)
		}
		s.nextFile(m)
	}
	m.sort()
	m.pick()
}

// Seek goes to the first key at or after k, in reverse to the last key at or before k. If
// inclusive is false, it skips k itself.
func (m *Cursor) Seek(k *item.Key, inclusive bool) {
	for i := range m.sources {
		s := &m.sources[i]
		if s.run == nil {
			s.mem.Within(m.Lo, m.Hi)
			s.ok = s.clip.Seek(&s.mem, k, m.reverse, inclusive)
		} else {
			s.seekRun(m, k, inclusive)
		}
	}
	m.sort()
	m.pick()
}

// seekRun opens the file that has the key, or else the next file in the direction of the scan.
func (s *cursorSource) seekRun(m *Cursor, k *item.Key, inclusive bool) {
	files := s.run.Files
	s.file = 0
	for s.file < len(files) && files[s.file].before(k) {
		s.file++
	}
	if s.file == len(files) {
		s.ok = false
		if m.reverse {
			s.nextFile(m)
		}
		return
	}
	if s.old(m) || s.outside(m) {
		s.nextFile(m)
		return
	}
	s.use(s.file, m)
	s.ok = s.clip.Seek(s.seg, k, m.reverse, inclusive)
	if !s.ok && s.seg.Err() == nil {
		s.nextFile(m)
	}
}

// nextFile opens the next file of the run, in the direction of the scan, at the first key
// of that file in this direction.
func (s *cursorSource) nextFile(m *Cursor) {
	for s.ok = false; !s.ok; {
		if m.reverse {
			s.file--
		} else {
			s.file++
		}
		if s.file < 0 || s.file >= len(s.run.Files) {
			return
		}
		if s.behind(m) {
			if m.reverse {
				s.file = -1
			} else {
				s.file = len(s.run.Files)
			}
			return
		}
		if s.old(m) || s.outside(m) {
			continue
		}
		s.use(s.file, m)
		s.ok = s.clip.Start(s.seg, m.reverse)
		if s.seg.Err() != nil {
			return
		}
	}
}

// old says whether the file has no version above m.since. Leaving such a file out
// uncovers no overwritten version: the files that are older than it have only older
// versions, and are left out too.
func (s *cursorSource) old(m *Cursor) bool {
	return m.Since > 0 && s.run.Files[s.file].Properties().MaxSeq <= m.Since
}

// outside says whether the file has no key from m.lo to m.hi. Such a file need not be
// opened, and may be damaged.
func (s *cursorSource) outside(m *Cursor) bool {
	return m.Lo != nil && s.run.Files[s.file].outside(m.Lo, m.Hi)
}

// behind says whether the file lies behind the bounds, in the direction of the scan. So do
// the files that follow.
func (s *cursorSource) behind(m *Cursor) bool {
	f := s.run.Files[s.file]
	switch {
	case m.Lo == nil || f.Broken() != nil:
		return false
	case m.reverse:
		return f.before(m.Lo)
	}
	return f.after(m.Hi)
}

// left says whether a key lies behind the bounds, in the direction of the scan.
func (m *Cursor) left(k *item.Key) bool {
	switch {
	case m.Lo == nil:
		return false
	case m.reverse:
		return item.Compare(k, m.Lo) < 0
	}
	return item.Compare(k, m.Hi) > 0
}

// advance moves the source to its next key.
func (s *cursorSource) advance(m *Cursor) {
	switch {
	case s.run == nil && m.reverse:
		s.ok = s.mem.Prev()
	case s.run == nil:
		s.ok = s.mem.Next()
	case m.reverse:
		s.seg.KeysFirst(s.passed >= passedOften)
		s.ok = s.seg.Prev()
	default:
		s.seg.KeysFirst(s.passed >= passedOften)
		s.ok = s.seg.Next()
	}
	s.ok = s.ok && (s.clip == nil || s.clip.Holds(s.key))
	if !s.ok && s.run != nil && s.seg.Err() == nil {
		s.nextFile(m)
	}
}

// pick makes the source with the next key the current one, and its version complete.
func (m *Cursor) pick() {
	m.passDeleted()
	if m.current < 0 {
		return
	}
	if s := &m.sources[m.current]; s.run != nil && !s.seg.Complete() && m.failure == nil {
		m.failure = s.run.Files[s.file].Met(s.seg.Err())
	}
}

// passDeleted finds the source with the next key. It passes over items that were deleted with
// their logical partition where a run allows that (passPartition). If the next key is
// such an item still, it sets hidden.
func (m *Cursor) passDeleted() {
	m.first()
	if !m.Deleted.any {
		return
	}
	m.hidden = item.Version{}
	for passed := 1; m.current >= 0; m.first() {
		if passed++; passed%pacing.Piece == 0 && m.Ctx != nil {
			if err := m.Ctx.Err(); err != nil {
				m.failure = err
				return
			}
		}
		key, ver := m.sources[m.current].key, m.sources[m.current].ver
		if m.left(key) {
			return // however many deleted items follow
		}
		seq, err := m.Deleted.below(key)
		if err != nil {
			m.failure = err
		}
		if err != nil || ver.Seq >= seq {
			return
		}
		if !m.passPartition(key, seq) {
			m.hidden = item.Version{Seq: seq, Flags: item.Tombstone}
			return
		}
	}
}

// passPartition moves runs past the logical partition of a key. It moves a run if the run
// is at that partition and its open file has no version at or above seq. It reports
// whether it moved any.
func (m *Cursor) passPartition(k *item.Key, seq uint64) (moved bool) {
	for i := range m.sources {
		s := &m.sources[i]
		if s.run == nil || !s.ok || s.run.Files[s.file].Properties().MaxSeq >= seq || !item.SamePartition(s.key, k) {
			continue
		}
		if !moved {
			m.edge.Set(k) // k points into a cursor that moves
			if m.edge.ID = nil; !m.reverse {
				m.edge.ID = AfterAllIDs
			}
			moved = true
		}
		s.ok = s.clip.Seek(s.seg, &m.edge.Key, m.reverse, false)
		if !s.ok && s.seg.Err() == nil {
			s.nextFile(m)
		}
	}
	if moved {
		m.sort()
	}
	return moved
}

// first makes the source with the next key the current one.
func (m *Cursor) first() {
	if m.current = -1; len(m.order) > 0 {
		m.current = m.order[0].source
	}
}

// sort puts the sources in order, wherever they are.
func (m *Cursor) sort() {
	m.order = m.order[:0]
	for i := range m.sources {
		m.order = append(m.order, place{source: i})
	}
	for i := len(m.order) - 1; i >= 0; i-- {
		m.sink(i)
	}
}

// sink moves the source at place i of the order, which has moved, behind those with lower keys, and
// drops it if it has no key. The places behind i are in order. It begins in front: in most scans one
// run has nearly all the keys, and stays there.
func (m *Cursor) sink(i int) {
	p := place{source: m.order[i].source}
	if s := &m.sources[p.source]; !s.ok {
		m.order = slices.Delete(m.order, i, i+1)
		if s.run != nil && s.seg != nil && s.seg.Err() != nil && m.failure == nil {
			m.failure = s.run.Files[min(max(s.file, 0), len(s.run.Files)-1)].Met(s.seg.Err())
		}
		return
	}
	for ; i+1 < len(m.order); i++ {
		next := &m.order[i+1]
		c := m.compare(p.source, next.source)
		if c < 0 || c == 0 && p.source < next.source {
			next.same = c == 0
			break
		}
		m.order[i], p.same = *next, c == 0
	}
	m.order[i] = p
}

// compare orders the keys of two sources in the direction of the scan.
func (m *Cursor) compare(a, b int) int {
	c := item.CompareNear(m.sources[a].key, m.sources[b].key)
	if m.reverse {
		return -c
	}
	return c
}

// Valid says whether there is a key. After the end, Err tells why it ended.
func (m *Cursor) Valid() bool { return m.current >= 0 && m.failure == nil }

// Err returns the first error that was met.
func (m *Cursor) Err() error { return m.failure }

// top returns the key and version; both are valid until next.
func (m *Cursor) Top() (*item.Key, *item.Version) {
	s := &m.sources[m.current]
	if m.hidden.Seq != 0 {
		return s.key, &m.hidden
	}
	return s.key, s.ver
}

// Mapped says whether the body of top stays where it is: see segment.Cursor.Mapped.
func (m *Cursor) Mapped() bool {
	s := &m.sources[m.current]
	return s.run != nil && s.seg.Mapped()
}

// Known returns false: a Cursor does not know whether the item is wanted.
func (m *Cursor) Known() bool { return false }

// Next moves every source that is at the present key to its next key.
func (m *Cursor) Next() {
	n := 1
	for n < len(m.order) && m.order[n].same {
		n++
	}
	for n--; n >= 0; n-- {
		s := &m.sources[m.order[n].source]
		if n > 0 {
			s.passed = min(s.passed+passedWorth, 2*passedOften)
		} else {
			s.passed = max(s.passed-1, 0)
		}
		s.advance(m)
		m.sink(n)
	}
	m.pick()
}

// Take is segment.Cursor.Take for all sources: it takes documents of the present logical partition. If it has
// become full, with w.Most documents or w.Bytes of text, the cursor is at the last of them. Otherwise it is at
// the first that Take does not give, or at none.
func (m *Cursor) Take(w *segment.Wanted, text []byte, dst []segment.Taken) (_ []byte, _ []segment.Taken, full bool) {
	if m.reverse || m.Deleted.any {
		return text, dst, false
	}
	most, edge := len(dst)+w.Most, w.Edge
	m.edge.Set(m.sources[m.current].key)
	for m.Valid() && item.SamePartition(m.sources[m.current].key, &m.edge.Key) {
		s, taken := &m.sources[m.current], len(dst)
		w.Most, w.Edge = most-taken, edge
		if len(m.order) > 1 {
			if m.order[1].same {
				w.Most = 1
			} else if k := m.sources[m.order[1].source].key; item.SamePartition(k, &m.edge.Key) && (edge == nil || bytes.Compare(k.ID, edge) < 0) {
				w.Edge = k.ID
			}
		}
		if s.run != nil {
			text, dst = s.seg.Take(w, text, dst)
			if err := s.seg.Err(); err != nil {
				m.failure = s.run.Files[s.file].Met(err)
				break
			}
		} else {
			text, dst = s.takeTable(w, text, dst)
		}
		if len(dst) == taken {
			break
		}
		if len(dst) == most || len(text) >= w.Bytes {
			return text, dst, true
		}
		s.passed = max(s.passed-(len(dst)-taken-1), 0) // Next counts the last one
		m.Next()
	}
	return text, dst, false
}

// takeTable takes the document at the cursor of a memtable.
func (s *cursorSource) takeTable(w *segment.Wanted, text []byte, dst []segment.Taken) ([]byte, []segment.Taken) {
	k, v := s.key, s.ver
	if v.Flags != 0 || v.Expires != 0 || v.Modified < w.Written || w.Edge != nil && bytes.Compare(k.ID, w.Edge) >= 0 {
		return text, dst
	}
	body := segment.Part{Off: uint32(len(text)), Len: uint32(len(v.Body))}
	id := segment.Part{Off: body.Off + body.Len, Len: uint32(len(k.ID))}
	text = append(append(text, v.Body...), k.ID...)
	return text, append(dst, segment.Taken{Seq: v.Seq, Modified: v.Modified, Body: body, ID: id})
}

// AfterAllIDs sorts after every id: it is longer than an id can be.
var AfterAllIDs = bytes.Repeat([]byte{0xFF}, item.MaxID+1)
