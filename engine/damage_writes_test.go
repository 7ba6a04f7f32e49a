package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// damagedWriter is a store with two containers that is damaged and then written to.
// Everything that it reads is the newest document that was written, or an error that
// names a damaged file.
type damagedWriter struct {
	t    *testing.T
	mem  *vfs.Mem
	opts *Options
	db   *DB
	docs map[string]map[string]string // container, id: newest document
	n    int
}

const damagedDocs = 300

func newDamagedWriter(t *testing.T) *damagedWriter {
	w := &damagedWriter{t: t, mem: vfs.NewMem(), docs: make(map[string]map[string]string)}
	w.opts = testOptions(w.mem)
	w.opts.FileBytes = 8 << 10
	w.open()
	for _, name := range []string{"a", "b"} {
		def := ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll(), MinPartitions: 1}
		_, err := w.db.CreateContainer(context.Background(), name, def)
		must(w.t, err)
		w.docs[name] = make(map[string]string)
		w.write(name, 1)
	}
	must(w.t, w.db.Compact(context.Background()))
	return w
}

func (w *damagedWriter) open() {
	w.t.Helper()
	db, err := Open(context.Background(), "damaged", w.opts)
	must(w.t, err)
	w.db = db
	w.t.Cleanup(func() { db.Close() })
}

func (w *damagedWriter) reopen() {
	w.t.Helper()
	must(w.t, w.db.Close())
	w.open()
}

func (w *damagedWriter) container(name string) *Container {
	w.t.Helper()
	c, err := w.db.Container(name)
	must(w.t, err)
	return c
}

func damagedDocID(i int) (key PartitionKey, id string) {
	return StringKey(fmt.Sprint(i % 40)), fmt.Sprint(i)
}

// write writes every step-th document anew.
func (w *damagedWriter) write(name string, step int) {
	w.t.Helper()
	c := w.container(name)
	for i := 0; i < damagedDocs; i += step {
		_, id := damagedDocID(i)
		w.n++
		body := fmt.Sprintf(`{"id":%q,"k":"%d","n":%d,"v":"%s%d"}`, id, i%40, w.n, strings.Repeat("v", 100), w.n)
		if _, err := c.Upsert(context.Background(), []byte(body), nil); err != nil {
			w.t.Fatalf("upsert %d in %s: %v", i, name, err)
		}
		w.docs[name][id] = body
	}
}

// check reads every document of a container: damaged ones are those whose reads
// say that a file is damaged.
func (w *damagedWriter) check(name string) (damaged int) {
	w.t.Helper()
	c := w.container(name)
	for i := range damagedDocs {
		key, id := damagedDocID(i)
		it, err := c.Read(context.Background(), key, id)
		switch {
		case err != nil:
			w.named(err)
			damaged++
		case string(it.Body) != w.docs[name][id]:
			w.t.Fatalf("%s: document %s is %q, was written as %q", name, id, it.Body, w.docs[name][id])
		}
		rows, err := w.query(c, fmt.Sprintf(`SELECT * FROM c WHERE c.id = %q`, id), OnePartition(key))
		switch {
		case err != nil:
			w.named(err)
		case len(rows) != 1 || rows[0] != w.docs[name][id]:
			w.t.Fatalf("%s: query for %s finds %q, written was %q", name, id, rows, w.docs[name][id])
		}
	}
	return damaged
}

func (w *damagedWriter) query(c *Container, text string, scope Scope) (rows []string, err error) {
	q, err := ParseQuery(text, nil)
	must(w.t, err)
	for it, err := range c.Query(context.Background(), scope, q).All() {
		if err != nil {
			return nil, err
		}
		rows = append(rows, string(it.Body))
	}
	return rows, nil
}

// named requires that an error names a file and says that it is damaged or missing.
func (w *damagedWriter) named(err error) {
	w.t.Helper()
	corruption, io := new(CorruptionError), new(IOError)
	if !lsm.Unreadable(err) || !(errors.As(err, &corruption) && corruption.File != "") && !(errors.As(err, &io) && io.File != "") {
		w.t.Fatalf("not an error of damage with a file: %v", err)
	}
}

// healthy requires that all of a container reads.
func (w *damagedWriter) healthy(name string) {
	w.t.Helper()
	if n := w.check(name); n > 0 {
		w.t.Fatalf("%d documents of %s cannot be read", n, name)
	}
	rows, err := w.query(w.container(name), "SELECT * FROM c", AllPartitions())
	must(w.t, err)
	if len(rows) != len(w.docs[name]) {
		w.t.Fatalf("%d documents of %d in %s", len(rows), len(w.docs[name]), name)
	}
}

// segments returns the names of the segment files of a container.
func (w *damagedWriter) segments(name string) (names []string) {
	for _, p := range w.container(name).routing.Load().parts {
		for f := range p.Version.Load().Files() {
			names = append(names, f.Name)
		}
	}
	return names
}

// section returns where a section of a segment file lies.
func (w *damagedWriter) section(name string, kind segment.SectionKind) segment.Section {
	w.t.Helper()
	r, err := segment.Open(w.mem, name, segment.ReaderOptions{EPK: lsm.AppendEPK})
	must(w.t, err)
	defer r.Release()
	for _, s := range r.Properties().Sections {
		if s.Kind == kind {
			return s
		}
	}
	w.t.Fatalf("%s has no section %v", name, kind)
	return segment.Section{}
}

// flip changes a byte of a section of a segment file while the store is closed.
func (w *damagedWriter) flip(name string, kind segment.SectionKind) {
	w.t.Helper()
	must(w.t, w.db.Close())
	s := w.section(name, kind)
	at := s.Off + s.Len - 1 - s.Len/8
	data, err := w.mem.ReadFile(name)
	must(w.t, err)
	data[at] ^= 4
	must(w.t, w.mem.WriteFile(name, data))
	w.open()
}

// TestWritesOverDamage flips a bit in each section of a segment file in turn. Writes,
// flushes, merges, an index policy, splits and further opens go on, as if the file
// was there for those only who need what is damaged.
func TestWritesOverDamage(t *testing.T) {
	t.Parallel()
	for _, kind := range []segment.SectionKind{
		segment.SectionGroups, segment.SectionOffsets, segment.SectionPartitions, segment.SectionLocator, segment.SectionIndex, segment.SectionDeletionVectors,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			w := newDamagedWriter(t)
			if kind == segment.SectionDeletionVectors {
				w.write("a", 3)
				must(w.t, w.db.Flush(ctx))
			}
			w.flip(w.segments("a")[0], kind)
			w.write("a", 2)
			w.write("b", 2)
			must(w.t, w.db.Flush(ctx))
			w.check("a")
			w.healthy("b")
			for range tiers.MaxRuns + 2 {
				w.write("a", 7)
				must(w.t, w.db.Flush(ctx))
				w.merge("a")
			}
			if runs := len(w.container("a").routing.Load().parts[0].Version.Load().Runs); runs > tiers.MaxRuns {
				t.Errorf("%d runs: merges do not go on", runs)
			}
			w.check("a")
			w.reopen()
			w.write("a", 1)
			must(w.t, w.db.Flush(ctx))
			for i := range damagedDocs {
				key, id := damagedDocID(i)
				it, err := w.container("a").Read(ctx, key, id)
				must(w.t, err) // the newest versions lie in front of the damage
				if string(it.Body) != w.docs["a"][id] {
					t.Fatalf("document %s is %q, was written as %q", id, it.Body, w.docs["a"][id])
				}
			}
			w.reopen()
			w.check("a")
			w.healthy("b")
		})
	}
}

// merge lets a container merge until there is nothing to be merged.
func (w *damagedWriter) merge(name string) {
	w.t.Helper()
	for _, p := range w.container(name).routing.Load().parts {
		for failed := 0; ; {
			done, err := p.CompactOne(context.Background())
			if err != nil {
				w.named(err)
				if failed++; failed > len(w.segments(name)) {
					w.t.Fatalf("merges meet the same damage again and again: %v", err)
				}
				continue
			}
			if !done {
				break
			}
		}
	}
}

// TestReshapeOverDamage splits a partition with a damaged file, merges the halves again
// and gives the container another index policy.
func TestReshapeOverDamage(t *testing.T) {
	t.Parallel()
	for _, kind := range []segment.SectionKind{
		segment.SectionGroups, segment.SectionOffsets, segment.SectionPartitions, segment.SectionLocator, segment.SectionIndex,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			w := newDamagedWriter(t)
			w.write("a", 2)
			must(w.t, w.db.Flush(ctx))
			w.flip(w.segments("a")[0], kind)
			before := w.check("a")
			c := w.container("a")
			reshape := func(start func() (*ReshapeJob, error)) {
				t.Helper()
				job, err := start()
				must(w.t, err)
				must(w.t, job.Wait(ctx))
			}
			reshape(func() (*ReshapeJob, error) { return c.Split(ctx, c.Partitions()[0].ID, nil) })
			if n := w.check("a"); n > before {
				t.Errorf("%d documents cannot be read after a split, %d before", n, before)
			}
			w.settle()
			w.write("a", 5)
			w.reopen()
			c = w.container("a")
			reshape(func() (*ReshapeJob, error) { return c.Merge(ctx, c.Partitions()[0].ID, c.Partitions()[1].ID) })
			w.settle()
			if n := w.check("a"); n > before {
				t.Errorf("%d documents cannot be read after a merge, %d before", n, before)
			}
			job, err := c.SetIndexPolicy(ctx, IndexPolicy{Include: []string{"/n/?", "/id/?"}})
			if err == nil {
				err = job.Wait(ctx)
			}
			if err != nil {
				w.named(err)
			} else if kind == segment.SectionGroups {
				t.Error("the damaged file got an index")
			}
			if n := w.check("a"); n > before {
				t.Errorf("%d documents cannot be read with another policy, %d before", n, before)
			}
			w.healthy("b")
			w.reopen()
			w.healthy("b")
		})
	}
}

// settle settles the store; only damage may be in the way.
func (w *damagedWriter) settle() {
	w.t.Helper()
	if err := w.db.Compact(context.Background()); err != nil {
		w.named(err)
	}
}

// TestWriterOverDamage overwrites a damaged file by far more than fits into memory and
// the log, with the background at work: no write of either container is refused, and
// the log does not grow.
func TestWriterOverDamage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newDamagedWriter(t)
	w.opts.manual, w.opts.Durability, w.opts.LogBytes = false, Buffered, 4*minLogFileBytes
	w.flip(w.segments("a")[0], segment.SectionGroups)
	filler := strings.Repeat("f", 8<<10)
	for round := range 12 / lone(1) {
		for i := range damagedDocs {
			for _, name := range []string{"a", "b"} {
				_, id := damagedDocID(i)
				body := fmt.Sprintf(`{"id":%q,"k":"%d","n":%d,"v":%q}`, id, i%40, round, filler)
				if _, err := w.container(name).Upsert(ctx, []byte(body), nil); err != nil {
					t.Fatalf("round %d, document %d of %s: %v", round, i, name, err)
				}
				w.docs[name][id] = body
			}
		}
	}
	must(w.t, w.db.Flush(ctx))
	w.healthy("b")
	for i := range damagedDocs {
		key, id := damagedDocID(i)
		it, err := w.container("a").Read(ctx, key, id)
		must(w.t, err)
		if string(it.Body) != w.docs["a"][id] {
			t.Fatalf("document %s is not the newest", id)
		}
	}
	w.reopen()
	w.healthy("b")
}

// TestWritesTellDamage: a write that meets damage where it looks for the present version is a read that failed, as that of a batch is.
func TestWritesTellDamage(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(c *Container, key PartitionKey, id string, body []byte) error{
		"single": func(c *Container, _ PartitionKey, _ string, body []byte) error {
			return second(c.Replace(t.Context(), body, nil))
		},
		"batch": func(c *Container, key PartitionKey, _ string, body []byte) error {
			b := c.NewBatch(key)
			must(t, b.Replace(body, nil))
			return second(c.Commit(t.Context(), b))
		},
		"delete": func(c *Container, key PartitionKey, id string, _ []byte) error {
			return c.Delete(t.Context(), key, id, nil)
		},
	} {
		w := newDamagedWriter(t)
		w.flip(w.segments("a")[0], segment.SectionGroups)
		failed := int64(0)
		for i := range damagedDocs {
			key, id := damagedDocID(i)
			if err := write(w.container("a"), key, id, []byte(w.docs["a"][id])); err != nil {
				w.named(err)
				failed++
			}
		}
		if n := w.db.Stats().ReadErrors; failed == 0 || n != failed {
			t.Errorf("%s: %d writes met damage, %d are counted", name, failed, n)
		}
	}
}
