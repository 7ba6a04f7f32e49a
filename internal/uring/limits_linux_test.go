package uring

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// descriptors counts the rings that this process has open.
func descriptors(t *testing.T) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range list {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.Contains(to, "io_uring") {
			n++
		}
	}
	return n
}

// TestManyRings: rings of many stores work side by side, programs that the process starts
// do not inherit them, and they are closed when nobody has them any more.
func TestManyRings(t *testing.T) {
	if forbidden(t) {
		t.Log("io_uring is forbidden here")
		return
	}
	f, data := file(t, 100)
	before := descriptors(t)
	func() {
		stores := make([]Rings, 30)
		b := make([]byte, len(data))
		for i := range stores {
			if !stores[i].ReadAt(f, b, 0) || string(b) != string(data) {
				t.Fatalf("store %d does not read", i)
			}
			for _, r := range stores[i].list {
				if flags, err := unix.FcntlInt(uintptr(r.fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
					t.Fatalf("started programs inherit a ring: flags %#x, error %v", flags, err)
				}
			}
		}
		if n := descriptors(t) - before; n < len(stores) {
			t.Errorf("%d rings of %d stores", n, len(stores))
		}
		runtime.KeepAlive(stores)
	}()
	for descriptors(t) > before { // else the test ends with its time
		runtime.GC()
	}
}

// forbid is set to what TestForbidden forbids its child.
const forbid = "CLEAVE_TEST_FORBID"

// TestForbidden: where the system refuses io_uring, wholly or when it is used, for want of
// descriptors or of memory that may be locked, nothing is read, and nothing breaks.
func TestForbidden(t *testing.T) {
	if what := os.Getenv(forbid); what != "" {
		refused(t, what)
		return
	}
	for _, what := range []string{"setup EPERM", "setup ENOSYS", "enter EPERM", "enter EAGAIN", "descriptors", "memory"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestForbidden$")
		cmd.Env = append(os.Environ(), forbid+"="+what)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}

// refused is the child of TestForbidden.
func refused(t *testing.T, what string) {
	f, data := file(t, 100)
	var s Rings
	b := make([]byte, len(data))
	var call, name string
	switch _, _ = fmt.Sscan(what, &call, &name); call {
	case "setup", "enter":
		number := map[string]uint32{"setup": unix.SYS_IO_URING_SETUP, "enter": unix.SYS_IO_URING_ENTER}[call]
		errno := map[string]uint32{"EPERM": uint32(unix.EPERM), "ENOSYS": uint32(unix.ENOSYS), "EAGAIN": uint32(unix.EAGAIN)}[name]
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: number},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errno},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); errno != 0 {
			t.Log("no filter of system calls here:", errno)
			return
		}
	case "descriptors":
		var old unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(f.Fd()) + 1, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) }()
	case "memory": // counted against the limit by old kernels only
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * entries {
		if done := s.ReadAt(f, b, 0); done && (what != "memory" || string(b) != string(data)) {
			t.Fatalf("done, though %s is forbidden", what)
		}
	}
	for _, r := range s.list {
		if len(r.free) != entries {
			t.Errorf("%d of %d places are free", len(r.free), entries)
		}
	}
}
