package exec

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/cleavestore/cleave/index"
)

// The terms of long strings that begin alike have no order among each other. So a walk takes all
// candidates of such a group, and their documents tell the order. What these have told is kept as
// an index.Ordered: the pages that follow, and other queries in the order, take only as many as
// they want (orderedwalk.go).

// alike is what is learnt of a group of candidates of a source whose strings begin alike.
type alike struct {
	o     *indexOrder
	head  []byte       // with which their order keys begin
	all   []uint32     // ordinals of the index with such strings
	rests []index.Rest // of the candidates that were read
	bytes *int64       // of rests, of all sources of the unit
}

// question identifies the order of a group among the candidates of a source, in its scope, that have a term of the span. The
// span may have only one string of the group, and the plan of the source may lack its demand: see indexOrder.rest. Each scope
// has an order of its own, so that the pages of two logical partitions do not replace each other's.
func (o *indexOrder) question(s *candidateSource, head []byte) *index.Question {
	key := bytes.Clone(s.plan.Question()[:])
	key = binary.BigEndian.AppendUint64(key, uint64(s.lo)<<32|uint64(s.hi))
	for _, end := range [][]byte{o.span.From, o.span.To} {
		key = append(binary.AppendUvarint(key, uint64(len(end))), end...)
	}
	q := index.Question(sha256.Sum256(append(key, head...)))
	return &q
}

// orderEnd is the end of the order key of a string.
func (o *indexOrder) orderEnd() []byte {
	if o.falling {
		return []byte{0xFF, 0xFE}
	}
	return []byte{0, 1}
}

// takeAlike takes the candidates with the present term, whose strings begin as those of the
// group. begins says that the order begins among them.
func (w *orderWalk) takeAlike(at []*orderSource, begins bool) error {
	taken := w.taken
	for _, s := range w.sources {
		s.tied = s.tied[:0]
	}
	for _, s := range at {
		if s.ahead {
			w.endGroup(s)
			continue
		}
		p := s.cur.Posting()
		if err := w.takeSome(s, p, s.lo, int(^uint(0)>>1)); err != nil {
			return err
		}
		if a := s.alike; a != nil && bytes.Equal(a.head, w.head) && len(a.all) < index.MostOrdered {
			var err error
			if a.all, err = p.AppendTo(a.all); err != nil {
				return err
			}
		}
	}
	if begins {
		w.taken = taken // it is not known which of these come behind the point
	}
	return nil
}

// endGroup moves a source to its last term of the group that it is in.
func (w *orderWalk) endGroup(s *orderSource) {
	key := s.cur.Key()
	group := bytes.Clone(key[:len(key)-index.CutBytes])
	if w.o.falling {
		s.cur.Seek(append(group, 0)) // behind the string that ends where others are cut
	} else {
		s.cur.SeekBefore(append(group, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF))
	}
}

// beginAlike begins a group, of which key is the first term of all sources. It takes the
// candidates of those sources whose order is kept.
func (w *orderWalk) beginAlike(key []byte, begins bool) error {
	w.head = append(append(w.head[:0], w.prefix...), w.value...)
	if w.top.groups || w.o.elements {
		return nil
	}
	group := key[:len(key)-index.CutBytes]
	walk := orderedWalk{orderWalk: w, wanted: w.most - w.taken}
	for _, s := range w.sources {
		if s.ahead = false; !s.ok || !bytes.HasPrefix(s.cur.Key(), group) {
			continue
		}
		if o := w.c.kept.Order(s.r, w.o.question(s.candidateSource, w.head)); o != nil && o.Covers(s.in) {
			s.ahead = true
			walk.add(s, o, begins)
		} else if s.alike == nil || len(s.alike.all) < Limits.Inside {
			s.alike = &alike{o: w.o, head: bytes.Clone(w.head), bytes: &s.of.learnt}
		}
	}
	return walk.run()
}

// learn notes the order key of the candidate that the source is at.
func (s *candidateSource) learn(key []byte) {
	a := s.alike
	if a == nil || *a.bytes > Limits.OrderMemory {
		return
	}
	rest, ok := bytes.CutPrefix(key, a.head)
	n := bytes.Index(rest, a.o.orderEnd())
	if !ok || n < 1 {
		return
	}
	rest = bytes.Clone(rest[:n+len(a.o.orderEnd())])
	a.rests = append(a.rests, index.Rest{Ordinal: s.at, Text: rest})
	*a.bytes += int64(len(rest)) + 32
}

// keepOrder keeps what was learnt of a source.
func (c *candidates) keepOrder(s *candidateSource) {
	a := s.alike
	if a == nil || len(a.rests) < Limits.Inside || *a.bytes > Limits.OrderMemory || len(a.all) >= index.MostOrdered {
		return
	}
	var all index.Set
	all.Reset(s.lo, s.hi)
	for _, at := range a.all {
		all.Add(at)
	}
	c.kept.KeepOrder(s.Index, a.o.question(s, a.head), index.NewOrdered(a.rests, &all))
}
