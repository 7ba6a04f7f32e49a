package engine

import (
	"bytes"
	"io"
	"runtime"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// waitsForLock says whether some goroutine waits for a lock below a function.
func waitsForLock(function string) bool {
	buf := make([]byte, 1<<20)
	for block := range bytes.SplitSeq(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		head, _, _ := bytes.Cut(block, []byte("\n"))
		if bytes.Contains(head, []byte("[sync.Mutex.Lock")) && bytes.Contains(block, []byte(function)) {
			return true
		}
	}
	return false
}

// TestReadersBesideStalledWriter: a writer that writes the buffer of the log has the commit lock of its partition. An export of
// the partition waits for it, and holds up no scan meanwhile.
func TestReadersBesideStalledWriter(t *testing.T) {
	db, c := openStore(t, testOptions(vfs.NewMem()))
	upsert(t, c, "x", 10)
	p := db.partitions()[0]
	p.Commit.Lock() // stands for the writer
	exported := background(func() error { return second(c.ExportPartition(t.Context(), p.ID, io.Discard)) })
	until(func() bool { return waitsForLock(".takeCut(") })
	scanned := background(func() (failed error) {
		for _, err := range c.Scan(t.Context(), StringKey("a"), IDRange{}, nil) {
			failed = err
		}
		return failed
	})
	until(func() bool { return len(scanned) > 0 || waitsForLock("exec.ScanKey(") })
	if len(scanned) == 0 {
		t.Error("a scan waits for the writer")
	}
	p.Commit.Unlock()
	must(t, <-scanned)
	must(t, <-exported)
}
