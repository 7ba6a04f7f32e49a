package restore

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// change is what makes an item of the container as it is in the backup.
type change int

const (
	none change = iota
	create
	replace
	remove
)

// judge compares an item of the backup with that of the container; nil stands for no item.
// An item of the backup that has expired stands for no item too.
func (s *session) judge(want, have *engine.Item) change {
	switch {
	case want == nil && have == nil:
		return none
	case want == nil:
		return remove
	case have == nil:
		return create
	case bytes.Equal(want.Body, have.Body) && sameExpiry(s.expires(want), have.Expires):
		return none
	}
	return replace
}

// expired says whether an item of the backup has expired since.
func (s *session) expired(want *engine.Item) bool {
	return want != nil && !s.expires(want).IsZero() && !s.expires(want).After(s.o.Now())
}

// unsaid is the default time to live of the temporary store where that of the container is
// NoExpiry. Items that go by the default then differ from those that live for ever by
// themselves. None has it as a time of its own.
const unsaid = 200*365*24*time.Hour + 12_345*time.Millisecond

// unsaid says that an item of the backup has no time to live of its own, where the default is
// NoExpiry.
func (s *session) unsaid(want *engine.Item) bool {
	return s.follows && s.ttl == engine.NoExpiry && want.Expires.Equal(want.Modified.Add(unsaid))
}

// expires returns when an item of the backup expires, zero: never.
func (s *session) expires(want *engine.Item) time.Time {
	if s.unsaid(want) {
		return time.Time{}
	}
	return want.Expires
}

// sameDefault says, after a scan, whether the container has gone by the default time to live
// by which the items of the backup are judged.
func (s *session) sameDefault() error {
	if s.follows && s.to.Def().DefaultTTL != s.ttl {
		return fmt.Errorf("%w: the default time to live of the container has changed since the restore began", engine.ErrConflict)
	}
	return nil
}

// sameExpiry says whether two items expire at the same time. An item that was restored
// expires later than in the backup by the time that its transaction took.
func sameExpiry(a, b time.Time) bool {
	if a.IsZero() || b.IsZero() {
		return a.IsZero() == b.IsZero()
	}
	return a.Sub(b).Abs() < time.Second
}

// compare does step 2: it counts the changes, and returns what they take of
// Limits.BatchBytes.
func (s *session) compare() (size int64, err error) {
	var snapshot *engine.Snapshot
	err = s.patiently(func() (err error) {
		snapshot, err = s.to.Snapshot(s.ctx)
		return err
	})
	if err != nil {
		return 0, err
	}
	defer snapshot.Close()
	key := int64(len(s.key.Encoded()))
	err = s.patiently(func() (err error) {
		s.result, size = Result{}, 0
		err = merge(s.stored(""), snapshot.Scan(s.ctx, s.key, engine.IDRange{}, nil), func(id string, want, have *engine.Item) error {
			s.highest = id
			if s.expired(want) {
				want = nil
			}
			if want != nil {
				s.result.Items++
			}
			kind := s.judge(want, have)
			if kind == none && want != nil {
				s.result.Unchanged++
			}
			if kind != none {
				size += key + int64(len(id)) + s.result.count(kind, want)
			}
			return nil
		})
		if err == nil {
			err = s.sameDefault()
		}
		return err
	})
	return size, err
}

// count adds a change, and returns the bytes of the document that it writes.
func (r *Result) count(kind change, want *engine.Item) (written int64) {
	switch kind {
	case create:
		r.Created++
	case replace:
		r.Replaced++
	case remove:
		r.Deleted++
	}
	if want != nil {
		written = int64(len(want.Body))
	}
	r.Bytes += written
	return written
}

// stored scans what the backup has of the logical partition, from behind an id.
func (s *session) stored(after string) iter.Seq2[engine.Item, error] {
	return s.from.Scan(s.ctx, s.key, engine.IDRange{After: after}, nil)
}

// errStop ends a merge without an error.
var errStop = errors.New("stop")

// merge goes through two scans at once, in the order of ids, and calls do for each id with
// the items that they have; nil stands for no item.
func merge(backup, present iter.Seq2[engine.Item, error], do func(id string, want, have *engine.Item) error) error {
	nextWant, stopWant := iter.Pull2(backup)
	defer stopWant()
	nextHave, stopHave := iter.Pull2(present)
	defer stopHave()
	want, wantErr, wantOK := nextWant()
	have, haveErr, haveOK := nextHave()
	for wantOK || haveOK {
		if wantOK && wantErr != nil {
			return wantErr
		}
		if haveOK && haveErr != nil {
			return haveErr
		}
		order := 0 // of the id in the backup relative to that in the container
		switch {
		case !haveOK:
			order = -1
		case !wantOK:
			order = 1
		default:
			order = strings.Compare(want.ID, have.ID)
		}
		var err error
		switch {
		case order < 0:
			err = do(want.ID, &want, nil)
		case order > 0:
			err = do(have.ID, nil, &have)
		default:
			err = do(want.ID, &want, &have)
		}
		if errors.Is(err, errStop) {
			return nil
		}
		if err != nil {
			return err
		}
		if order <= 0 {
			want, wantErr, wantOK = nextWant()
		}
		if order >= 0 {
			have, haveErr, haveOK = nextHave()
		}
	}
	return nil
}
