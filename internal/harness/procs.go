package harness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/cleavestore/cleave/internal/measure"
)

// ColdProcs are the processors of the Go scheduler, for each core, with which
// reads that come from a device are fastest: one that is in a system call is given
// to another thread only after 20 µs and more (docs/performance.md).
const ColdProcs = 4

// setProcs makes the processors of the Go scheduler as many as suit the store in
// dir: where its files take more than there is memory, ColdProcs times as many as
// there are. What the environment says, or more than one a core, stays.
func setProcs(dir string) error {
	limit := measure.MemoryLimit()
	if os.Getenv("GOMAXPROCS") != "" || limit == 0 || runtime.GOMAXPROCS(0) > runtime.NumCPU() {
		return nil
	}
	files, err := PartitionBytes(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no store: who opens it says so
	}
	if err == nil && files > limit {
		runtime.GOMAXPROCS(ColdProcs * runtime.GOMAXPROCS(0))
	}
	return err
}

// PartitionsName is the directory of a store in which its partitions are.
const PartitionsName = "p"

// PartitionBytes returns how many bytes the files of all partitions of a store
// take, without its log.
func PartitionBytes(dir string) (int64, error) {
	return measure.DiskBytes(filepath.Join(dir, PartitionsName), "")
}
