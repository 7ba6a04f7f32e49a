package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// narrow is a store with more files than may be open or mapped.
type narrow struct {
	t    *testing.T
	mem  *vfs.Mem
	fs   *vfs.Limited
	opts *Options
	db   *DB
	c    *Container
	docs map[string]int // by id
}

const (
	narrowFiles = 12
	narrowMaps  = 6
)

func newNarrow(t *testing.T, opts func(*Options)) *narrow {
	n := &narrow{t: t, mem: vfs.NewMem(), docs: make(map[string]int)}
	n.fs = vfs.NewLimited(n.mem, narrowFiles, narrowMaps)
	n.opts = testOptions(n.fs)
	opts(n.opts)
	n.open()
	var err error
	n.c, err = n.db.CreateContainer(context.Background(), "c", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 8, Index: IndexAll()})
	must(t, err)
	return n
}

func (n *narrow) open() {
	var err error
	n.db, err = Open(context.Background(), "narrow", n.opts)
	must(n.t, err)
	n.c, _ = n.db.Container("c")
}

func (n *narrow) close() {
	n.t.Helper()
	must(n.t, n.db.Close())
	if files, maps := n.fs.Used(); files != 0 || maps != 0 {
		n.t.Errorf("closed, with %d files open and %d mappings", files, maps)
	}
}

// fill makes one more run in each partition.
func (n *narrow) fill(round int) {
	ctx := context.Background()
	for i := range 64 {
		id := fmt.Sprint("d", i+round%3*20)
		n.docs[id] = round
		_, err := n.c.Upsert(ctx, fmt.Appendf(nil, `{"id":%q,"k":%q,"round":%d}`, id, "k"+id, round), nil)
		must(n.t, err)
	}
	must(n.t, n.db.Flush(ctx))
}

// compare reads everything in every way.
func (n *narrow) compare(c *Container) {
	n.t.Helper()
	ctx := context.Background()
	for id, round := range n.docs {
		it, err := c.Read(ctx, StringKey("k"+id), id)
		must(n.t, err)
		if want := fmt.Sprintf(`{"id":%q,"k":%q,"round":%d}`, id, "k"+id, round); string(it.Body) != want {
			n.t.Fatalf("%s: %s, want %s", id, it.Body, want)
		}
	}
	count := 0
	for _, err := range c.ScanAll(ctx, nil) {
		must(n.t, err)
		count++
	}
	if count != len(n.docs) {
		n.t.Fatalf("%d documents, want %d", count, len(n.docs))
	}
	q, err := ParseQuery(`SELECT * FROM c WHERE c.round >= 1 ORDER BY c.round`, nil)
	must(n.t, err)
	found, want := 0, 0
	for _, err := range c.Query(ctx, AllPartitions(), q).All() {
		must(n.t, err)
		found++
	}
	for _, round := range n.docs {
		if round >= 1 {
			want++
		}
	}
	if found != want {
		n.t.Fatalf("a query finds %d documents, want %d", found, want)
	}
}

func (n *narrow) verify(db *DB) {
	n.t.Helper()
	checkVerified(n.t, db)
}

// TestFewDescriptors takes a store with many times as many files as there may be
// descriptors, or mappings, through all that it does.
func TestFewDescriptors(t *testing.T) {
	for _, test := range []struct {
		name string
		opts func(*Options)
	}{
		{"budget", func(o *Options) { o.MaxOpenFiles, o.MaxMappedFiles = 4, 3 }},
		{"one", func(o *Options) { o.MaxOpenFiles, o.MaxMappedFiles = 1, 1 }},
		{"positioned", func(o *Options) { o.MaxOpenFiles, o.ReadMode = 4, ReadPositioned }},
		{"limit of the system", func(*Options) {}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := context.Background()
			n := newNarrow(t, test.opts)
			for round := range 6 {
				n.fill(round)
				n.compare(n.c)
			}
			if files := len(n.mem.Names()); files < 3*narrowFiles {
				t.Fatalf("%d files: too few for this test", files)
			}
			n.close()
			n.open()
			n.compare(n.c)
			n.verify(n.db)

			// What a backup holds loses its place to merges and splits under it.
			before := len(n.docs)
			r, w := io.Pipe()
			go func() {
				_, err := n.db.Backup(ctx, w, nil)
				w.CloseWithError(err)
			}()
			var stream bytes.Buffer
			_, err := io.CopyN(&stream, r, 1)
			must(t, err)
			must(t, n.db.Compact(ctx))
			for range 3 {
				job, err := n.c.Split(ctx, n.c.Partitions()[0].ID, nil)
				must(t, err)
				must(t, job.Wait(ctx))
			}
			n.fill(6)
			must(t, n.db.Compact(ctx))
			n.compare(n.c)
			_, err = io.Copy(&stream, r)
			must(t, err)
			copied := vfs.NewMem()
			must(t, backup.Restore(ctx, copied, "copy", &stream))
			must(t, holds(below{copied, "copy"}, before))

			must(t, n.db.Compact(ctx))
			for _, name := range n.mem.Names() {
				if listed := n.listed(); len(listed) > 0 && !listed[name] {
					t.Errorf("%s is left when nobody holds it", name)
				}
			}
			checkpoint := vfs.NewMem()
			n.db.opts.checkpointRoot = func(string) (vfs.FS, error) { return checkpoint, nil }
			_, err = n.db.Checkpoint(ctx, "checkpoint")
			must(t, err)
			must(t, holds(checkpoint, len(n.docs)))
			n.verify(n.db)
			stats := n.db.Stats()
			if most, _ := n.fs.Most(); most > narrowFiles || stats.ReopenedFiles == 0 {
				t.Errorf("%d files were open, %d reopened", most, stats.ReopenedFiles)
			}
			n.close()
			n.open()
			n.compare(n.c)
			n.close()

			read := *n.opts
			read.ReadOnly = true
			db, err := Open(ctx, "narrow", &read)
			must(t, err)
			c, err := db.Container("c")
			must(t, err)
			n.compare(c)
			must(t, db.Close())
		})
	}
}

// listed returns the names of the segment files of the store, and the others.
func (n *narrow) listed() map[string]bool {
	all := make(map[string]bool)
	segments := make(map[string]bool)
	for _, p := range n.db.partitions() {
		for f := range p.Version.Load().Files() {
			segments[f.Name] = true
		}
	}
	for _, name := range n.mem.Names() {
		all[name] = segments[name] || len(name) < 4 || name[len(name)-4:] != ".seg"
	}
	return all
}

// TestNoDescriptors: calls for which there is no descriptor at all fail by themselves,
// and the store goes on when there are some again.
func TestNoDescriptors(t *testing.T) {
	ctx := context.Background()
	n := newNarrow(t, func(o *Options) { o.MaxOpenFiles, o.MaxMappedFiles = 4, 1 })
	for round := range 3 {
		n.fill(round)
	}
	n.close()
	n.open()
	var refused int
	n.fs.SetLimits(0, 0)
	for id := range n.docs {
		it, err := n.c.Read(ctx, StringKey("k"+id), id)
		if err == nil && len(it.Body) > 0 {
			continue // of a file that is open
		}
		if !errors.Is(err, fault.ErrResource) || !errors.Is(err, syscall.EMFILE) {
			t.Fatalf("%v", err)
		}
		refused++
	}
	if refused == 0 {
		t.Error("no read was refused")
	}
	_, err := n.c.Upsert(ctx, []byte(`{"id":"d0","k":"kd0","round":9}`), nil)
	must(t, err)
	n.docs["d0"] = 9
	if err := n.db.Flush(ctx); !errors.Is(err, fault.ErrResource) {
		t.Errorf("a flush without descriptors: %v", err)
	}
	if err := n.db.Compact(ctx); !errors.Is(err, fault.ErrResource) {
		t.Errorf("a merge without descriptors: %v", err)
	}
	n.fs.SetLimits(narrowFiles, narrowMaps)
	n.compare(n.c)
	n.fill(10)
	must(t, n.db.Compact(ctx))
	n.compare(n.c)
	n.verify(n.db)
	n.close()
}

// TestFewDescriptorsAtOnce reads, writes, merges and splits at the same time, with a few
// descriptors and mappings for all.
func TestFewDescriptorsAtOnce(t *testing.T) {
	ctx := context.Background()
	n := newNarrow(t, func(o *Options) { o.MaxOpenFiles, o.MaxMappedFiles, o.manual = 2, 2, false })
	n.fs.SetLimits(4*narrowFiles, 4*narrowMaps) // there is more work at a time
	for round := range 4 {
		n.fill(round)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for id, least := range n.docs {
					it, err := n.c.Read(ctx, StringKey("k"+id), id)
					var round int
					if err == nil {
						_, err = fmt.Sscanf(string(it.Body[bytes.LastIndexByte(it.Body, ':'):]), ":%d}", &round)
					}
					if err != nil || round < least {
						t.Errorf("%s: %s, %v", id, it.Body, err)
						return
					}
				}
				count := 0
				for _, err := range n.c.ScanAll(ctx, nil) {
					if err != nil {
						t.Error(err)
						return
					}
					count++
				}
				if count != len(n.docs) {
					t.Errorf("a scan finds %d documents, want %d", count, len(n.docs))
					return
				}
			}
		})
	}
	for round := 4; round < amount(24, 12, 8); round++ {
		for id := range n.docs {
			if _, err := n.c.Upsert(ctx, fmt.Appendf(nil, `{"id":%q,"k":%q,"round":%d}`, id, "k"+id, round), nil); err != nil {
				t.Error(err)
			}
		}
		if err := n.db.Flush(ctx); err != nil {
			t.Error(err)
		}
		if round%4 == 1 {
			job, err := n.c.Split(ctx, n.c.Partitions()[0].ID, nil)
			if err == nil {
				err = job.Wait(ctx)
			}
			if err != nil && !errors.Is(err, ErrRefused) {
				t.Error(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	if s := n.db.Stats(); s.OpenFiles > s.MaxOpenFiles || s.MappedFiles > s.MaxMappedFiles {
		t.Errorf("%d files open, %d mapped", s.OpenFiles, s.MappedFiles)
	}
	n.verify(n.db)
	n.close()
}

// TestNoDescriptorForTheLog: a write that needs a new log file, for which there is no
// descriptor, is refused, and the store goes on when there is one again.
func TestNoDescriptorForTheLog(t *testing.T) {
	ctx := context.Background()
	n := newNarrow(t, func(o *Options) { o.MaxOpenFiles = 1 })
	for left := range 4 {
		files, _ := n.fs.Used()
		n.fs.SetLimits(files+left, narrowMaps)
		id, long := fmt.Sprint("log", left), bytes.Repeat([]byte{'x'}, 1<<10)
		var refused error
		for round := 0; refused == nil && round < 4*minLogFileBytes>>10; round++ {
			_, refused = n.c.Upsert(ctx, fmt.Appendf(nil, `{"id":%q,"k":%q,"x":"%s","round":%d}`, id, "k"+id, long, round), nil)
		}
		if refused != nil && (!errors.Is(refused, fault.ErrResource) || errors.Is(refused, ErrFailed) || errors.Is(refused, ErrOutcomeUnknown)) {
			t.Fatalf("%d descriptors left: %v", left, refused)
		}
		if left == 0 && refused == nil {
			t.Error("no write was refused")
		}
		n.fs.SetLimits(narrowFiles, narrowMaps)
		_, err := n.c.Upsert(ctx, fmt.Appendf(nil, `{"id":%q,"k":%q,"round":%d}`, id, "k"+id, left), nil)
		must(t, err)
		n.docs[id] = left
	}
	must(t, n.db.Flush(ctx))
	n.compare(n.c)
	n.close()
	n.open()
	n.compare(n.c)
	n.close()
}
