package cleavetest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// Call is a kind of call that a store makes on the disk.
type Call uint8

// Kinds of calls.
const (
	Any    Call = iota // each of those below
	Change             // each that changes the disk: all but Open and Read
	Open               // of a file that is there
	Read               // of bytes, past those that are mapped into memory
	Create             // of a file or directory
	Write              // of bytes
	Resize             // to another length, or to have space ahead
	Sync               // of a file or directory: makes durable what was written before
	Rename             // which puts new manifests and segment files into place
	Link               // a second name for a file: splits and checkpoints make some
	Remove             // of a file or directory
)

// calls says what the calls of the file system are called here. Those that are missing,
// as the listing of a directory, are Open.
var calls = map[vfs.Op]Call{
	vfs.OpRead: Read, vfs.OpMap: Read, vfs.OpCreate: Create, vfs.OpMkdir: Create, vfs.OpWrite: Write,
	vfs.OpTruncate: Resize, vfs.OpAllocate: Resize, vfs.OpSync: Sync, vfs.OpSyncDir: Sync,
	vfs.OpRename: Rename, vfs.OpLink: Link, vfs.OpRemove: Remove, vfs.OpLock: Create,
}

func callOf(op vfs.Op) Call {
	if c, ok := calls[op]; ok {
		return c
	}
	return Open
}

func (c Call) changes() bool { return c != Open && c != Read }

// matches says whether a fault of kind c means a call of kind is.
func (c Call) matches(is Call) bool { return c == Any || c == is || c == Change && is.changes() }

// String returns the name of the kind.
func (c Call) String() string {
	names := [...]string{"call", "change", "open", "read", "create", "write", "resize", "sync", "rename", "link", "remove"}
	if int(c) >= len(names) {
		return fmt.Sprintf("Call(%d)", uint8(c))
	}
	return names[c]
}

// Fault is a fault that Fail has planted. Its methods are safe for concurrent use.
type Fault struct {
	s     *Store
	call  Call
	err   error
	file  string // pattern; "": any
	first int    // of the calls that match, counted from 1, the first that fails
	most  int    // calls that fail; 0: any number

	// Guarded by faults.mu.
	seen    int // calls that matched
	hits    int // calls that failed
	asked   bool
	planted bool
}

// FaultOption is an option of Fail.
type FaultOption func(*Fault)

// Nth has the nth matching call from now on fail, in the place of the next one.
func Nth(n int) FaultOption { return func(f *Fault) { f.first = n } }

// Times has n matching calls in a row fail, in the place of one.
func Times(n int) FaultOption { return func(f *Fault) { f.most = n } }

// ForEver has all matching calls fail, from the first that does until Fault.Clear.
func ForEver() FaultOption { return Times(0) }

// OnFile has only calls on some files fail: those whose name matches the pattern, by the
// rules of path.Match. LogFiles, SegmentFiles and ManifestFiles are patterns. Of a rename or link, either name may match.
func OnFile(pattern string) FaultOption { return func(f *Fault) { f.file = pattern } }

// Patterns of the files of a store, for OnFile and Damage. A pattern without a slash is
// for the last part of the name.
const (
	LogFiles      = "*.log"
	SegmentFiles  = "*.seg"
	ManifestFiles = "MANIFEST-*"
)

// Fail plants a fault: the next call of a kind fails with err, or those that the options
// say. Nil stands for EIO. ENOSPC (syscall) makes ErrDiskFull of it, EMFILE ErrResource.
// The call does nothing then; a sync that fails has lost, as on Linux, what was written
// since the one before: later syncs succeed without it.
//
// The store makes calls in the background, too. OnFile and NoBackground help to mean the
// right one. The test fails if the fault is never met, unless it asks for Hits.
func (s *Store) Fail(call Call, err error, opts ...FaultOption) *Fault {
	f := &Fault{s: s, call: call, err: err, first: 1, most: 1, planted: true}
	if err == nil {
		f.err = syscall.EIO
	}
	for _, o := range opts {
		o(f)
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.list = append(s.faults.list, f)
	return f
}

// Hits returns how many calls have failed by the fault.
func (f *Fault) Hits() int {
	f.s.faults.mu.Lock()
	defer f.s.faults.mu.Unlock()
	f.asked = true
	return f.hits
}

// Clear takes the fault away. It may be called more than once.
func (f *Fault) Clear() {
	f.s.faults.mu.Lock()
	defer f.s.faults.mu.Unlock()
	f.planted = false
}

// String describes the fault.
func (f *Fault) String() string {
	var b strings.Builder
	switch {
	case f.most == 1 && f.first == 1:
		fmt.Fprintf(&b, "the next %v", f.call)
	case f.most == 1:
		fmt.Fprintf(&b, "%v %d from now", f.call, f.first)
	case f.most == 0:
		fmt.Fprintf(&b, "each %v from number %d on", f.call, f.first)
	default:
		fmt.Fprintf(&b, "%d times %v from number %d on", f.most, f.call, f.first)
	}
	if f.file != "" {
		fmt.Fprintf(&b, " of files %s", f.file)
	}
	fmt.Fprintf(&b, " fails with %q", f.err)
	return b.String()
}

// SlowSyncs has each sync take d longer, from now on; 0: not any more.
func (s *Store) SlowSyncs(d time.Duration) { s.faults.slow.Store(int64(max(0, d))) }

// faults are the faults of a store, and when it is to crash.
type faults struct {
	slow atomic.Int64

	mu      sync.Mutex
	list    []*Fault
	changes int // calls that changed the disk so far, or were to
	crashAt int // at which of them the process dies; 0: at none
}

// met says what happens at a call: the process dies, or the call fails with err.
func (x *faults) met(c vfs.Call) (crash bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	is := callOf(c.Op)
	if is.changes() {
		x.changes++
		if x.crashAt > 0 && x.changes >= x.crashAt {
			x.crashAt = 0
			return true, nil
		}
	}
	for _, f := range x.list {
		if f.planted && f.call.matches(is) && (matches(f.file, c.Name) || c.To != "" && matches(f.file, c.To)) && f.metLocked() && err == nil {
			err = f.err
		}
	}
	return false, err
}

// metLocked counts a matching call, and says whether it fails.
func (f *Fault) metLocked() bool {
	f.seen++
	if f.seen < f.first || f.most > 0 && f.seen >= f.first+f.most {
		return false
	}
	f.hits++
	return true
}

// clear takes all faults away, and returns those that were never met and not asked for.
func (x *faults) clear() (missed []*Fault, met bool) {
	x.slow.Store(0)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.crashAt = 0
	for _, f := range x.list {
		if f.hits == 0 && !f.asked {
			missed = append(missed, f)
		}
		met = met || f.hits > 0
		f.planted = false
	}
	return slices.Clip(missed), met
}

// matches says whether a file name matches a pattern.
func matches(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	if !strings.Contains(pattern, "/") {
		name = path.Base(name)
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}
