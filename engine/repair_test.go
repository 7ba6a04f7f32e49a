package engine

import (
	"context"
	"maps"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// repaired repairs the store and returns the new one, and what was said of it.
func (w *damagedWriter) repaired(older bool) (*damagedWriter, RepairReport) {
	w.t.Helper()
	ctx := context.Background()
	opts := *w.opts
	opts.ReadOnly = true
	from, err := Open(ctx, "damaged", &opts)
	must(w.t, err)
	defer from.Close()
	fixed := &damagedWriter{t: w.t, mem: vfs.NewMem(), docs: w.docs}
	fixed.opts = testOptions(fixed.mem)
	fixed.open()
	report, err := repair(ctx, from, fixed.db, &RepairOptions{Older: older})
	must(w.t, err)
	return fixed, report
}

// present counts the documents of a container, each of which must be the newest.
func (w *damagedWriter) present(name string) (n int) {
	w.t.Helper()
	for it, err := range w.container(name).ScanAll(context.Background(), nil) {
		must(w.t, err)
		if string(it.Body) != w.docs[name][it.ID] {
			w.t.Fatalf("document %s of %s is %q, was written as %q", it.ID, name, it.Body, w.docs[name][it.ID])
		}
		n++
	}
	return n
}

// TestRepair damages each section of a file, the newest or the oldest, and repairs the
// store: what is written is the newest there was, and little is missing.
func TestRepair(t *testing.T) {
	t.Parallel()
	for _, kind := range []segment.SectionKind{
		segment.SectionGroups, segment.SectionOffsets, segment.SectionPartitions, segment.SectionLocator, segment.SectionIndex,
	} {
		for _, newest := range []bool{false, true} {
			w := newDamagedWriter(t)
			w.write("a", 3)
			must(w.t, w.db.Flush(context.Background()))
			w.write("a", 10) // in the log only
			files := w.segments("a")
			name := files[len(files)-1]
			if newest {
				name = files[0]
			}
			w.flip(name, kind)
			must(w.t, w.db.Close())
			fixed, report := w.repaired(false)
			missing := damagedDocs - fixed.present("a")
			if n := fixed.present("b"); n != damagedDocs {
				t.Errorf("%v: %d documents of b", kind, n)
			}
			most := 0
			if kind == segment.SectionGroups {
				most = 130 // a group, and what is older between its neighbours
			}
			if missing > most || missing > 0 && len(report.Lost) == 0 || int(report.Documents) != 2*damagedDocs-missing {
				t.Errorf("%v, newest %v: %d documents are missing: %+v", kind, newest, missing, report)
			}
		}
	}
}

// TestRepairWithoutFile repairs a store that has lost a file, and one that has lost the
// manifest of a partition.
func TestRepairWithoutFile(t *testing.T) {
	w := newDamagedWriter(t)
	name := w.segments("a")[1]
	must(w.t, w.db.Close())
	w.spoil(name, func([]byte) []byte { return nil })
	held := w.mem.Clone()
	fixed, report := w.repaired(false)
	if n := fixed.present("a"); n == 0 || n == damagedDocs || len(report.Lost) != 1 || fixed.present("b") != damagedDocs {
		t.Errorf("%d documents: %+v", n, report)
	}
	if !maps.Equal(filesOf(t, held), filesOf(t, w.mem)) {
		t.Error("the repair changed the store")
	}
}
