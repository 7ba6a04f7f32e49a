package measure

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestParseMemory(t *testing.T) {
	m, ok := parseMemory("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t      12 kB\nRssFile:\t 1 kB\n")
	if want := (Memory{Resident: 1 << 20, PeakResident: 2 << 20, Anonymous: 12 << 10, PeakAnonymous: 12 << 10}); !ok || m != want {
		t.Errorf("%v: %+v", ok, m)
	}
	for _, text := range []string{"", "VmRSS: 1 kB\n", "VmHWM: x kB\nVmRSS: 1 kB\nRssAnon: 1 kB\n", "VmRSS"} {
		if _, ok := parseMemory(text); ok {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestParseRead(t *testing.T) {
	for text, want := range map[string]int64{
		"":                  -1,
		"rchar: 7\n":        -1,
		"read_bytes: x\n":   -1,
		"read_bytes: 100\n": 100,
		"rchar: 7\nread_bytes: 100\nwrite_bytes: 30\n": 100,
	} {
		if got := parseIO(text, "read_bytes"); got != want {
			t.Errorf("%q: %d bytes, want %d", text, got, want)
		}
	}
}

func TestParseDevice(t *testing.T) {
	for text, want := range map[string]int64{
		"":                        -1,
		"1 2 3 4 5 6\n":           -1,
		"1 2 3 4 5 6 x 8\n":       -1,
		"1 2 3 4 5 6 -7 8\n":      -1,
		"  1 2 3 4  5 6 7\n":      7 * 512,
		"1 2 3 4 5 6 10 8 9 10\n": 5120,
	} {
		if got := parseDevice(text); got != want {
			t.Errorf("%q: %d bytes, want %d", text, got, want)
		}
	}
}

// TestDeviceWritten: a device that the system tells of has written what a sync has made
// durable.
func TestDeviceWritten(t *testing.T) {
	if n := DeviceWritten(filepath.Join(t.TempDir(), "none")); n != -1 {
		t.Errorf("a directory that is not there: %d", n)
	}
	dir := t.TempDir()
	before := DeviceWritten(dir)
	file, err := os.Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 4<<20) // that no device makes smaller
	rand.NewChaCha8([32]byte{}).Read(content)
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
	switch after := DeviceWritten(dir); {
	case before < 0 && after != before:
		t.Errorf("unknown, then %d", after)
	case before >= 0 && after-before < int64(len(content)):
		t.Errorf("%d bytes for a file of %d", after-before, len(content))
	}
}

func TestDiskBytes(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"a": 3, "b": 5, "skip": 100, "below/c": 7, "below/skip": 100} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := DiskBytes(dir, "skip"); n != 15 || err != nil {
		t.Errorf("%d bytes: %v", n, err)
	}
	if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "below", "a")); err == nil {
		if n, err := DiskBytes(dir, "skip"); n != 15 || err != nil {
			t.Errorf("%d bytes with a second name: %v", n, err)
		}
	}
	if _, err := DiskBytes(filepath.Join(dir, "none"), ""); err == nil {
		t.Error("a directory that is not there has a size")
	}
}

func TestMachine(t *testing.T) {
	m := DescribeMachine(t.TempDir())
	if m.Go == "" || m.Platform == "" || m.Cores < 1 {
		t.Errorf("%+v", m)
	}
	m = Machine{Go: "go1", Platform: "os/arch", Cores: 2}
	if want := "go1, os/arch, CPU unknown, 2 cores, file system unknown"; m.String() != want {
		t.Errorf("got %q", m)
	}
	m.Revision = "abc"
	if want := ", file system unknown, revision abc"; !strings.HasSuffix(m.String(), want) {
		t.Errorf("got %q", m)
	}
}

// A process may use what the least of its control groups, and the machine, have.
func TestMemoryLimit(t *testing.T) {
	v1 := "12:cpu:/\n9:memory:/a/b\n1:name=systemd:/x\n"
	want := []string{"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}
	if got := limitFiles(v1); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	want = []string{"/sys/fs/cgroup/user.slice/memory.max", "/sys/fs/cgroup/memory.max"}
	if got := limitFiles("0::/user.slice\n"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := limitFiles("none\n\n5:cpuset:/\n"); len(got) != 0 {
		t.Errorf("%q", got)
	}
	for text, want := range map[string]int64{"400\n": 400, "max\n": 0, "": 0, "0": 0} {
		if n, ok := parseLimit(text); ok != (want > 0) || ok && n != want {
			t.Errorf("%q: %d, %t", text, n, ok)
		}
	}
	if n := parseTotalMemory("MemFree: 3 kB\nMemTotal:       16 kB\n"); n != 16<<10 {
		t.Errorf("%d", n)
	}
	if n := MemoryLimit(); runtime.GOOS == "linux" && n < 1<<20 {
		t.Errorf("%d bytes of memory", n)
	}
}
