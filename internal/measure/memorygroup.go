package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// A MemoryGroup is a control group of the system that bounds the memory of the processes
// in it, what the system caches of files for them included. It needs Linux and the right to
// make control groups, which the root user has.
type MemoryGroup struct{ dir string }

// memoryGroupFiles are the limit in a group and the group that contains new ones, by the
// version of control groups.
var memoryGroupFiles = []struct{ parent, limit string }{
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, // version 1
	{"/sys/fs/cgroup", "memory.max"},                   // version 2
}

// NewMemoryGroup makes a group of at most limit bytes. Remove removes it.
func NewMemoryGroup(limit int64) (*MemoryGroup, error) {
	var failed []error
	for _, f := range memoryGroupFiles {
		if _, err := os.Stat(filepath.Join(f.parent, "cgroup.procs")); err != nil {
			failed = append(failed, err)
			continue
		}
		dir, err := os.MkdirTemp(f.parent, "cleave-")
		if err != nil {
			failed = append(failed, err)
			continue
		}
		err = os.WriteFile(filepath.Join(dir, f.limit), strconv.AppendInt(nil, limit, 10), 0o644)
		if err == nil {
			return &MemoryGroup{dir: dir}, nil
		}
		failed = append(failed, err, os.Remove(dir))
	}
	return nil, fmt.Errorf("no control group can be made that bounds memory (are you root on Linux?): %w", errors.Join(failed...))
}

// Dir is the directory of the group, for JoinMemoryGroup in another process.
func (g *MemoryGroup) Dir() string { return g.dir }

// Remove removes the group, in which no process may be any more.
func (g *MemoryGroup) Remove() error { return os.Remove(g.dir) }

// JoinMemoryGroup puts this process into the group of a directory. What it has in memory
// already stays with its old group.
func JoinMemoryGroup(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(os.Getpid()), 10), 0o644)
}
