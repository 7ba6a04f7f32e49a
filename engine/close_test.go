package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// TestCloseTrimsLog closes a store whose log holds much that is in files too,
// and little that is not: afterwards it holds the little.
func TestCloseTrimsLog(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	opts.LogFileBytes, opts.memtableBytes = 8<<20, 8<<20
	db, err := Open(ctx, "close", opts)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, opts: opts, db: db, o: newOracle()}
	s.create("large", 1)
	s.create("small", 2)
	s.put("small", 3, 50)
	s.put("large", 300, 4_000)
	s.put("small", 5, 50)
	if s.err != nil {
		t.Fatal(s.err)
	}
	if before := logBytes(t, mem); before < 1<<20 {
		t.Fatalf("log of %d bytes before", before)
	}
	s.close()
	if s.err != nil {
		t.Fatal(s.err)
	}
	if after := logBytes(t, mem); after > 16<<10 {
		t.Errorf("log of %d bytes after", after)
	}
	db, err = Open(ctx, "close", testOptions(mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone})))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := s.o.check(db, func(h *history) int { return len(h.writes) }); err != nil {
		t.Error(err)
	}
}

// logBytes returns the size of all log files.
func logBytes(t *testing.T, mem *vfs.Mem) (n int) {
	for _, name := range mem.Names() {
		base, ok := strings.CutPrefix(name, manifest.LogDir+"/")
		if _, isLog := wal.ParseFileName(base); !ok || !isLog {
			continue
		}
		data, err := mem.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n += len(data)
	}
	return n
}
