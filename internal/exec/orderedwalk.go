package exec

import (
	"bytes"
	"slices"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/query"
)

// orderedWalk takes the first candidates of a group of strings that begin alike, from all sources
// whose order is kept.
type orderedWalk struct {
	*orderWalk
	wanted int
	queue  []*orderedSource // the one whose candidate comes first is last
	eval   *query.Evaluator // of the value at the path; nil: none was needed
	a, b   []byte
	err    error
}

// orderedSource is a source with a kept order.
type orderedSource struct {
	*orderSource
	order *index.Ordered
	place int // of the candidate that comes next
	count int // of candidates that were taken, without those of skip
	read  int // the place whose order key is in key; -1: none
	key   []byte
}

// add adds a source. It takes its candidates with the value at which the order begins.
func (w *orderedWalk) add(of *orderSource, order *index.Ordered, begins bool) {
	s := &orderedSource{orderSource: of, order: order, read: -1}
	if begins {
		w.skip(s)
	}
	w.enter(s)
}

// settle goes to the next candidate of a source. It returns false if there is none.
func (w *orderedWalk) settle(s *orderedSource) bool {
	for s.place < s.order.Len() && !s.in.Contains(s.order.At(s.place)) {
		s.place++
	}
	return s.place < s.order.Len()
}

// enter puts a source into the queue, at its next candidate, unless it has none.
func (w *orderedWalk) enter(s *orderedSource) {
	if !w.settle(s) {
		return
	}
	at, _ := slices.BinarySearchFunc(w.queue, s, func(a, b *orderedSource) int {
		if c := w.compare(b, b.place, a, a.place); c != 0 {
			return c
		}
		return b.i - a.i
	})
	w.queue = slices.Insert(w.queue, at, s)
}

// compare compares the strings at two places.
func (w *orderedWalk) compare(a *orderedSource, at int, b *orderedSource, bt int) int {
	if a == b {
		for place := at + 1; place <= bt; place++ {
			if !a.order.Tied(place) {
				return -1
			}
		}
		return 0
	}
	w.a, w.b = a.order.AppendHead(w.a[:0], at), b.order.AppendHead(w.b[:0], bt)
	n := min(len(w.a), len(w.b))
	if c := bytes.Compare(w.a[:n], w.b[:n]); c != 0 {
		return c
	}
	return bytes.Compare(w.restAt(a, at), w.restAt(b, bt))
}

// restAt returns the rest of the order key at a place, from the document.
func (w *orderedWalk) restAt(s *orderedSource, place int) []byte {
	if s.read != place && w.err == nil {
		var k item.Key
		var v item.Version
		if w.err = s.Source.Version(s.order.At(place), &k, &v); w.err != nil {
			return nil
		}
		if w.eval == nil {
			w.eval = query.Compile(&query.Filter{}, []query.Path{w.o.read}).Evaluator()
		}
		w.eval.Match(v.Body)
		w.sets.Terms += Limits.TermsPerDocument
		s.read, s.key = place, query.AppendOrder(s.key[:0], &w.eval.Wanted[0], false)
		if w.o.falling {
			query.Invert(s.key)
		}
	}
	return s.key[min(len(s.key), len(w.value)):]
}

// skip goes behind the point at which the order begins. It is not known of candidates with the
// value there which of these come behind it, unless no other path decides.
func (w *orderedWalk) skip(s *orderedSource) {
	point := w.o.after.order[min(len(w.o.after.order), len(w.value)):]
	to := s.order.Len()
	for s.place < to {
		mid := int(uint(s.place+to) / 2)
		if w.against(s, mid, point) < 0 {
			s.place = mid + 1
		} else {
			to = mid
		}
	}
	if s.place == s.order.Len() || w.against(s, s.place, point) != 0 || w.err != nil {
		return
	}
	from := uint32(0)
	if w.o.single {
		if from, _, w.err = s.Cut(&w.o.after.key, nil); w.err != nil {
			return
		}
	}
	for first := true; s.place < s.order.Len() && (first || s.order.Tied(s.place)); first = false {
		at := s.order.At(s.place)
		if w.o.single && at >= from {
			return
		}
		if s.place++; !w.o.single && s.in.Contains(at) {
			w.takeOne(s.orderSource, at)
			w.orderWalk.taken--
		}
	}
}

// against compares the string at a place with the rest of an order key.
func (w *orderedWalk) against(s *orderedSource, place int, rest []byte) int {
	w.a = s.order.AppendHead(w.a[:0], place)
	n := min(len(w.a), len(rest))
	if c := bytes.Compare(w.a[:n], rest[:n]); c != 0 {
		return c
	}
	return bytes.Compare(w.restAt(s, place), rest)
}

// run takes as many candidates as are wanted, and those with the same value as the last of
// them. Of a source it takes no more than are wanted if the keys decide between these.
func (w *orderedWalk) run() error {
	var last *orderedSource
	at := 0
	for n := 0; len(w.queue) > 0 && w.err == nil; n++ {
		if w.err = w.sets.Ended(); w.err != nil {
			break
		}
		s := w.queue[len(w.queue)-1]
		if n >= w.wanted && w.compare(last, at, s, s.place) != 0 {
			for _, s := range w.queue {
				w.leaveOrdered(s)
			}
			break
		}
		w.queue = w.queue[:len(w.queue)-1]
		last, at = s, s.place
		w.takeOne(s.orderSource, s.order.At(at))
		s.place++
		if s.count++; w.o.single && s.count >= w.wanted {
			if w.settle(s) {
				w.leaveOrdered(s)
			}
			continue
		}
		w.enter(s)
	}
	return w.err
}

// leaveOrdered leaves out the candidates of a source from the next one on: see leaveAt.
func (w *orderedWalk) leaveOrdered(s *orderedSource) {
	w.more = true
	if !w.unsure || w.err != nil {
		return
	}
	end := append(bytes.Clone(w.value), w.restAt(s, s.place)...)
	if w.o.single {
		var k item.Key
		var v item.Version
		if w.err = s.Source.Version(s.order.At(s.place), &k, &v); w.err != nil {
			return
		}
		end = append(append(append(end, k.EPK...), k.PK...), k.ID...)
	}
	w.leave(end)
}
