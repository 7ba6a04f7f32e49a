package main

import (
	"context"
	"errors"
	"maps"
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
	last      []int // operation of each lane that was shown last
	shown     int
	from      [2]string // positions before the last pieces
}

func newConsumer(lanes int) *consumer {
	f := &consumer{positions: [2]string{"start", "start"}, last: make([]int, lanes)}
	for range lanes {
		f.seen = append(f.seen, make(map[string]int))
	}
	return f
}

func (f *consumer) copy() *consumer {
	other := *f
	other.last, other.seen = slices.Clone(f.last), slices.Clone(f.seen)
	for i := range other.seen {
		other.seen[i] = maps.Clone(f.seen[i])
	}
	return &other
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
