package writebatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/cleavestore/cleave/internal/conflict"
	"github.com/cleavestore/cleave/internal/docpatch"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/physicaltest"
	"github.com/cleavestore/cleave/internal/uniquekey"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// store is a physical partition that gets batches of one logical partition. It is the
// container of the batches too.
type store struct {
	*testing.T
	*physicaltest.Store
	p     *physical.Partition
	pk    partmap.Key
	epk   partmap.EPK
	rules Rules
	now   int64
	made  int   // documents by patches
	ttl   int64 // by which versions without a time of their own expire; 0: they do not
}

func newStore(t *testing.T) *store {
	s := &store{T: t, Store: physicaltest.New(t), pk: partmap.String("a"), rules: Rules{Operations: 10, Bytes: 1000}, now: 1000}
	s.epk = s.pk.EPK()
	s.Lost = func(err error) error { t.Errorf("a version is lost: %v", err); return err }
	uncertain := s.Uncertain
	s.Uncertain = func(err error) error {
		if err == wal.ErrNoFile {
			return err // the write is done again
		}
		return uncertain(err)
	}
	s.p = s.Partition(1, physicaltest.Whole())
	return s
}

// Past implements Container.
func (s *store) Past() lifetime.Past {
	past := lifetime.Past{Expired: s.now}
	if s.ttl > 0 {
		past.Before = s.now - s.ttl + 1
	}
	return past
}

// Patched implements Container.
func (s *store) Patched(ctx context.Context, _, doc []byte, seq uint64, p *docpatch.Patch) (patched []byte, ttl int64, err error) {
	s.made++
	patched, err = p.Apply(ctx, doc, seq)
	return patched, 0, err
}

// step is an operation of a batch.
type step struct {
	verb  Verb
	id    string
	body  string
	match uint64
	ttl   int64
	patch *docpatch.Patch
}

func (s *store) batch(steps ...step) *Batch {
	s.Helper()
	b := new(Batch)
	b.Begin(s, s.rules, s.pk.Encoded(), &s.epk)
	for _, st := range steps {
		s.OK(b.Add(Op{Verb: st.verb, IfMatch: st.match, TTL: st.ttl, Patch: st.patch}, []byte(st.id), []byte(st.body)))
	}
	return b
}

// locked calls fn with the commit lock held, again if it needs a log file.
func (s *store) locked(fn func() (physical.Record, error)) (w physical.Record, err error) {
	s.Helper()
	once := func() {
		s.p.Commit.Lock()
		defer s.p.Commit.Unlock()
		w, err = fn()
	}
	if once(); err == wal.ErrNoFile {
		s.OK(s.MakeLogFile())
		once()
	}
	return w, err
}

// write does what a committer does after LookAhead.
func (s *store) write(u *Commit) error {
	s.Helper()
	w, err := s.locked(func() (physical.Record, error) {
		if _, err := u.JudgeLocked(s.p); err != nil {
			return physical.Record{}, err
		}
		return u.WriteLocked(s.p, s.now, true)
	})
	if err != nil {
		return err
	}
	return s.p.Show(w)
}

// commit commits a batch in one go.
func (s *store) commit(b *Batch) (*Commit, error) {
	s.Helper()
	u := &Commit{Batch: b}
	b.Link()
	s.OK(u.LookAhead(s.Context(), s.p))
	return u, s.write(u)
}

// must is commit of steps that are not refused.
func (s *store) must(steps ...step) *Commit {
	s.Helper()
	u, err := s.commit(s.batch(steps...))
	s.OK(err)
	return u
}

// shown returns the body of an item, "" if there is none.
func (s *store) shown(id string) string {
	s.Helper()
	k := lsmtest.Key(s.pk, id)
	var v item.Version
	body, ok, err := s.p.Version.Load().Lookup(&k, &s.epk, s.p.Visible.Load(), nil, false, &v)
	s.OK(err)
	if !ok || !lsm.Shown(&v, s.Past()) {
		return ""
	}
	return string(body)
}

// TestPrecondition: each precondition accepts what it says and nothing else.
func TestPrecondition(t *testing.T) {
	live, dead := item.Version{Seq: 7}, item.Version{Seq: 7, Flags: item.Tombstone}
	gone := item.Version{Seq: 7, Expires: 5}
	for _, tc := range []struct {
		name   string
		d      Precondition
		match  uint64
		v      *item.Version
		exists bool
		want   error
	}{
		{"anything, nothing there", Anything, 0, &item.Version{}, false, nil},
		{"an etag, nothing there", Anything, 7, &item.Version{}, false, fault.ErrPrecondition},
		{"the etag", Anything, 7, &live, true, nil},
		{"another etag", Anything, 8, &live, true, fault.ErrPrecondition},
		{"the etag of an expired item", Anything, 7, &gone, true, fault.ErrPrecondition},
		{"create, nothing there", Absent, 0, &item.Version{}, false, nil},
		{"create, deleted", Absent, 0, &dead, true, nil},
		{"create, expired", Absent, 0, &gone, true, nil},
		{"create, there", Absent, 0, &live, true, fault.ErrExists},
		{"replace, there", Present, 0, &live, true, nil},
		{"replace, deleted", Present, 0, &dead, true, fault.ErrNotFound},
		{"replace, expired", Present, 0, &gone, true, fault.ErrNotFound},
		{"replace, another etag", Present, 8, &live, true, fault.ErrPrecondition},
		{"expirer, expired", Stale, 7, &gone, true, nil},
		{"expirer, written since", Stale, 6, &gone, true, fault.ErrPrecondition},
		{"expirer, not expired", Stale, 7, &live, true, fault.ErrPrecondition},
		{"expirer, nothing there", Stale, 7, &gone, false, fault.ErrPrecondition},
	} {
		if err := tc.d.Check(tc.match, tc.v, tc.exists, lifetime.Past{Expired: 10}); err != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

// TestOneRecord: a batch is one record, its operations have the sequences from the record's
// on, and each is judged against what the earlier ones leave.
func TestOneRecord(t *testing.T) {
	for _, ttl := range []int64{0, 5} {
		s := newStore(t)
		s.ttl = ttl
		s.must(step{verb: Upsert, id: "old", body: "{}"})
		before, last := s.Records(s.p, wal.TypeWrite), s.p.LastSeq()
		u := s.must(
			step{verb: Create, id: "x", body: `{"n":1}`},
			step{verb: Replace, id: "x", body: `{"n":2}`},
			step{verb: Delete, id: "old"},
			step{verb: Create, id: "old", body: `{"n":3}`},
			step{verb: Delete, id: "x"},
		)
		if n := s.Records(s.p, wal.TypeWrite) - before; n != 1 {
			t.Errorf("the batch has %d records", n)
		}
		if u.First != last+1 || u.Last() != last+5 || s.p.LastSeq() != last+5 || s.p.Visible.Load() != last+5 {
			t.Errorf("sequences %d to %d, the partition has %d, shows %d", u.First, u.Last(), s.p.LastSeq(), s.p.Visible.Load())
		}
		if x, old := s.shown("x"), s.shown("old"); x != "" || old != `{"n":3}` {
			t.Errorf("x is %q, old is %q", x, old)
		}
	}
}

// TestRefused: a refused batch names its operation and changes nothing.
func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []step
		index int
		want  error
	}{
		{"create of an item", []step{{verb: Upsert, id: "new"}, {verb: Create, id: "old"}}, 1, fault.ErrExists},
		{"replace of nothing", []step{{verb: Upsert, id: "new"}, {verb: Upsert, id: "old"}, {verb: Replace, id: "none"}}, 2, fault.ErrNotFound},
		{"delete of what the batch deletes", []step{{verb: Delete, id: "old"}, {verb: Delete, id: "old"}}, 1, fault.ErrNotFound},
		{"create of what the batch creates", []step{{verb: Create, id: "new"}, {verb: Create, id: "new"}}, 1, fault.ErrExists},
		{"an etag of what the batch writes", []step{{verb: Upsert, id: "new"}, {verb: Upsert, id: "new", match: 2}}, 1, fault.ErrPrecondition},
		{"another etag", []step{{verb: Upsert, id: "old", match: 77}}, 0, fault.ErrPrecondition},
	} {
		for _, ttl := range []int64{0, 5} {
			s := newStore(t)
			s.ttl = ttl
			s.must(step{verb: Create, id: "old", body: "{}"})
			records, last := s.Records(s.p, wal.TypeWrite), s.p.LastSeq()
			versions := s.p.Version.Load().Active.Versions()
			u, err := s.commit(s.batch(tc.steps...))
			var e *Error
			if !errors.As(err, &e) || e.Index != tc.index || e.Op != tc.steps[tc.index].verb.String() || !errors.Is(err, tc.want) {
				t.Errorf("%s, default %d: %v", tc.name, ttl, err)
			}
			if s.Records(s.p, wal.TypeWrite) != records || s.p.LastSeq() != last || s.p.Version.Load().Active.Versions() != versions || s.shown("old") != "{}" {
				t.Errorf("%s, default %d: the batch has changed something", tc.name, ttl)
			}
			if u.Charge(err) >= u.Charge(nil) {
				t.Errorf("%s, default %d: it is charged %v, %v without an error", tc.name, ttl, u.Charge(err), u.Charge(nil))
			}
		}
	}
}

// TestRests: a refusal tells the newest sequence that it depends on.
func TestRests(t *testing.T) {
	s := newStore(t)
	s.must(step{verb: Create, id: "a", body: "{}"}, step{verb: Create, id: "b", body: "{}"})
	b := s.batch(step{verb: Replace, id: "b", body: "{}"}, step{verb: Create, id: "a", body: "{}"})
	b.Link()
	u := Commit{Batch: b}
	s.OK(u.LookAhead(t.Context(), s.p))
	s.p.Commit.Lock()
	defer s.p.Commit.Unlock()
	if rests, err := u.JudgeLocked(s.p); rests != s.p.Commit.LastSeq || !errors.Is(err, fault.ErrExists) {
		t.Errorf("%d, %v, want %d", rests, err, s.p.Commit.LastSeq)
	}
}

// TestOvertaken: what was looked up counts no more when the set of files has changed, and
// writes since then are seen.
func TestOvertaken(t *testing.T) {
	s := newStore(t)
	s.must(step{verb: Create, id: "x", body: "{}"})
	b := s.batch(step{verb: Replace, id: "x", body: `{"n":1}`}, step{verb: Create, id: "y", body: "{}"})
	b.Link()
	u := &Commit{Batch: b}
	s.OK(u.LookAhead(t.Context(), s.p))
	s.p.Freeze()
	s.OK(s.p.FlushFrozen(t.Context()))
	if err := s.write(u); err != ErrAgain {
		t.Fatalf("after a flush: %v", err)
	}
	s.OK(u.LookAhead(t.Context(), s.p))
	s.must(step{verb: Create, id: "y", body: "{}"})
	if err := s.write(u); !errors.Is(err, fault.ErrExists) {
		t.Fatalf("after another write: %v", err)
	}
	s.must(step{verb: Delete, id: "y"})
	s.OK(u.LookAhead(t.Context(), s.p))
	s.OK(s.write(u))
	if s.shown("x") != `{"n":1}` || s.shown("y") != "{}" {
		t.Errorf("x is %s, y is %s", s.shown("x"), s.shown("y"))
	}
}

// TestPatch: a patch is applied to the present version, to what an earlier operation of the
// batch writes, and never to an older version.
func TestPatch(t *testing.T) {
	s := newStore(t)
	s.must(step{verb: Create, id: "x", body: `{"n":1}`})
	var plus, wrong docpatch.Patch
	plus.Increment("/n", 1)
	wrong.Remove("/none")
	b := s.batch(step{verb: Patch, id: "x", patch: &plus}, step{verb: Patch, id: "x", patch: &plus})
	b.Link()
	u := &Commit{Batch: b}
	if !u.Patches() {
		t.Error("the batch has no patches")
	}
	s.OK(u.LookAhead(t.Context(), s.p))
	s.must(step{verb: Upsert, id: "x", body: `{"n":10}`})
	if err := s.write(u); err != ErrAgain {
		t.Fatalf("the document has changed: %v", err)
	}
	s.OK(u.LookAhead(t.Context(), s.p))
	if size, err := u.Weigh(); err != nil || size != int64(2*(len(s.pk.Encoded())+len(`x{"n":11}`))) {
		t.Errorf("size %d, %v", size, err)
	}
	if s.OK(s.write(u)); s.shown("x") != `{"n":12}` {
		t.Errorf("x is %s", s.shown("x"))
	}
	var e *Error
	if _, err := s.commit(s.batch(step{verb: Patch, id: "x", patch: &plus}, step{verb: Patch, id: "x", patch: &wrong})); !errors.As(err, &e) || e.Index != 1 || !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("a wrong patch: %v", err)
	}
	if _, err := s.commit(s.batch(step{verb: Patch, id: "none", patch: &plus})); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("a patch of nothing: %v", err)
	}
}

// TestPatchesTooLarge: patches whose documents are too large together make no more than the
// first that is too many, and the batch takes part again when the documents are smaller.
func TestPatchesTooLarge(t *testing.T) {
	s := newStore(t)
	s.must(step{verb: Create, id: "x", body: fmt.Sprintf(`{"n":1,"s":"%0300d"}`, 0)})
	var plus docpatch.Patch
	plus.Increment("/n", 1)
	patch := step{verb: Patch, id: "x", patch: &plus}
	b := s.batch(patch, patch, patch, patch, patch, patch, patch, patch)
	b.Link()
	u := &Commit{Batch: b}
	var limit *fault.LimitError
	for range 2 {
		s.made = 0
		s.OK(u.LookAhead(t.Context(), s.p))
		if _, err := u.Weigh(); !errors.As(err, &limit) || limit.Size <= 1000 || limit.Limit != 1000 || s.made != 4 {
			t.Errorf("%v, %d documents made", err, s.made)
		}
	}
	s.must(step{verb: Upsert, id: "x", body: `{"n":1}`})
	s.OK(u.LookAhead(t.Context(), s.p))
	if _, err := u.Weigh(); err != nil {
		t.Error(err)
	}
	if s.OK(s.write(u)); s.shown("x") != `{"n":9}` {
		t.Errorf("x is %s", s.shown("x"))
	}
}

// TestLimits: a batch that is full refuses operations and stays as it was. A batch that
// stands for a single write has no limit of bytes.
func TestLimits(t *testing.T) {
	s := newStore(t)
	s.rules.Operations, s.rules.Bytes = 2, 100
	b := s.batch(step{verb: Upsert, id: "x", body: "{}"})
	size := b.Size
	large := bytes.Repeat([]byte("x"), 100)
	for what, err := range map[string]error{"add": b.Add(Op{Verb: Upsert}, []byte("y"), large), "replace": b.Replace(0, Op{Verb: Upsert}, large)} {
		if !errors.Is(err, fault.ErrTooLarge) || b.Len() != 1 || b.Size != size || string(b.Ops[0].Body()) != "{}" {
			t.Errorf("%s: %v, %d operations of %d bytes", what, err, b.Len(), b.Size)
		}
	}
	s.OK(b.Replace(0, Op{Verb: Upsert}, []byte("{ }")))
	s.OK(b.Add(Op{Verb: Upsert}, []byte("y"), nil))
	if b.Size != 2*int64(len(s.pk.Encoded()))+2+3 {
		t.Errorf("size %d", b.Size)
	}
	if err := b.Add(Op{Verb: Upsert}, []byte("z"), nil); !errors.Is(err, fault.ErrTooLarge) {
		t.Errorf("a third operation: %v", err)
	}
	b.Reset()
	b.Unbounded()
	if err := b.Add(Op{Verb: Upsert}, []byte("y"), large); err != nil || b.Len() != 1 {
		t.Errorf("a single write: %v", err)
	}
}

// TestExpires: the first document to expire counts, under the default that holds.
func TestExpires(t *testing.T) {
	s := newStore(t)
	u := s.must(
		step{verb: Upsert, id: "a", body: "{}"}, step{verb: Upsert, id: "b", body: "{}", ttl: 9},
		step{verb: Upsert, id: "c", body: "{}", ttl: 5}, step{verb: Upsert, id: "d", body: "{}", ttl: 7}, step{verb: Delete, id: "a"},
	)
	var fixed, follows lifetime.Life
	follows.Init(true, 3)
	if got := [2]int64{u.Expires(&fixed), u.Expires(&follows)}; got != [2]int64{s.now + 5, s.now + 3} {
		t.Errorf("%v", got)
	}
	if at := s.must(step{verb: Delete, id: "b"}).Expires(&follows); at != 0 {
		t.Errorf("a delete expires at %d", at)
	}
}

// TestReuse: a batch that is used again allocates nothing.
func TestReuse(t *testing.T) {
	s := newStore(t)
	b, id, body := s.batch(), []byte("x"), []byte(`{"n":1}`)
	fill := func() {
		for range 5 {
			if b.Add(Op{Verb: Upsert}, id, body) != nil {
				t.Error("refused")
			}
		}
		b.Link()
		b.Reset()
	}
	fill()
	if n := testing.AllocsPerRun(10, fill); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTransaction: a transaction is refused if what it wrote has changed since its
// sequence, whether LookAhead or JudgeLocked finds it. What it has not read may change.
func TestTransaction(t *testing.T) {
	s := newStore(t)
	s.must(step{verb: Create, id: "x", body: "{}"}, step{verb: Create, id: "y", body: "{}"})
	begin := func() *Commit {
		b := s.batch(step{verb: Replace, id: "x", body: `{"n":1}`})
		u := &Commit{Batch: b, Reads: new(conflict.Reads)}
		u.Reads.Begin(s.p.Visible.Load(), b.Key(nil), b.EPK())
		return u
	}
	u := begin()
	s.must(step{verb: Upsert, id: "x", body: "{}"})
	if err := u.LookAhead(t.Context(), s.p); err != ErrChanged {
		t.Errorf("before the look-up: %v", err)
	}
	u = begin()
	s.OK(u.LookAhead(t.Context(), s.p))
	s.must(step{verb: Upsert, id: "x", body: "{}"})
	if err := s.write(u); err != ErrChanged {
		t.Errorf("after the look-up: %v", err)
	}
	u = begin()
	s.OK(u.LookAhead(t.Context(), s.p))
	s.must(step{verb: Upsert, id: "y", body: "{}"})
	if s.OK(s.write(u)); s.shown("x") != `{"n":1}` {
		t.Errorf("x is %s", s.shown("x"))
	}
}

// TestRanges: while writes keep coming, ranges are looked up again without the lock a few
// times, and then under it.
func TestRanges(t *testing.T) {
	s := newStore(t)
	b := s.batch(step{verb: Upsert, id: "x", body: "{}"})
	u := &Commit{Batch: b, Reads: &conflict.Reads{Serializable: true}}
	u.Reads.Begin(s.p.Visible.Load(), b.Key(nil), b.EPK())
	u.Reads.Scanned(item.IDRange{Lo: "a", Hi: "c"})
	for i := range rangesAgain {
		s.OK(u.LookAhead(t.Context(), s.p))
		s.must(step{verb: Upsert, id: "z", body: "{}"})
		if err := s.write(u); err != ErrAgain {
			t.Fatalf("time %d: %v", i, err)
		}
	}
	s.OK(u.LookAhead(t.Context(), s.p))
	s.must(step{verb: Upsert, id: "b", body: "{}"})
	if err := s.write(u); err != ErrChanged {
		t.Errorf("the range has changed: %v", err)
	}
}

// TestUniqueKeys: claims follow the operations in the record. A batch that takes the values
// of another item is refused, and names the operation; a transaction names none.
func TestUniqueKeys(t *testing.T) {
	s := newStore(t)
	var err error
	s.rules.Unique, err = uniquekey.Compile([][]string{{"/v"}})
	s.OK(err)
	u := s.must(step{verb: Create, id: "x", body: `{"v":1}`}, step{verb: Create, id: "y", body: `{"v":2}`})
	if u.Last() != u.First+3 || s.p.LastSeq() != u.Last() || u.ClaimBytes() == 0 {
		t.Errorf("sequences %d to %d, the partition has %d", u.First, u.Last(), s.p.LastSeq())
	}
	steps := []step{{verb: Upsert, id: "z", body: `{"v":3}`}, {verb: Upsert, id: "w", body: `{"v":1}`}}
	var e *Error
	var taken *UniqueKeyError
	if _, err := s.commit(s.batch(steps...)); !errors.As(err, &e) || e.Index != 1 || !errors.As(err, &taken) || taken.Holder != "x" || taken.ID != "w" || !errors.Is(err, ErrUniqueKey) {
		t.Errorf("%v", err)
	}
	b := s.batch(steps...)
	u = &Commit{Batch: b, Reads: new(conflict.Reads)}
	u.Reads.Begin(s.p.Visible.Load(), b.Key(nil), b.EPK())
	s.OK(u.LookAhead(t.Context(), s.p))
	if err := s.write(u); !errors.Is(err, ErrUniqueKey) || errors.As(err, new(*Error)) {
		t.Errorf("a transaction: %v", err)
	}
	// The value is free once its item is deleted in the same batch.
	s.must(step{verb: Delete, id: "x"}, step{verb: Upsert, id: "w", body: `{"v":1}`})
	// A claim that was taken since the look-up is noticed.
	b = s.batch(step{verb: Upsert, id: "p", body: `{"v":9}`})
	b.Link()
	u = &Commit{Batch: b}
	s.OK(u.LookAhead(t.Context(), s.p))
	s.must(step{verb: Upsert, id: "q", body: `{"v":9}`})
	if err := s.write(u); err != ErrAgain {
		t.Errorf("%v", err)
	}
}

// entry applies an entry with batches.
func (s *store) entry(e *Entry, batches ...*Batch) (physical.Record, error) {
	s.Helper()
	for _, b := range batches {
		e.Add(&Commit{Batch: b})
	}
	s.OK(e.Fits())
	s.OK(e.LookAhead(s.Context(), s.p))
	return s.apply(e)
}

// apply is entry after LookAhead.
func (s *store) apply(e *Entry) (physical.Record, error) {
	s.Helper()
	return s.locked(func() (physical.Record, error) { return e.ApplyLocked(s.p) })
}

// TestEntry: an entry is one record with a mark and the batches that are not refused. It is
// applied once, and only as the next one.
func TestEntry(t *testing.T) {
	s := newStore(t)
	first := s.batch(step{verb: Create, id: "x", body: "{}", ttl: 500})
	refused := s.batch(step{verb: Replace, id: "none", body: "{}"})
	last := s.p.LastSeq()
	e := &Entry{Index: 5, Time: 900, Sync: true, Limit: 1000}
	w, err := s.entry(e, first, refused)
	s.OK(err)
	s.OK(s.p.Show(w))
	if e.Refused[0] != nil || !errors.Is(e.Refused[1], fault.ErrNotFound) || e.Skipped {
		t.Errorf("%v, skipped %v", e.Refused, e.Skipped)
	}
	// The mark has the first sequence, the operation the next one.
	if c := e.Commits[0]; c.First != last+2 || w.Seq != last+2 || c.Modified != 900 || s.p.Commit.Applied.Index != 5 {
		t.Errorf("first sequence %d, record %+v, modified %d, applied %+v", c.First, w, c.Modified, s.p.Commit.Applied)
	}
	if s.now = 1399; s.shown("x") != "{}" {
		t.Error("x is not there")
	}
	if s.now = 1400; s.shown("x") != "" {
		t.Error("x does not expire by the time of its entry")
	}
	records := s.Records(s.p, wal.TypeCarried)
	again := &Entry{Index: 5, Time: 900, Sync: true, Limit: 1000}
	if w, err = s.entry(again, s.batch(step{verb: Upsert, id: "y", body: "{}"})); err != nil || !again.Skipped || w.Need != w.Pos || s.shown("y") != "" {
		t.Errorf("%+v, %v, skipped %v", w, err, again.Skipped)
	}
	if _, err = s.entry(&Entry{Index: 7, Time: 900, Limit: 1000}); !errors.Is(err, ErrIndexGap) {
		t.Errorf("a gap: %v", err)
	}
	if s.Records(s.p, wal.TypeCarried) != records {
		t.Error("an entry that was not applied is in the log")
	}
	// A time before that of an earlier entry counts as equal to it.
	if w, err = s.entry(&Entry{Index: 6, Time: 100, Limit: 1000}); err != nil || s.p.Commit.Applied.Time != 900 || s.p.Commit.Applied.Index != 6 {
		t.Errorf("%+v, %v", s.p.Commit.Applied, err)
	}
	s.OK(s.p.Show(w))
}

// TestEntryOvertaken: an entry whose partition has gone on is looked up again.
func TestEntryOvertaken(t *testing.T) {
	s := newStore(t)
	_, err := s.entry(&Entry{Index: 1, Time: 1, Limit: 1000})
	s.OK(err)
	e := &Entry{Index: 3, Time: 1, Limit: 1000}
	e.Add(&Commit{Batch: s.batch(step{verb: Upsert, id: "x", body: "{}"})})
	s.OK(e.LookAhead(t.Context(), s.p))
	_, err = s.entry(&Entry{Index: 2, Time: 1, Limit: 1000})
	s.OK(err)
	if _, err = s.apply(e); err != ErrAgain {
		t.Fatalf("%v", err)
	}
	s.OK(e.LookAhead(t.Context(), s.p))
	if _, err = s.apply(e); err != nil || s.p.Commit.Applied.Index != 3 {
		t.Errorf("%+v, %v", s.p.Commit.Applied, err)
	}
}

// TestEntryLimits: batches that are too large together are refused, and so is a batch that
// its patches make too large; a partition without sequences takes no entry.
func TestEntryLimits(t *testing.T) {
	s := newStore(t)
	e := &Entry{Index: 1, Time: 1, Limit: 10}
	e.Add(&Commit{Batch: s.batch(step{verb: Upsert, id: "x", body: `{"n":12345}`})})
	if err := e.Fits(); !errors.Is(err, fault.ErrTooLarge) {
		t.Errorf("%v", err)
	}
	s.must(step{verb: Create, id: "x", body: "{}"})
	var grow docpatch.Patch
	grow.Value(0, "/s", fmt.Sprintf("%0200d", 1))
	e = &Entry{Index: 1, Time: s.now, Limit: 100}
	_, err := s.entry(e, s.batch(step{verb: Patch, id: "x", patch: &grow}))
	if s.OK(err); !errors.Is(e.Refused[0], fault.ErrTooLarge) || s.shown("x") != "{}" {
		t.Errorf("%v", e.Refused)
	}
	if n := cap(e.Commits[0].Ops[0].data); n > 100 {
		t.Errorf("a refused batch keeps a document of %d bytes", n)
	}
	s.p.Commit.LastSeq = item.MaxSeq - MostSequences + 1
	if _, err := s.entry(&Entry{Index: 2, Time: s.now, Limit: math.MaxInt64}); !errors.Is(err, ErrNoSequences) {
		t.Errorf("%v", err)
	}
}
