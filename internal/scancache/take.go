package scancache

import (
	"bytes"
	"slices"
	"sort"
)

// Taken is a document that was taken from a file: its parts lie in a text. The id may lie in the body.
type Taken struct {
	Seq          uint64
	Modified     int64 // milliseconds since the Unix epoch
	Expires      int64 // the same; 0: never
	Body, ID, PK Part
}

// Part is where a part of a text is.
type Part struct{ Off, Len uint32 }

// Of returns the part of a text. What lies behind it cannot be reached from it.
func (p Part) Of(text []byte) []byte { return text[p.Off : p.Off+p.Len : p.Off+p.Len] }

// Wanted says which documents are taken.
type Wanted struct {
	Written int64  // none that was written before it, milliseconds since the Unix epoch
	Edge    []byte // none whose id is not below it; nil: there is no bound
	Most    int    // so many at most
	Bytes   int    // none, when the text has so many

	// InPlace says that bodies may stay where they are. Those that do are put into Bodies, at the places of their
	// documents among all that were taken; it has nil for those in the text, and may end before the last document.
	InPlace bool
	Bodies  [][]byte
}

// Give appends a document whose body stays where it is.
func (w *Wanted) Give(text []byte, dst []Taken, seq uint64, modified int64, id, body []byte) ([]byte, []Taken) {
	for len(w.Bodies) < len(dst) {
		w.Bodies = append(w.Bodies, nil)
	}
	w.Bodies = append(w.Bodies, body)
	at := uint32(len(text))
	dst = append(dst, Taken{Seq: seq, Modified: modified, Body: Part{at, uint32(len(body))}, ID: Part{at, uint32(len(id))}})
	return append(text, id...), dst
}

// InRun says whether group i has nothing but documents that may be taken.
func (s *Stretch) InRun(i int, w *Wanted) bool {
	run := s.groups[i].run
	return run >= 0 && s.runs[run].mod >= w.Written
}

// Take appends documents of a run to text and dst, from member i of group g on, until dst has so many as most. It
// returns the group and the member of the last that it took, and whether that is the last of the run. If it
// takes none, dst is as it was.
func (s *Stretch) Take(g, i int, w *Wanted, most int, text []byte, dst []Taken) (_ []byte, _ []Taken, group, member int, whole bool) {
	run := &s.runs[s.groups[g].run]
	from := int(s.groups[g].doc) + i
	to := min(run.end, from+most-len(dst))
	if !w.InPlace {
		begin, room := s.docs[from].body.Off, uint32(max(w.Bytes-len(text), 0))
		if s.docs[to-1].body.Off-begin >= room {
			to = from + max(1, sort.Search(to-from, func(i int) bool { return s.docs[from+i].body.Off-begin >= room }))
		}
	}
	if w.Edge != nil && s.behind(to-1, w.Edge) {
		to = s.edge(from, to-1, w.Edge)
	}
	if to == from {
		return text, dst, g, i, false
	}
	n := len(dst)
	dst = slices.Grow(dst, to-from)[:n+to-from]
	if w.InPlace {
		text = s.refer(w, s.docs[from:to], text, dst, n)
	} else {
		text = s.copyTo(text, dst[n:], from, to, run)
	}
	for g+1 < len(s.groups) && s.groups[g+1].run == s.groups[g].run && int(s.groups[g+1].doc) < to {
		g++
	}
	return text, dst, g, to - 1 - int(s.groups[g].doc), to == run.end
}

// behind reports whether document i has an id from edge on.
func (s *Stretch) behind(i int, edge []byte) bool {
	return bytes.Compare(s.docs[i].id.Of(s.text), edge) >= 0
}

// edge returns the first document in [from, to) that is behind the edge, or to, which is. It looks near from
// first: where a partition was just written to, the edge is a few documents away.
func (s *Stretch) edge(from, to int, edge []byte) int {
	for step := 1; from+step <= to; step *= 2 {
		if last := from + step - 1; s.behind(last, edge) {
			to = last
			break
		}
		from += step
	}
	return from + sort.Search(to-from, func(i int) bool { return s.behind(from+i, edge) })
}

// copyTo appends the documents of run in [from, to) to text, and sets dst to them.
func (s *Stretch) copyTo(text []byte, dst []Taken, from, to int, run *run) []byte {
	begin, end := s.docs[from].body.Off, run.text
	if to < run.end {
		end = s.docs[to].body.Off
	}
	by := uint32(len(text)) - begin
	for i := range dst {
		d, t := &s.docs[from+i], &dst[i]
		t.Seq, t.Modified, t.Expires, t.PK = d.seq, d.modified, 0, Part{}
		t.Body.Off, t.Body.Len = d.body.Off+by, d.body.Len
		t.ID.Off, t.ID.Len = d.id.Off+by, d.id.Len
	}
	return append(text, s.text[begin:end]...)
}

// refer appends the ids of docs to text, their bodies to w.Bodies, and sets dst[n:] to them.
func (s *Stretch) refer(w *Wanted, docs []doc, text []byte, dst []Taken, n int) []byte {
	for len(w.Bodies) < n {
		w.Bodies = append(w.Bodies, nil)
	}
	for i := range docs {
		d, t := &docs[i], &dst[n+i]
		t.Seq, t.Modified, t.Expires, t.PK = d.seq, d.modified, 0, Part{}
		t.Body.Off, t.Body.Len = uint32(len(text)), d.body.Len
		t.ID.Off, t.ID.Len = uint32(len(text)), d.id.Len
		text = append(text, d.id.Of(s.text)...)
		w.Bodies = append(w.Bodies, d.body.Of(s.text))
	}
	return text
}
