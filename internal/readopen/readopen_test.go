package readopen

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/wal"
)

// scripted is a store whose attempts end as a script says; the last line stands for all after it.
type scripted struct {
	t       *testing.T
	script  []attempted
	reads   int
	asides  []int // attempts, from 1, that set aside what cannot be read
	opened  bool  // there is something to forget
	between func()
}

// attempted is how an attempt ends, and the generation of the store then.
type attempted struct {
	err        error
	generation uint64
}

func (s *scripted) now() attempted { return s.script[min(s.reads, len(s.script))-1] }

func (s *scripted) Read(_ context.Context, aside bool) error {
	if s.opened {
		s.t.Error("an attempt begins with what the one before has opened")
	}
	s.reads++
	s.opened = true
	if aside {
		s.asides = append(s.asides, s.reads)
	}
	return s.now().err
}

func (s *scripted) Generations() []uint64 {
	if len(s.script) == 1 && s.script[0].generation == changing {
		return []uint64{uint64(s.reads)}
	}
	return []uint64{s.now().generation}
}

func (s *scripted) Forget() {
	s.opened = false
	if s.between != nil {
		s.between()
	}
}

// changing is the generation of a store that changes between any two attempts.
const changing = 1 << 40

// TestRead: a read ends with the first state that was read in one piece. It starts over only
// while the writer changes the store, and sets aside only what was met twice.
func TestRead(t *testing.T) {
	damaged := fault.Corrupt("a.seg", 7, "checksum")
	other := fault.Corrupt("b.seg", 9, "checksum")
	missing := fault.IO("open", "a.seg", -1, errors.ErrUnsupported)
	missing = fault.Of(fault.ErrMissing, missing)
	refused := errors.New("permission denied")
	for name, test := range map[string]struct {
		script []attempted
		bears  bool
		want   error // nil: the state was read
		reads  int
		asides []int
	}{
		"at once":                          {script: []attempted{{nil, 1}}, reads: 1},
		"a file was gone":                  {script: []attempted{{missing, 1}, {nil, 2}}, reads: 2},
		"of two states":                    {script: []attempted{{ErrStale, 1}, {ErrStale, 2}, {nil, 3}}, reads: 3},
		"no fault of the data":             {script: []attempted{{refused, 1}}, want: refused, reads: 1},
		"damage":                           {script: []attempted{{damaged, 1}}, want: damaged, reads: 2},
		"damage in a store that changes":   {script: []attempted{{damaged, 1}, {other, 2}, {other, 2}}, want: other, reads: 3},
		"damage that is set aside":         {script: []attempted{{damaged, 1}, {damaged, 1}, {nil, 1}}, bears: true, reads: 3, asides: []int{3}},
		"the same damage in a newer state": {script: []attempted{{damaged, 1}, {damaged, 2}, {nil, 3}}, bears: true, reads: 3, asides: []int{3}},
		"what the writer has replaced":     {script: []attempted{{missing, 1}, {damaged, 2}, {nil, 3}}, bears: true, reads: 3},
		"what cannot be set aside":         {script: []attempted{{damaged, 1}}, bears: true, want: damaged, reads: 3, asides: []int{3}},
		"stale in a store that rests":      {script: []attempted{{ErrStale, 1}}, bears: true, want: ErrStale, reads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{t: t, script: test.script}
				err := Read(t.Context(), s, test.bears)
				if err != test.want || s.reads != test.reads || !slices.Equal(s.asides, test.asides) {
					t.Errorf("%v after %d attempts, aside in %d; want %v, %d, %d", err, s.reads, s.asides, test.want, test.reads, test.asides)
				}
				if !s.opened {
					t.Error("the last attempt was forgotten")
				}
			})
		})
	}
}

// TestReadEnds: a store that changes all the time is given up, and not taken for damaged; and
// a read ends with its context.
func TestReadEnds(t *testing.T) {
	damaged := fault.Corrupt("a.seg", 7, "checksum")
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{t: t, script: []attempted{{damaged, changing}}}
		err := Read(t.Context(), s, false)
		if !errors.Is(err, ErrStale) || errors.Is(err, fault.ErrCorrupt) || s.reads != attempts || !strings.Contains(err.Error(), damaged.Error()) {
			t.Errorf("%v after %d attempts", err, s.reads)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &scripted{t: t, script: []attempted{{damaged, changing}}}
		s.between = func() {
			if s.reads == 3 {
				time.AfterFunc(time.Microsecond, cancel) // while Read waits
			}
		}
		if err := Read(ctx, s, true); err != context.Canceled || s.reads != 3 {
			t.Errorf("%v after %d attempts", err, s.reads)
		}
		s = &scripted{t: t, script: []attempted{{damaged, 1}}}
		if err := Read(ctx, s, true); err != context.Canceled || s.reads != 1 {
			t.Errorf("with a context that has ended: %v after %d attempts", err, s.reads)
		}
	})
}

// TestGenerations: each manifest counts, and one that is not there is 0.
func TestGenerations(t *testing.T) {
	mem := vfs.NewMem()
	dir := manifest.NewDir(mem, ".", manifest.StoreKind)
	state := storeWith(1, 7)
	if got := Generations(mem, dir, &state); !slices.Equal(got, []uint64{0, 0}) {
		t.Errorf("without manifests: %d", got)
	}
	must(t, dir.Store(&state))
	must(t, dir.Store(&state))
	must(t, vfs.MkdirSync(mem, manifest.PartitionsDir))
	must(t, vfs.MkdirSync(mem, manifest.PartitionDir(7)))
	must(t, manifest.NewDir(mem, manifest.PartitionDir(7), manifest.PartitionKind).Store(&manifest.Files{StoreID: state.StoreID, Partition: 7}))
	if got := Generations(mem, dir, &state); !slices.Equal(got, []uint64{2, 1}) {
		t.Errorf("%d", got)
	}
}

// TestCheckLog: the log belongs to the state if the newest manifest has released none of its
// files with records and replaced none of its partitions.
func TestCheckLog(t *testing.T) {
	read := storeWith(3, 7)
	for name, test := range map[string]struct {
		now   manifest.Store
		files []wal.FileState
		want  error
	}{
		"nothing has changed":             {storeWith(3, 7), nil, nil},
		"a file with records is released": {storeWith(4, 7), []wal.FileState{{Number: 3, Streams: streams(7)}}, ErrStale},
		"the last file is still there":    {storeWith(4, 7), []wal.FileState{{Number: 3, Streams: streams(7)}, {Number: 4, Streams: streams(7)}}, nil},
		"the last file has no records":    {storeWith(4, 7), []wal.FileState{{Number: 3, Streams: streams(7)}, {Number: 4}}, ErrStale},
		"a partition was split":           {storeWith(3, 8), nil, ErrStale},
		"the container was dropped":       {storeWith(3), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			must(t, manifest.NewDir(mem, ".", manifest.StoreKind).Store(&test.now))
			if err := CheckLog(mem, &read, &wal.Recovery{Files: test.files}); err != test.want {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
	if err := CheckLog(vfs.NewMem(), &read, &wal.Recovery{}); !errors.Is(err, fault.ErrMissing) {
		t.Errorf("without a manifest: %v", err)
	}
}

// TestAsideStill: what was set aside must be in the newest manifests. A partition with nothing
// set aside need not be there.
func TestAsideStill(t *testing.T) {
	mem := vfs.NewMem()
	s := lsmtest.New(t, 16<<20)
	s.Env.FS = mem
	tree := s.Tree()
	tree.ID, tree.Dir = 7, manifest.PartitionDir(7)
	trees := []*lsm.Tree{tree}
	if AsideStill(mem, trees) {
		t.Error("without a manifest")
	}
	state := storeWith(1, 7)
	store := manifest.NewDir(mem, ".", manifest.StoreKind)
	must(t, store.Store(&state))
	if !AsideStill(mem, trees) {
		t.Error("nothing is set aside")
	}
	file := &lsm.File{Reader: segment.Damaged("a.seg", fault.ErrCorrupt, item.Key{}, item.Key{}), Ref: manifest.File{Number: 4}}
	file.Aside.Store(true)
	whole := tree.Version.Load()
	damaged := *whole
	damaged.SetRuns([]*lsm.Run{{Files: []*lsm.File{file}}})
	tree.Version.Store(&damaged)
	defer tree.Version.Store(whole)
	must(t, vfs.MkdirSync(mem, manifest.PartitionsDir))
	must(t, vfs.MkdirSync(mem, tree.Dir))
	dir := manifest.NewDir(mem, tree.Dir, manifest.PartitionKind)
	files := manifest.Files{StoreID: state.StoreID, Partition: 7, Runs: []manifest.Run{{Files: []manifest.File{{Number: 4, Size: 1, Min: manifest.Bytes{0}, Max: manifest.Bytes{0xff}}}}}}
	must(t, dir.Store(&files))
	if !AsideStill(mem, trees) {
		t.Error("the manifest names the file")
	}
	files.Runs = nil
	must(t, dir.Store(&files))
	if AsideStill(mem, trees) {
		t.Error("the manifest names the file no more")
	}
	state.Partitions[0].ID = 8
	must(t, store.Store(&state))
	if AsideStill(mem, trees) {
		t.Error("the partition is gone")
	}
	tree.Version.Store(whole)
	if !AsideStill(mem, trees) {
		t.Error("nothing of the partition is set aside")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// storeWith returns the manifest of a store whose log begins with a file, with a container if
// there is a partition.
func storeWith(logFirst uint64, ids ...uint32) manifest.Store {
	s := manifest.Store{Head: manifest.Head{StoreID: manifest.ID{1}, NextContainer: 2, NextPartition: 9, SeqLimit: 10, LogFirst: logFirst}}
	for _, id := range ids {
		s.Containers = []manifest.Container{{ID: 1, Name: "c", PartitionKey: []string{"/k"}, Levels: 1, Kind: "json", Compression: "default", MaxItemBytes: 1, MaxLogicalKey: 1}}
		s.Partitions = append(s.Partitions, manifest.Partition{ID: id, Container: 1, Min: manifest.Bytes{0}, Max: manifest.Bytes{0xff}})
	}
	return s
}

func streams(id wal.Stream) map[wal.Stream]uint64 { return map[wal.Stream]uint64{id: 1} }
