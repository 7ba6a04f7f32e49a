package manifest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// edits makes random changes of a store.
type edits struct {
	*rand.Rand
	of *Store
}

func newEdits(seed uint64) *edits {
	of := sample(7)
	of.Containers, of.Partitions, of.NextContainer, of.NextPartition = nil, nil, 1, 1
	return &edits{rand.New(rand.NewPCG(seed, 0)), of}
}

// next returns a change that keeps the invariants.
func (r *edits) next() *Edit {
	s := r.of
	e := s.Edit()
	e.LastSeq++
	e.SeqLimit++
	some := func() *Container { return &s.Containers[r.IntN(len(s.Containers))] }
	switch n := r.IntN(10); {
	case n < 5 || len(s.Containers) < 3:
		c := Container{ID: e.NextContainer, Name: fmt.Sprintf("c%d", e.NextContainer), Levels: 1}
		e.Containers = []Container{c}
		e.Partitions = []Partition{{ID: e.NextPartition, Container: c.ID, Min: Bytes{}, Max: Bytes{0xFF}}}
		e.NextContainer++
		e.NextPartition++
	case n < 6:
		id := some().ID
		e.DropContainers = []uint32{id}
		for _, p := range s.Partitions {
			if p.Container == id {
				e.DropPartitions = append(e.DropPartitions, p.ID)
			}
		}
	case n < 8: // a split of the last partition of a container
		id := some().ID
		for _, p := range slices.Backward(s.Partitions) {
			if p.Container != id || len(p.Max) != 1 {
				continue
			}
			middle := append(slices.Clone(p.Min), 1)
			if len(middle) > 16 {
				break
			}
			next := e.NextPartition
			e.DropPartitions = []uint32{p.ID}
			e.Partitions = []Partition{
				{ID: next + 1, Container: id, Min: middle, Max: p.Max, Parents: []uint32{p.ID}},
				{ID: next, Container: id, Min: p.Min, Max: middle, Parents: []uint32{p.ID}},
			}
			e.NextPartition += 2
			e.History = []Reshape{{Container: id, Kind: "split", Children: []uint32{next, next + 1}}}
			break
		}
	case n < 9:
		a, b := *some(), *some()
		a.Throughput = float64(r.IntN(1000))
		e.Containers = []Container{a}
		if b.ID != a.ID {
			b.Copied = !b.Copied
			e.Containers = append(e.Containers, b)
		}
	default:
		e.Marks = append([]Mark{}, s.Marks...)
		if len(e.Marks) > 5 {
			e.Marks = e.Marks[:0]
		}
		e.Marks = append(e.Marks, Mark{Time: int64(e.LastSeq), Seq: e.LastSeq})
	}
	return e
}

// asRead returns the store as one that was read has it.
func asRead(t *testing.T, s *Store) *Store {
	t.Helper()
	data, err := Encode(StoreKind, 1, s)
	if err != nil {
		t.Fatal(err)
	}
	got := new(Store)
	if err := Decode("f", StoreKind, data, got); err != nil {
		t.Fatal(err)
	}
	return got
}

func mustRead(t *testing.T, fsys vfs.FS, want *Store) {
	t.Helper()
	var got Store
	if err := NewDir(fsys, ".", StoreKind).Load(&got); err != nil {
		t.Fatal(err)
	}
	if want := asRead(t, want); !reflect.DeepEqual(asRead(t, &got), want) {
		t.Fatalf("read\n%+v, want\n%+v", &got, want)
	}
}

// TestEdits makes random changes, opens the manifests now and then, and reads what is there after
// each one. The bytes written must go with the changes.
func TestEdits(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		r := newEdits(seed)
		m := vfs.NewMem()
		faulty := vfs.NewFaulty(m)
		var written int64
		faulty.SetHook(func(c vfs.Call) error {
			if c.Op == vfs.OpWrite {
				written += c.Len
			}
			return nil
		})
		d := NewDir(faulty, ".", StoreKind)
		if seed%2 == 0 {
			d.FoldFrom(1)
		}
		mustStore(t, d, r.of)
		const changes = 120
		longest := 0
		for n := range changes {
			if r.IntN(20) == 0 {
				d = NewDir(faulty, ".", StoreKind)
				*r.of = Store{}
				if err := d.Load(r.of); err != nil {
					t.Fatal(err)
				}
			}
			e := r.next()
			want := r.of.Clone()
			want.Apply(e)
			if err := d.Edit(r.of, e); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(asRead(t, r.of), asRead(t, &want)) {
				t.Fatalf("seed %d: change %d is not that of the store in memory", seed, n)
			}
			mustRead(t, m, r.of)
			names, _ := m.List(".")
			longest = max(longest, len(names))
			if d.Bytes() != dirBytes(t, m) {
				t.Fatalf("%d bytes in files, Bytes says %d", dirBytes(t, m), d.Bytes())
			}
		}
		if each := written / changes; each > 12<<10 || longest > 12 || seed%2 == 0 && longest < 2 {
			t.Errorf("seed %d: %d bytes a change, %d files", seed, each, longest)
		}
	}
}

func dirBytes(t *testing.T, m *vfs.Mem) (sum int64) {
	for _, name := range m.Names() {
		data, err := m.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum += int64(len(data))
	}
	return sum
}

// editedStore returns a file system with a chain of several files.
func editedStore(t *testing.T, files int) (*vfs.Mem, *edits) {
	m, r := vfs.NewMem(), newEdits(3)
	d := NewDir(m, ".", StoreKind)
	d.FoldFrom(1)
	mustStore(t, d, r.of)
	for {
		if err := d.Edit(r.of, r.next()); err != nil {
			t.Fatal(err)
		}
		if names, _ := m.List("."); len(names) == files {
			return m, r
		}
	}
}

// TestEditCrashes stops a life of a process at each file-system call, once by a kill and once by a
// power cut. Another one goes on with what is there, and has its power cut at each call. Each time the
// state must be the last one that was acknowledged, or the one after it.
func TestEditCrashes(t *testing.T) {
	start, r := editedStore(t, 3)
	changes := []*Edit{}
	states := []*Store{asRead(t, r.of)}
	for range 2 {
		e := r.next()
		changes = append(changes, e)
		r.of.Apply(e)
		states = append(states, asRead(t, r.of))
	}
	// live goes on from a state until stop calls were made: it returns the number of the
	// last state that was acknowledged, and what the disk was like at the stop.
	live := func(m *vfs.Mem, stop int64) (acknowledged int, image *vfs.Mem, done bool) {
		faulty := vfs.NewFaulty(m)
		faulty.StopAt(stop, func() { image = m.Clone() })
		d := NewDir(faulty, ".", StoreKind)
		d.FoldFrom(1)
		var s Store
		if err := d.Load(&s); err != nil {
			if image == nil {
				t.Fatalf("Load: %v", err)
			}
			return 0, image, false
		}
		at := slices.IndexFunc(states, func(o *Store) bool { return o.LastSeq == s.LastSeq })
		if at < 0 || !reflect.DeepEqual(asRead(t, &s), states[at]) {
			t.Fatalf("found a state that never was: %+v", &s)
		}
		for _, e := range changes[at:] {
			if d.Edit(&s, e) != nil {
				break
			}
			at++
			acknowledged = at
		}
		return acknowledged, cmpOr(image, m), image == nil
	}
	cuts := []vfs.CrashOptions{{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}, {Keep: vfs.KeepRandom, TornLast: true, Seed: 1}}
	rng := randtest.New(t)
	next := func(stop int64) int64 { return stop + 1 } // of the second life
	if testing.Short() {
		next = func(stop int64) int64 { return stop + 1 + rng.Int64N(9) }
	}
	for first := int64(1); ; first++ {
		acknowledged, image, over := live(start.Clone(), first)
		lives := []*vfs.Mem{image.Kill()}
		for _, cut := range cuts {
			lives = append(lives, image.Crash(cut))
		}
		for i, m := range lives {
			for second := next(0); ; second = next(second) {
				more, image, done := live(m.Clone(), second)
				for _, cut := range cuts {
					var s Store
					if err := NewDir(image.Crash(cut), ".", StoreKind).Load(&s); err != nil {
						t.Fatalf("stopped at %d, %d, stopped at %d, %v: %v", first, i, second, cut, err)
					}
					at := slices.IndexFunc(states, func(o *Store) bool { return o.LastSeq == s.LastSeq })
					if at < max(acknowledged, more) || !reflect.DeepEqual(asRead(t, &s), states[at]) {
						t.Fatalf("stopped at %d, %d, stopped at %d, %v: state %d, acknowledged were %d and %d", first, i, second, cut, at, acknowledged, more)
					}
				}
				if done {
					break
				}
			}
		}
		if over {
			break
		}
	}
}

func cmpOr(a, b *vfs.Mem) *vfs.Mem {
	if a != nil {
		return a
	}
	return b
}

// loaded returns the directory of a store manifest, in which any edit is folded that can be, and what it has.
func loaded(t *testing.T, fsys vfs.FS) (*Dir, *Store) {
	t.Helper()
	d := NewDir(fsys, ".", StoreKind)
	d.FoldFrom(1)
	s := new(Store)
	if err := d.Load(s); err != nil {
		t.Fatal(err)
	}
	return d, s
}

// TestEditFailedCalls fails each call of Edit: the store in memory is as it was, and either a second try
// succeeds or nothing is written any more.
func TestEditFailedCalls(t *testing.T) {
	start, r := editedStore(t, 3)
	e := r.next()
	unknown := 0
	for n := int64(1); ; n++ {
		m := start.Clone()
		faulty := vfs.NewFaulty(m)
		d, s := loaded(t, faulty)
		before := asRead(t, s)
		calls := faulty.Calls()
		faulty.FailAt(calls+n, errors.New("injected"), false)
		err := d.Edit(s, e)
		if faulty.Calls() < calls+n {
			break
		}
		if err == nil {
			mustRead(t, m, s)
			continue
		}
		if !reflect.DeepEqual(asRead(t, s), before) {
			t.Fatalf("call %d: %v, and the store is another one", n, err)
		}
		again := d.Edit(s, e)
		if errors.Is(err, fault.ErrOutcomeUnknown) {
			if unknown++; !errors.Is(again, fault.ErrOutcomeUnknown) {
				t.Fatalf("call %d: an edit after an unknown outcome: %v", n, again)
			}
			continue
		}
		if again != nil {
			t.Fatalf("call %d: second try: %v", n, again)
		}
		mustRead(t, m, s)
	}
	if unknown == 0 {
		t.Error("no outcome was unknown")
	}
}

// TestChainDamage flips bits of each file of a chain, cuts it, removes it, and puts others in its
// place: nothing may go unseen.
func TestChainDamage(t *testing.T) {
	start, _ := editedStore(t, 4)
	names := start.Names()
	load := func(what string, m *vfs.Mem, kinds ...error) {
		t.Helper()
		err := NewDir(m, ".", StoreKind).Load(new(Store))
		if !slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	write := func(m *vfs.Mem, name string, data []byte) {
		t.Helper()
		if err := errors.Join(m.Remove(name), m.WriteFile(name, data)); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range names {
		data, err := start.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(data); at += 1 + at/200 { // each byte of the first line
			m := start.Clone()
			damaged := slices.Clone(data)
			damaged[at] ^= 1 << (at % 8)
			write(m, name, damaged)
			load(fmt.Sprintf("%s, byte %d", name, at), m, fault.ErrCorrupt)
			write(m, name, data[:at])
			load(fmt.Sprintf("%s, cut to %d", name, at), m, fault.ErrCorrupt)
		}
		for j, other := range names {
			if i == j {
				continue
			}
			m := start.Clone()
			foreign, _ := start.ReadFile(other)
			write(m, name, foreign)
			load(other+" in the place of "+name, m, fault.ErrCorrupt)
		}
		if i < len(names)-1 {
			m := start.Clone()
			if err := m.Remove(name); err != nil {
				t.Fatal(err)
			}
			load(name+" removed", m, fault.ErrMissing)
		}
	}
}

// TestForgedEdits takes edits with right checksums that no program has written.
func TestForgedEdits(t *testing.T) {
	for name, forge := range map[string]func(e *Edit, base *link){
		"":                  func(*Edit, *link) {},
		"of itself":         func(_ *Edit, base *link) { base.generation = 2 },
		"of what is newer":  func(_ *Edit, base *link) { base.generation = 3 },
		"of another store":  func(e *Edit, _ *link) { e.StoreID[0]++ },
		"of another file":   func(_ *Edit, base *link) { base.sum++ },
		"container twice":   func(e *Edit, _ *link) { e.Containers = append(e.Containers, e.Containers...) },
		"containers fall":   func(e *Edit, _ *link) { slices.Reverse(e.Containers) },
		"partition twice":   func(e *Edit, _ *link) { e.Partitions = append(e.Partitions, e.Partitions...) },
		"breaks a name":     func(e *Edit, _ *link) { e.Containers[1].Name = e.Containers[0].Name },
		"drops a partition": func(e *Edit, _ *link) { e.DropPartitions = []uint32{1} },
		"limit":             func(e *Edit, _ *link) { e.SeqLimit = 0 },
		"next too low":      func(e *Edit, _ *link) { e.NextPartition = 1 },
	} {
		m := vfs.NewMem()
		s := sample(7)
		s.Partitions[0].Min = Bytes{}
		d := NewDir(m, ".", StoreKind)
		mustStore(t, d, s)
		e := s.Edit()
		e.NextContainer, e.NextPartition = 4, 3
		e.Containers = []Container{s.Containers[0], {ID: 3, Name: "other"}}
		e.Partitions = []Partition{{ID: 2, Container: 3, Min: Bytes{}, Max: Bytes{0xFF}}}
		base := d.chain[0]
		forge(e, &base)
		data, _, err := encode(StoreKind, 2, base, e)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.WriteFile(Name(2), data); err != nil {
			t.Fatal(err)
		}
		err = NewDir(m, ".", StoreKind).Load(new(Store))
		if name == "" && err != nil || name != "" && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%q: %v", name, err)
		}
		if err := Decode("f", StoreKind, data, new(Store)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%q: an edit alone: %v", name, err)
		}
	}
}

// TestLongChain refuses a chain that is longer than any program makes one.
func TestLongChain(t *testing.T) {
	m, s := vfs.NewMem(), sample(7)
	s.Partitions[0].Min = Bytes{}
	base := link{}
	for n := uint64(1); n <= 100; n++ {
		var v any = s
		if n > 1 {
			v = s.Edit()
		}
		data, sum, err := encode(StoreKind, n, base, v)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.WriteFile(Name(n), data); err != nil {
			t.Fatal(err)
		}
		base = link{generation: n, sum: sum}
		if err := NewDir(m, ".", StoreKind).Load(new(Store)); (err == nil) != (n <= maxLinks) || err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("%d files: %v", n, err)
		}
	}
}

// TestFormat1 goes on with a store manifest as the first format has it.
func TestFormat1(t *testing.T) {
	r := newEdits(5)
	for range 30 {
		r.of.Apply(r.next())
	}
	data, err := Encode(StoreKind, 1, r.of)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(data), "\n")
	head := "cleave-manifest store 1"
	m := vfs.NewMem()
	if err := m.WriteFile(Name(4), fmt.Appendf(nil, "%s %08x %d\n%s", head, checksum(head, []byte(body)), len(body), body)); err != nil {
		t.Fatal(err)
	}
	mustRead(t, m, r.of)
	d, s := loaded(t, m)
	r.of = s
	for range 20 {
		if err := d.Edit(s, r.next()); err != nil {
			t.Fatal(err)
		}
		mustRead(t, m, s)
	}
	if m.WriteFile(Name(99), newer(data)) != nil {
		t.Fatal("not written")
	}
	if err := NewDir(m, ".", StoreKind).Load(new(Store)); !errors.Is(err, fault.ErrTooNew) {
		t.Errorf("a newer format: %v", err)
	}
}

// TestEditOfUnsyncedName kills a process between the rename of a generation and the sync of its
// directory. The next process finds it and writes an edit of it; a power cut at any call of that may
// keep the name of the one without that of the other, but for the sync that comes before.
func TestEditOfUnsyncedName(t *testing.T) {
	start, r := editedStore(t, 2)
	large := r.of.Edit()
	large.LastSeq++
	for range 10 {
		large.Containers = append(large.Containers, Container{ID: large.NextContainer, Name: fmt.Sprintf("large%d", large.NextContainer), Levels: 1})
		large.Partitions = append(large.Partitions, Partition{ID: large.NextPartition, Container: large.NextContainer, Min: Bytes{}, Max: Bytes{0xFF}})
		large.NextContainer++
		large.NextPartition++
	}
	var killed *vfs.Mem
	faulty := vfs.NewFaulty(start)
	d, s := loaded(t, faulty)
	if err := d.settle(); err != nil {
		t.Fatal(err)
	}
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpSyncDir {
			killed = start.Kill()
			return vfs.ErrStopped
		}
		return nil
	})
	if err := d.Edit(s, large); killed == nil || !errors.Is(err, fault.ErrOutcomeUnknown) {
		t.Fatalf("not killed: %v", err)
	}
	edited := false
	for stop := int64(1); ; stop++ {
		m := killed.Clone()
		var image *vfs.Mem
		faulty := vfs.NewFaulty(m)
		faulty.StopAt(stop, func() { image = m.Clone() })
		d := NewDir(faulty, ".", StoreKind)
		d.FoldFrom(1)
		var s Store
		if d.Load(&s) == nil {
			e := s.Edit()
			e.LastSeq++
			if d.Edit(&s, e) == nil {
				edited = s.LastSeq == large.LastSeq+1 && len(d.chain) > 1
			}
		}
		for seed := range uint64(50) {
			if err := NewDir(cmpOr(image, m).Crash(vfs.CrashOptions{Keep: vfs.KeepRandom, Seed: seed}), ".", StoreKind).Load(new(Store)); err != nil {
				t.Fatalf("stopped at %d, cut with seed %d: %v", stop, seed, err)
			}
		}
		if image == nil {
			break
		}
	}
	if !edited {
		t.Error("no edit was written on what was found")
	}
}
