package index

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// stream yields terms in order with the ordinals that have them.
type stream interface {
	// next moves to the next term; false: there is none, or it failed.
	next() (bool, error)
	// key returns the term, valid until next.
	key() []byte
	// list returns the ordinals, in order and at least one, valid until next, and until list of
	// another stream.
	list() []uint32
	// disorder returns the error for terms that do not rise.
	disorder() error
}

// WriteTo writes the index of a file of so many versions, in pieces, to emit.
// Nothing may be added to the builder afterwards, which Close ends.
func (b *Builder) WriteTo(emit func([]byte) error, items uint32) error {
	if items > MaxItems {
		return fmt.Errorf("index: %d versions, limit %d", items, MaxItems)
	}
	w := newWriter(emit)
	streams, err := b.versionStreams()
	if err != nil {
		return err
	}
	if len(b.terms) > 0 {
		b.remember()
		s, failed := b.sorted()
		if failed != nil {
			return failed
		}
		streams = append(streams, s)
	}
	runs, err := b.runStreams(b.spilled)
	if err != nil {
		return err
	}
	streams = append(streams, runs...)
	for _, in := range b.inputs {
		streams = append(streams, newTaken(in, b.worked))
	}
	if err := b.mergeTo(w, streams, items); err != nil {
		return err
	}
	return w.finish(items, b.c, b.Written)
}

// Close lets go of what the builder holds. It may be called more than once.
func (b *Builder) Close() {
	if b.builderMemory != nil {
		b.forget()
		builderMemories.Put(b.builderMemory)
		b.builderMemory = nil
	}
	if b.spill != nil {
		b.spill.Close()
		b.spill = nil
	}
}

var errDisorder = errors.New("index: terms do not rise")

// mergeTo writes the terms of streams, those of one term together.
func (b *Builder) mergeTo(w *writer, streams []stream, items uint32) error {
	var heap mergeHeap
	for _, s := range streams {
		ok, err := s.next()
		if err != nil {
			return err
		}
		if ok {
			heap = append(heap, headed{s.key(), s})
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		heap.down(i)
	}
	var key []byte
	var ordinals []uint32
	var set Set
	for len(heap) > 0 {
		if heap.alone() {
			list := heap[0].list()
			if err := w.add(heap[0].term, list); err != nil {
				return err
			}
			if err := b.worked(termWork + len(list)); err != nil {
				return err
			}
			if err := heap.pop(w.last); err != nil {
				return err
			}
			continue
		}
		key = append(key[:0], heap[0].term...)
		ordinals = ordinals[:0]
		ordered := true
		for len(heap) > 0 && bytes.Equal(heap[0].term, key) {
			n := len(ordinals)
			ordinals = append(ordinals, heap[0].list()...)
			if n > 0 && ordinals[n] < ordinals[n-1] {
				ordered = false
			}
			if err := heap.pop(key); err != nil {
				return err
			}
		}
		var err error
		switch {
		case ordered:
			err = w.add(key, ordinals)
		case uint64(len(ordinals))*sparseIn < uint64(items):
			slices.Sort(ordinals)
			err = w.add(key, ordinals)
		default:
			set.Reset(0, items)
			for _, o := range ordinals {
				set.Add(o)
			}
			err = w.addSet(key, &set)
		}
		if err != nil {
			return err
		}
		if err := b.worked(termWork + len(ordinals)); err != nil {
			return err
		}
	}
	return nil
}

// sparseIn says which ordinals are faster to sort than to find in a set of all items: fewer than
// one in so many.
const sparseIn = 512

// termWork is what the work for a term takes beside its ordinals.
const termWork = 16

// headed is a stream and the term that it is at, valid until its next.
type headed struct {
	term []byte
	stream
}

// mergeHeap has the stream with the lowest term in front.
type mergeHeap []headed

// alone says whether no other stream has the term of the one in front.
func (h mergeHeap) alone() bool {
	for i := 1; i < min(3, len(h)); i++ {
		if bytes.Equal(h[0].term, h[i].term) {
			return false
		}
	}
	return true
}

// pop moves the stream in front, which has the term key, to its next term.
func (h *mergeHeap) pop(key []byte) error {
	front := &(*h)[0]
	ok, err := front.next()
	if err != nil {
		return err
	}
	if !ok {
		last := len(*h) - 1
		*front = (*h)[last]
		*h = (*h)[:last]
	} else if front.term = front.key(); bytes.Compare(front.term, key) <= 0 {
		return front.disorder()
	}
	h.down(0)
	return nil
}

func (h mergeHeap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if bytes.Compare(h[child].term, h[least].term) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// sortedTerms yields the terms of documents.
type sortedTerms struct {
	b        *Builder
	order    []uint32 // terms in order
	ordinals []uint32 // of all terms, in order
	at       int      // of order, -1 before the first
	from, to uint32   // of ordinals
	buf      []byte
}

// sorted sorts the terms of the documents: paths first, then what each has.
func (b *Builder) sorted() (*sortedTerms, error) {
	nodes := b.tree.nodes
	paths := make([]int32, 0, len(nodes))
	for i := range nodes {
		if nodes[i].terms > 0 {
			paths = append(paths, int32(i))
		}
	}
	slices.SortFunc(paths, func(x, y int32) int { return comparePaths(nodes[x].steps, nodes[y].steps) })
	starts := make([]int, len(nodes)) // where a path's terms begin in order
	n := 0
	for _, p := range paths {
		starts[p] = n
		n += int(nodes[p].terms)
	}
	b.order = resized(b.order, n)
	s := &sortedTerms{b: b, order: b.order, at: -1}
	next := slices.Clone(starts)
	for i := range b.terms {
		p := b.terms[i].path
		s.order[next[p]] = uint32(i)
		next[p]++
	}
	for _, p := range paths {
		terms := s.order[starts[p]:next[p]]
		b.sortTerms(terms)
		if err := b.worked(len(terms) * bits.Len(uint(len(terms)))); err != nil {
			return nil, err
		}
	}
	b.place = resized(b.place, len(b.terms))
	place := b.place // of a term's next ordinal
	sum := uint32(0)
	for _, i := range s.order {
		place[i] = sum
		sum += b.terms[i].count
	}
	b.ordinals = resized(b.ordinals, int(sum))
	s.ordinals = b.ordinals
	from := 0
	for _, doc := range b.places {
		for _, i := range b.noted[from:doc.end] {
			s.ordinals[place[i]] = doc.ordinal
			place[i]++
		}
		if err := b.worked(doc.end - from); err != nil {
			return nil, err
		}
		from = doc.end
	}
	return s, nil
}

// comparePaths orders encoded paths as their terms sort: an end, which is not
// part of them, comes before a step.
func comparePaths(a, b string) int { return bytes.Compare([]byte(a), []byte(b)) }

func (s *sortedTerms) next() (bool, error) {
	if s.at++; s.at >= len(s.order) {
		return false, nil
	}
	if s.at%fetchedTerms == 0 {
		s.fetch(s.order[s.at:min(s.at+fetchedTerms, len(s.order))])
	}
	t := &s.b.terms[s.order[s.at]]
	s.from, s.to = s.to, s.to+t.count
	s.buf = append(s.buf[:0], s.b.tree.nodes[t.path].steps...)
	if t.kind == compositeKind {
		s.buf = append(s.buf, s.b.texts[t.value:][:t.size]...)
		return true, nil
	}
	s.buf = append(s.buf, pathEnd, byte(t.kind))
	switch t.kind {
	case Bool:
		s.buf = append(s.buf, byte(t.value))
	case Number:
		s.buf = appendNumber(s.buf, t.value)
	case String:
		s.buf = append(s.buf, s.b.texts[t.value:][:t.size]...)
	}
	return true, nil
}

// fetchedTerms is the number of terms that are fetched together: in their order they lie anywhere
// in memory, as do their texts.
const fetchedTerms = 32

// fetch touches terms and their texts. The loads of these loops do not wait for each other.
func (s *sortedTerms) fetch(order []uint32) {
	var texts [fetchedTerms]uint64
	for i, term := range order {
		if t := &s.b.terms[term]; t.size > 0 {
			texts[i] = t.value
		}
	}
	if len(s.b.texts) > 0 {
		for _, at := range texts[:len(order)] {
			s.b.fetched += uint64(s.b.texts[at])
		}
	}
}

func (s *sortedTerms) key() []byte { return s.buf }

func (s *sortedTerms) disorder() error { return errDisorder }

func (s *sortedTerms) list() []uint32 { return s.ordinals[s.from:s.to] }

// versionStreams returns the terms that say something of versions. Those with times are sorted in
// pieces: mergeTo joins them.
func (b *Builder) versionStreams() ([]stream, error) {
	v := &b.versions
	streams := []stream{&termStream{term: termDeleted, ordinals: v.deleted}, &termStream{term: termOlder, ordinals: v.older}}
	for _, of := range []struct {
		term     []byte
		versions []stamped
	}{{termWritten, v.written}, {termExpires, v.expires}} {
		for piece := range slices.Chunk(of.versions, stampedPiece) {
			slices.SortFunc(piece, func(x, y stamped) int {
				return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.ordinal, y.ordinal))
			})
			if err := b.worked(len(piece) * bits.Len(uint(len(piece)))); err != nil {
				return nil, err
			}
			streams = append(streams, &stampedStream{term: of.term, rest: piece, shared: &v.list})
		}
	}
	return streams, nil
}

// stampedPiece is the number of versions that are sorted at once.
const stampedPiece = 4 << 10

// termStream yields one term, if some version has it.
type termStream struct {
	term     []byte
	ordinals []uint32
	begun    bool
}

func (s *termStream) next() (bool, error) {
	first := !s.begun
	s.begun = true
	return first && len(s.ordinals) > 0, nil
}

func (s *termStream) key() []byte { return s.term }

func (s *termStream) disorder() error { return errDisorder }

func (s *termStream) list() []uint32 { return s.ordinals }

// stampedStream yields the terms of the times of some versions.
type stampedStream struct {
	term   []byte // what comes before the time
	rest   []stamped
	n      int // of rest, that have the present term
	buf    [10]byte
	shared *[]uint32 // list, of all such streams
}

func (s *stampedStream) next() (bool, error) {
	if s.rest = s.rest[s.n:]; len(s.rest) == 0 {
		return false, nil
	}
	for s.n = 1; s.n < len(s.rest) && s.rest[s.n].at == s.rest[0].at; s.n++ {
	}
	return true, nil
}

func (s *stampedStream) key() []byte { return addStamp(append(s.buf[:0], s.term...), s.rest[0].at) }

func (s *stampedStream) disorder() error { return errDisorder }

func (s *stampedStream) list() []uint32 {
	list := (*s.shared)[:0]
	for _, v := range s.rest[:s.n] {
		list = append(list, v.ordinal)
	}
	*s.shared = list
	return list
}

// taken yields the terms of documents of another index, with their new ordinals.
type taken struct {
	in       input
	worked   func(int) error // is called where next passes over a term, with the work
	c        *Cursor
	ordinals []uint32
}

func newTaken(in input, worked func(int) error) *taken { return &taken{in: in, worked: worked} }

func (s *taken) next() (bool, error) {
	if s.c == nil {
		return s.nextFrom(Documents().From)
	}
	return s.take(s.c.Next())
}

// nextFrom begins with the first term at or after key.
func (s *taken) nextFrom(key []byte) (bool, error) {
	s.c = s.in.r.ahead().Cursor()
	return s.take(s.c.Seek(key))
}

// take exchanges the ordinals of the term that the cursor has come to, and goes
// on to the first that has one.
func (s *taken) take(ok bool) (bool, error) {
	for ; ; ok = s.c.Next() {
		if !ok {
			return false, s.c.Err()
		}
		ordinals, err := s.c.Posting().AppendTo(s.ordinals[:0])
		if err != nil {
			return false, err
		}
		n := len(ordinals)
		if s.ordinals = s.in.remap.exchange(ordinals); len(s.ordinals) > 0 {
			return true, nil
		}
		if err := s.worked(termWork + n); err != nil {
			return false, err
		}
	}
}

func (s *taken) key() []byte { return s.c.Key() }

func (s *taken) disorder() error { return s.in.r.corrupt(s.c.Posting().at, errDisorder) }

func (s *taken) list() []uint32 { return s.ordinals }

// spillTerms writes the terms of the documents to the temporary file, as an
// index, and forgets them.
func (b *Builder) spillTerms() error {
	if b.spill == nil {
		f, err := b.temp()
		if err != nil {
			return err
		}
		b.spill = f
	}
	s, err := b.sorted()
	if err != nil {
		return err
	}
	if err := b.spillRun([]stream{s}, 0); err != nil {
		return err
	}
	b.reset()
	return b.joinRuns()
}

// fewRuns is the number of spilled runs that are read at a time in any case. More are only if the limit has room for
// the pieces that each reads ahead.
const fewRuns = 8

// joinRuns joins the newest spilled runs where as many of one level are there as are read at a time: to one
// of the next level.
func (b *Builder) joinRuns() error {
	most := max(fewRuns, int(b.limit/aheadMost))
	for {
		first, last := len(b.spilled)-1, len(b.spilled)-1
		for first > 0 && b.spilled[first-1].level == b.spilled[last].level {
			first--
		}
		if last-first+1 < most {
			return nil
		}
		streams, err := b.runStreams(b.spilled[first:])
		if err != nil {
			return err
		}
		level := b.spilled[last].level + 1
		b.spilled = b.spilled[:first]
		if err := b.spillRun(streams, level); err != nil {
			return err
		}
	}
}

// runStreams returns the terms of spilled runs.
func (b *Builder) runStreams(runs []spilledRun) (streams []stream, err error) {
	for _, run := range runs {
		r, err := Open(&spillSource{b.spill, run})
		if err != nil {
			return nil, err
		}
		streams = append(streams, newTaken(input{r: r}, b.worked))
	}
	return streams, nil
}

// spillRun writes the terms of streams to the temporary file, as an index.
func (b *Builder) spillRun(streams []stream, level int) error {
	run := spilledRun{off: b.spillEnd, level: level}
	var buf []byte
	flush := func(n int) error {
		_, err := b.spill.WriteAt(buf[:n], b.spillEnd)
		if err != nil {
			return fault.IO("write", b.spill.Name(), b.spillEnd, err)
		}
		for page := range slices.Chunk(buf[:n], spillPage) {
			run.sums = append(run.sums, crc32.Checksum(page, castagnoli))
		}
		b.spillEnd += int64(n)
		buf = append(buf[:0], buf[n:]...)
		return nil
	}
	w := newWriter(func(p []byte) error {
		if buf = append(buf, p...); len(buf) >= spillPiece {
			return flush(len(buf) &^ (spillPage - 1))
		}
		return nil
	})
	if err := b.mergeTo(w, streams, b.ordinal+1); err != nil {
		return err
	}
	if err := w.finish(b.ordinal+1, b.c, false); err != nil {
		return err
	}
	if err := flush(len(buf)); err != nil {
		return err
	}
	run.size = b.spillEnd - run.off
	b.spilled = append(b.spilled, run)
	return nil
}

const (
	spillPiece = 256 << 10
	spillPage  = 4 << 10 // of a run: what has a checksum
)

var errNotKept = errors.New("the file has not kept what was written to it")

// spillSource reads a spilled run.
type spillSource struct {
	f   vfs.File
	run spilledRun
}

// Size implements Source.
func (s *spillSource) Size() int64 { return s.run.size }

// View implements Source. The file is never synced: a device that fails or is full may lose
// bytes of it without a word.
func (s *spillSource) View(off, n int64) ([]byte, error) {
	first := off / spillPage
	from, to := first*spillPage, min((off+n+spillPage-1)&^(spillPage-1), s.run.size)
	b := make([]byte, to-from)
	if got, err := s.f.ReadAt(b, s.run.off+from); got < len(b) {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, fault.IO("read", s.f.Name(), s.run.off+from, err)
	}
	sums := s.run.sums[first:]
	for page := range slices.Chunk(b, spillPage) {
		if crc32.Checksum(page, castagnoli) != sums[0] {
			return nil, fault.IO("read", s.f.Name(), s.run.off+from, errNotKept)
		}
		sums = sums[1:]
	}
	return b[off-from:][:n:n], nil
}

// Corrupt implements Source.
func (s *spillSource) Corrupt(off int64, cause error) error {
	return fault.Corrupt(s.f.Name(), s.run.off+off, "%w", cause)
}
