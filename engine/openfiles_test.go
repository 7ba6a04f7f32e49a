package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// openHooked calls a function before a file is opened or made. It holds no lock meanwhile.
type openHooked struct {
	vfs.FS
	hook func(name string) error
}

func (h *openHooked) Open(name string) (vfs.File, error) {
	if err := h.hook(name); err != nil {
		return nil, err
	}
	return h.FS.Open(name)
}

func (h *openHooked) Create(name string) (vfs.File, error) {
	if err := h.hook(name); err != nil {
		return nil, err
	}
	return h.FS.Create(name)
}

// newManyStore makes a store with two containers of several partitions, some of which
// share files, and with leftovers of a crash. It returns the manifest of each partition, in
// the order in which they are opened.
func newManyStore(t *testing.T) (s *splitStore, manifests []string) {
	s = newSplitStore(t, ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 6}, nil)
	ctx := context.Background()
	d, err := s.db.CreateContainer(ctx, "d", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 5})
	must(s.t, err)
	for i := range 400 {
		s.put(i%60, fmt.Sprint(i), "text")
		_, err := d.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"%d"}`, i, i%30), nil)
		must(s.t, err)
	}
	must(s.t, s.db.Flush(ctx))
	s.split(2, nil)
	s.put(1, "late", "text") // in the log
	must(s.t, s.mem.WriteFile(path.Join(s.db.partitions()[0].Dir, "0000009999.seg"), []byte("never committed")))
	must(s.t, s.mem.WriteFile(path.Join(s.db.partitions()[1].Dir, "0000008888.seg.tmp"), []byte("temporary")))
	state := s.db.storeManifest.state.Clone()
	for _, name := range []string{"c", "d"} {
		c, err := s.db.Container(name)
		must(s.t, err)
		for _, p := range c.routing.Load().parts {
			manifests = append(manifests, path.Join(p.Dir, manifest.Name(p.Install.Dir.Generation())))
		}
	}
	if len(manifests) != len(state.Partitions) {
		t.Fatalf("%d partitions of %d", len(manifests), len(state.Partitions))
	}
	must(s.t, s.db.Close())
	return s, manifests
}

// describeOpened tells all that an open has found out of partitions.
func describeOpened(db *DB) (text string) {
	for _, c := range byName(db.containers.Load()) {
		for _, p := range c.routing.Load().parts {
			v := p.Version.Load()
			text += fmt.Sprintf("%s/%d: flushed %d, visible %d, raw %d, parents %v, inherits %v, lost %v\n",
				c.name, p.ID, p.Install.FlushedSeq.Load(), p.Visible.Load(), v.RawBytes, p.Parents, *p.Inherits.Load(), p.Lost)
			for f := range v.Files() {
				text += fmt.Sprintf("  %s %v-%v, %d items, aside %t\n", f.Name, f.Min, f.Max, f.ItemsWithin(), f.Aside.Load())
			}
		}
	}
	return text + fmt.Sprintf("next file %d, stamp %d, damage %+v", db.env.NextFile.Load(), db.stamps.Newest(), db.Stats().Damage)
}

// TestOpenManyAtOnce: partitions that are loaded at the same time give the store that
// they give one after the other, and tell of damage in the same order.
func TestOpenManyAtOnce(t *testing.T) {
	s, manifests := newManyStore(t)
	for _, spoiled := range []bool{false, true} {
		if spoiled { // the first, the last and one between
			for _, i := range []int{0, 4, len(manifests) - 1} {
				must(s.t, s.mem.WriteFile(manifests[i], []byte("damaged")))
			}
		}
		var want, wantTold string
		for _, openers := range []int{1, 2, 8, 100} {
			mem := s.mem.Clone()
			opts := testOptions(mem)
			opts.atOnce = openers
			var told []error
			opts.Events = &EventListener{CorruptionFound: func(err error) { told = append(told, err) }}
			if openers > 1 && spoiled {
				// The first one is loaded after all others.
				others := sync.WaitGroup{}
				others.Add(len(manifests) - 1)
				opts.fs = &openHooked{mem, func(name string) error {
					if i := slices.Index(manifests, name); i > 0 {
						others.Done()
					} else if i == 0 {
						others.Wait()
					}
					return nil
				}}
			}
			db, err := Open(context.Background(), "many", opts)
			must(s.t, err)
			got := describeOpened(db)
			if !spoiled {
				s.db = db
				s.c, _ = db.Container("c")
				s.check()
			}
			must(s.t, db.Close())
			if openers == 1 {
				want, wantTold = got, fmt.Sprint(told)
			}
			if got != want || fmt.Sprint(told) != wantTold {
				t.Errorf("%d at a time:\n%s\ntold %v\none at a time:\n%s\ntold %v", openers, got, told, want, wantTold)
			}
			if n := len(told); n != 0 && !spoiled || n != 3 && spoiled {
				t.Errorf("%d at a time: told %v", openers, told)
			}
			for _, name := range mem.Names() {
				if strings.HasSuffix(name, manifest.TempSuffix) || strings.Contains(name, "9999") != spoiled && strings.Contains(name, "9999") {
					t.Errorf("%d at a time: %s is left", openers, name)
				}
			}
		}
	}
}

// TestOpenManyFails: an open that fails in the middle, while others are at work, reports
// what fails first in the order of the partitions, and leaves nothing open.
func TestOpenManyFails(t *testing.T) {
	s, manifests := newManyStore(t)
	errFirst, errLater := errors.New("the first one"), errors.New("a later one")
	for _, readOnly := range []bool{false, true} {
		later := make(chan struct{})
		opts := testOptions(&openHooked{s.mem.Clone(), func(name string) error {
			switch slices.Index(manifests, name) {
			case 3:
				<-later // it fails after the one behind it
				return errFirst
			case 5:
				close(later)
				return errLater
			}
			return nil
		}})
		opts.atOnce, opts.ReadOnly = 4, readOnly
		dir := fmt.Sprintf("many-fails-%t", readOnly)
		_, err := Open(context.Background(), dir, opts)
		if !errors.Is(err, errFirst) || !strings.Contains(err.Error(), `container "c", partition`) {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
		if left := watched.forget(dir); left != "" {
			t.Error(left)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	opts := testOptions(&openHooked{s.mem.Clone(), func(name string) error {
		if slices.Index(manifests, name) == 5 {
			cancel()
		}
		return nil
	}})
	opts.atOnce = 3
	if _, err := Open(ctx, "many-cancelled", opts); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if left := watched.forget("many-cancelled"); left != "" {
		t.Error(left)
	}
}

// TestCreateManyFails: a container whose partitions are made at the same time fails with
// what fails first in their order, and leaves no directory. Then it can be made.
func TestCreateManyFails(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	errFirst, errLater := errors.New("the first one"), errors.New("a later one")
	later := make(chan struct{})
	failing := true
	first := func(id uint32) string {
		return path.Join(manifest.PartitionDir(id), manifest.Name(1)+manifest.TempSuffix)
	}
	opts := testOptions(&openHooked{mem, func(name string) error {
		switch {
		case failing && name == first(4):
			<-later
			return errFirst
		case failing && name == first(6):
			close(later)
			return errLater
		}
		return nil
	}})
	opts.atOnce = 4
	db, err := Open(ctx, "create-many", opts)
	must(t, err)
	defer db.Close()
	def := ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 20}
	if _, err = db.CreateContainer(ctx, "c", def); !errors.Is(err, errFirst) {
		t.Errorf("CreateContainer: %v", err)
	}
	if names, err := mem.List(manifest.PartitionsDir); err != nil || len(names) != 0 {
		t.Errorf("left: %v, %v", names, err)
	}
	failing = false
	_, err = db.CreateContainer(ctx, "c", def)
	must(t, err)
	must(t, db.Close())
	opts.fs = mem.Crash(vfs.CrashOptions{})
	db, err = Open(ctx, "create-many", opts)
	must(t, err)
	defer db.Close()
	c, err := db.Container("c")
	must(t, err)
	if n := len(c.Partitions()); n != 20 {
		t.Errorf("%d partitions after a power cut", n)
	}
}
