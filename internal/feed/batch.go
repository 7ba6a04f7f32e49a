package feed

import (
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
)

// Limits of a batch.
const (
	batchItems  = 512
	batchBytes  = 64 << 10
	batchPassed = 8192 // versions looked at for one batch
)

// Kind says what happened.
type Kind uint8

// Kinds of changes.
const (
	Written Kind = iota // the only kind in a feed of latest versions
	Created
	Replaced
	Deleted
	Expired
	DeletedPartition
)

var kindNames = [...]string{"written", "created", "replaced", "deleted", "expired", "partition deleted"}

// String returns the kind in words.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return fmt.Sprintf("change kind %d", uint8(k))
	}
	return kindNames[k]
}

// Change is a version as the feed shows it. It may be kept.
type Change struct {
	Kind     Kind
	Seq      uint64
	Previous uint64 // the sequence of the version before, in a feed of all versions; 0: there was none
	Modified int64  // milliseconds
	Expires  int64  // milliseconds; 0: never
	Body     []byte
	ID, PK   []byte // id and encoded partition key
	Batch    *Batch
}

// Batch is what the changes of a batch have in common: their position, except for the
// sequence of one entry.
type Batch struct {
	position Position
	entry    int // index of the entry of position that the batch belongs to
}

// Position returns the position behind the change of the batch that has a sequence.
func (b *Batch) Position(seq uint64) Position {
	p := b.position
	p.entries = slices.Clone(p.entries)
	p.entries[b.entry].seq = seq
	p.entries = joined(p.entries)
	return p
}

// found is a change of a batch. Its body, id and partition key follow each other in
// the text of the feed.
type found struct {
	kind              Kind
	seq, previous     uint64
	modified, expires int64
	body, id, pk      int
}

// handOut passes the batch of a part to the body of the loop, and returns whether the loop
// goes on.
func (f *Feed) handOut(i int, show func(Change) bool) bool {
	if len(f.found) == 0 {
		return true
	}
	batch := &Batch{entry: i, position: Position{
		kind: positionAt, container: f.o.ID, since: f.since, entries: slices.Clone(f.parts),
	}}
	text := append([]byte(nil), f.text...) // a copy: the caller may keep the changes
	for j := range f.found {
		n := &f.found[j]
		ch := Change{
			Kind: n.kind, Seq: n.seq, Previous: n.previous, Modified: n.modified, Expires: n.expires, Batch: batch,
		}
		ch.Body, text = text[:n.body:n.body], text[n.body:]
		ch.ID, text = text[:n.id:n.id], text[n.id:]
		ch.PK, text = text[:n.pk:n.pk], text[n.pk:]
		if !show(ch) {
			return false
		}
	}
	return true
}

// fillEnd is how an attempt to make a batch ends.
type fillEnd uint8

const (
	fillNothing  fillEnd = iota // the orders do not match the set of files any more: prepare must run again
	fillBatch                   // the batch is made
	fillReplaced                // other partitions have replaced the partition
	fillExpired                 // versions that the feed has not shown were dropped
)

// fill makes a batch. Errors are those of reads.
func (f *Feed) fill(p Partition, e *entry, to uint64) (fillEnd, error) {
	// A newer version hides one of the window, even if it lies above the window. It
	// must survive a crash: otherwise the feed would never show the hidden one.
	known, _ := p.Durable()
	known = max(known, to)
	t := p.Tree()
	guard := t.Env.Epoch.Enter()
	defer guard.Leave()
	defer f.closeSources()
	v := t.Version.Load()
	if t.Dropped.Load() {
		return fillReplaced, nil // v may be empty
	}
	if f.o.AllVersions && e.seq < t.ChangeFloor.Load() {
		return fillExpired, nil
	}
	if ready, err := f.openSources(v, e); !ready || err != nil {
		return fillNothing, err
	}
	past := p.Past()
	var k item.Key
	var ver item.Version
	last := e.seq
	for passed := 0; ; passed++ {
		s := f.nextSource()
		if s == nil || s.seq > to {
			break
		}
		if s.seq == last && !s.ends { // the same write, in memory and in a file
			s.next()
			continue
		}
		if passed == batchPassed || len(f.found) == batchItems || len(f.text) >= batchBytes {
			e.seq = last
			return fillBatch, nil
		}
		if s.ends {
			// The versions of s behind this sequence are not in order yet.
			e.seq = s.seq
			return fillBatch, nil
		}
		own, err := s.read(&k, &ver)
		if err != nil {
			return fillNothing, err
		}
		last = ver.Seq
		if own && f.o.Wants(&k) && ver.Modified >= f.since {
			if err := f.take(v, &k, &ver, known, past, p.MarksExpiry()); err != nil {
				return fillNothing, err
			}
		}
		s.next()
	}
	e.seq = to
	return fillBatch, nil
}

// take adds a version to the batch, if the feed shows it.
func (f *Feed) take(v *lsm.Version, k *item.Key, ver *item.Version, known uint64, past lifetime.Past, marks bool) error {
	epk, err := partmap.EPKFromBytes(k.EPK)
	if err != nil {
		return err
	}
	if f.o.AllVersions {
		return f.takeVersion(v, k, &epk, ver, past, marks)
	}
	if !lsm.Shown(ver, past) {
		return nil
	}
	var newest item.Version
	if _, found, err := v.Lookup(k, &epk, known, nil, true, &newest); err != nil || !found || newest.Seq != ver.Seq {
		return err
	}
	f.add(k, ver, Written, 0)
	return nil
}

// takeVersion adds a version to the batch of a feed of all versions.
func (f *Feed) takeVersion(v *lsm.Version, k *item.Key, epk *partmap.EPK, ver *item.Version, past lifetime.Past, marks bool) error {
	if k.OfPartition() {
		f.add(k, ver, DeletedPartition, 0)
		return nil
	}
	var old item.Version
	_, found, err := v.Lookup(k, epk, ver.Seq-1, nil, true, &old)
	if err != nil {
		return err
	}
	kind, previous := Created, uint64(0)
	if found && !old.Deleted() {
		previous = old.Seq
		// Only the store itself deletes an item that has expired.
		expired := !lsm.Shown(&old, past.At(ver.Modified))
		if marks && ver.Deleted() {
			expired = ver.Expires == lifetime.Never
		}
		switch {
		case ver.Deleted() && expired:
			kind = Expired
		case !expired:
			kind = Replaced
		}
	}
	if ver.Deleted() && kind != Expired {
		if previous == 0 {
			return nil // a transaction has deleted what it had created
		}
		kind = Deleted
	}
	f.add(k, ver, kind, previous)
	return nil
}

func (f *Feed) add(k *item.Key, ver *item.Version, kind Kind, previous uint64) {
	f.found = append(f.found, found{
		kind: kind, seq: ver.Seq, previous: previous, modified: ver.Modified, expires: ver.Expires,
		body: len(ver.Body), id: len(k.ID), pk: len(k.PK),
	})
	f.text = append(append(append(f.text, ver.Body...), k.ID...), k.PK...)
}
