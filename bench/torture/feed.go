package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/cleavestore/cleave/engine"
)

// piece is a piece of a change feed, as a consumer in the child tells it.
type piece struct {
	Opaque   bool
	Position string // behind the changes
	Changes  []shown
}

// shown is a change that a feed has shown.
type shown struct {
	Lane int
	ID   string
	N    int // operation that wrote the document; -1 without one
	Kind engine.ChangeKind
}

// consumer is a reader of the change feeds of both containers. It outlives crashes:
// each child goes on from its positions.
type consumer struct {
	positions [2]string // of the documents, and of the opaque container
	seen      []map[string]int
	last      []int     // operation of each lane that was shown last
	shadows   []*shadow // of the lanes of the opaque container; nil for others
	shown     int
	from      [2]string // positions before the last pieces
}

func newConsumer(sh shape, seed uint64) *consumer {
	f := &consumer{positions: [2]string{"start", "start"}, last: make([]int, sh.Lanes), shadows: make([]*shadow, sh.Lanes)}
	for i := range sh.Lanes {
		f.seen = append(f.seen, make(map[string]int))
		if l := newLane(sh, seed, i); l.opaque {
			f.shadows[i] = &shadow{lane: l}
		}
	}
	return f
}

// shadow is a lane as a feed of all versions has shown it. The feed must show each
// change of each operation.
type shadow struct {
	lane *lane
	left []shown // changes of its last operation that the feed has not shown yet
}

// take takes the next change, and says whether it is one that must come next. Those of
// one operation may come in any order.
func (s *shadow) take(ch shown) bool {
	if ch.Kind == engine.ChangeDeletedPartition && len(s.left) == 0 && len(s.lane.docs) == 0 {
		return true // of an empty lane, which the model need not have noticed
	}
	s.settle(s.lane.n + math.MaxInt32)
	i := slices.Index(s.left, ch)
	if i < 0 {
		return false
	}
	s.left = slices.Delete(s.left, i, i+1)
	return true
}

// settle passes over operations that change nothing, and begins the next one that
// does, if it is none behind most.
func (s *shadow) settle(most int) {
	for len(s.left) == 0 && s.lane.n < most {
		op := s.lane.next()
		s.left = s.lane.shows(op)
		s.lane.apply(op)
	}
}

// shows returns the changes of an operation that a feed of all versions shows.
func (l *lane) shows(op operation) (all []shown) {
	if op.verb == clearLane {
		if len(l.docs) > 0 {
			all = append(all, shown{Lane: l.number, N: -1, Kind: engine.ChangeDeletedPartition})
		}
		return all
	}
	for _, c := range op.changes {
		_, there := l.docs[c.id]
		ch := shown{Lane: l.number, ID: c.id, N: c.count, Kind: engine.ChangeCreated}
		if c.count < 0 {
			ch.Kind = engine.ChangeDeleted
		} else if there {
			ch.Kind = engine.ChangeReplaced
		}
		all = append(all, ch)
	}
	return all
}

func number(opaque bool) int {
	if opaque {
		return 1
	}
	return 0
}

// take applies a piece.
func (f *consumer) take(p piece) error {
	for _, ch := range p.Changes {
		if ch.Lane < 0 || ch.Lane >= len(f.seen) {
			return violation("the feed shows a lane %d", ch.Lane)
		}
		f.shown++
		seen := f.seen[ch.Lane]
		_, there := seen[ch.ID]
		if ch.N >= 0 {
			if ch.N < f.last[ch.Lane] {
				return violation("the feed shows operation %d of lane %d after operation %d, between %s and %s, after a piece from %s: %v",
					ch.N, ch.Lane, f.last[ch.Lane], f.positions[number(p.Opaque)], p.Position, f.from[number(p.Opaque)], p.Changes)
			}
			f.last[ch.Lane] = ch.N
		}
		wrong := false
		switch ch.Kind {
		case engine.ChangeWritten:
			wrong = p.Opaque
			seen[ch.ID] = ch.N
		case engine.ChangeCreated:
			wrong = there || !p.Opaque
			seen[ch.ID] = ch.N
		case engine.ChangeReplaced:
			wrong = !there
			seen[ch.ID] = ch.N
		case engine.ChangeDeleted:
			wrong = !there
			delete(seen, ch.ID)
		case engine.ChangeDeletedPartition:
			clear(seen)
		default:
			wrong = true
		}
		if s := f.shadows[ch.Lane]; !wrong && s != nil && !s.take(ch) {
			return violation("the feed shows that %s of lane %d was %v at operation %d; operation %d comes next, of which it has not shown %v; between %s and %s, after a piece from %s: %v",
				ch.ID, ch.Lane, ch.Kind, ch.N, s.lane.n, s.left, f.positions[number(p.Opaque)], p.Position, f.from[number(p.Opaque)], p.Changes)
		}
		if wrong {
			return violation("the feed shows that %s of lane %d was %v at operation %d; it was there: %t; between %s and %s, after a piece from %s: %v",
				ch.ID, ch.Lane, ch.Kind, ch.N, there, f.positions[number(p.Opaque)], p.Position, f.from[number(p.Opaque)], p.Changes)
		}
	}
	f.from[number(p.Opaque)], f.positions[number(p.Opaque)] = f.positions[number(p.Opaque)], p.Position
	return nil
}

// compare looks whether the consumer, which has read everything, has all that the
// models have. A feed of latest versions tells of no deletes.
func (f *consumer) compare(is models) error {
	for i, l := range is {
		if err := f.compareLane(i, l); err != nil {
			return err
		}
	}
	return nil
}

// compareLane is compare for one lane.
func (f *consumer) compareLane(i int, l *lane) error {
	for id, c := range l.docs {
		if n, there := f.seen[i][id]; !there || n != c.count {
			return violation("lane %d: %s is of operation %d; the feed has shown it: %t, of operation %d", i, id, c.count, there, n)
		}
	}
	if s := f.shadows[i]; s != nil {
		if s.settle(l.n); len(s.left) > 0 {
			return violation("lane %d: the feed of all versions has not shown %v of operation %d", i, s.left, s.lane.n)
		}
	}
	if l.opaque && len(f.seen[i]) != len(l.docs) {
		return violation("lane %d: %d documents by the feed of all versions, %d by the model", i, len(f.seen[i]), len(l.docs))
	}
	return nil
}

// feed reads a feed from a position on and gives it to take in pieces. With follow
// it ends with ctx.
func (cs containers) feed(ctx context.Context, opaque bool, from string, lanes models, follow bool, take func(piece) error) error {
	at, err := engine.ParsePosition(from)
	if err != nil {
		return err
	}
	byKey := make(map[engine.PartitionKey]*lane)
	for _, l := range lanes {
		if l.opaque == opaque {
			byKey[l.key()] = l
		}
	}
	p := piece{Opaque: opaque}
	var taken error
	flush := func(to engine.ChangePosition) {
		if taken == nil && (len(p.Changes) > 0 || !follow) {
			p.Position = to.String()
			taken = take(p)
			p.Changes = p.Changes[:0]
		}
	}
	c := cs.documents
	if opaque {
		c = cs.opaque
	}
	for ch, err := range c.Changes(ctx, engine.AllPartitions(), at, &engine.ChangeOptions{AllVersions: opaque, Follow: follow, Progress: flush}) {
		if follow && ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		l := byKey[ch.Key]
		if l == nil {
			continue // written beside the story
		}
		s := shown{Lane: l.number, ID: ch.ID, N: -1, Kind: ch.Kind}
		switch ch.Kind {
		case engine.ChangeWritten, engine.ChangeCreated, engine.ChangeReplaced:
			made, ok := l.changeOf(ch.ID, ch.Body)
			if !ok {
				return violation("lane %d: nobody has written %s as the feed shows it: %.80q", l.number, ch.ID, ch.Body)
			}
			s.N = made.count
		}
		if p.Changes = append(p.Changes, s); len(p.Changes) == 40 {
			flush(ch.Position())
		}
		if taken != nil {
			break
		}
	}
	return taken
}

// drain reads both feeds to their ends.
func (f *consumer) drain(ctx context.Context, cs containers, is models) error {
	for i, opaque := range []bool{false, true} {
		err := cs.feed(ctx, opaque, f.positions[i], is, false, f.take)
		if err != nil && !isViolation(err) && !errors.Is(err, context.Canceled) {
			err = violation("the feed from %s on: %w", strconv.Quote(f.positions[i]), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
