package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/randtest"
)

// story is a random sequence of calls; the same generator gives the same story
// whatever the file system answers.
type story struct {
	rng   *rand.Rand
	files []File // open, or nil
	names []string
}

func newStory(rng *rand.Rand) *story {
	return &story{
		rng:   rng,
		files: make([]File, 3),
		names: []string{"a", "b", "c", "d", "d/a", "d/b", "e", "e/a", "a/x"},
	}
}

// step makes one call and returns what came of it, in words that do not
// depend on the file system.
func (s *story) step(fsys FS) string {
	op := s.rng.IntN(100)
	name, other := s.names[s.rng.IntN(len(s.names))], s.names[s.rng.IntN(len(s.names))]
	slot := s.rng.IntN(len(s.files))
	off, n := s.rng.Int64N(1500), s.rng.IntN(1500)
	fill := byte('a' + s.rng.IntN(26))
	switch {
	case op < 8:
		err := fsys.Mkdir(name)
		return fmt.Sprintf("mkdir %s: %s", name, class(err))
	case op < 14:
		return fmt.Sprintf("remove %s: %s", name, class(fsys.Remove(name)))
	case op < 22:
		return fmt.Sprintf("rename %s %s: %s", name, other, class(fsys.Rename(name, other)))
	case op < 28:
		return fmt.Sprintf("link %s %s: %s", name, other, class(fsys.Link(name, other)))
	case op < 32:
		return fmt.Sprintf("sync directory %s: %s", name, class(fsys.SyncDir(name)))
	case op < 34:
		return fmt.Sprintf("sync root: %s", class(fsys.SyncDir(".")))
	case op < 38:
		names, err := fsys.List(name)
		return fmt.Sprintf("list %s: %q %s", name, names, class(err))
	case op < 44:
		info, err := fsys.Stat(name)
		if info.Dir {
			return fmt.Sprintf("stat %s: a directory", name)
		}
		return fmt.Sprintf("stat %s: %d bytes, %d names, %s", name, info.Size, info.Links, class(err))
	case op < 60 || s.files[slot] == nil:
		if s.files[slot] != nil {
			_ = s.files[slot].Close()
		}
		call := []func(string) (File, error){fsys.Create, fsys.Create, fsys.OpenWrite, fsys.Open}[off%4]
		f, err := call(name)
		if err != nil {
			f = nil
		}
		s.files[slot] = f
		return fmt.Sprintf("open %d %s: %s", off%4, name, class(err))
	case op < 80:
		got, err := s.files[slot].WriteAt([]byte(strings.Repeat(string(fill), n)), off)
		return fmt.Sprintf("write %d at %d: %d, %s", n, off, got, class(err))
	case op < 84:
		return fmt.Sprintf("truncate %d: %s", off, class(s.files[slot].Truncate(off)))
	case op < 87:
		return fmt.Sprintf("allocate %d: %s", off, class(s.files[slot].Allocate(off)))
	case op < 92:
		return fmt.Sprintf("sync: %s", class(s.files[slot].Sync()))
	default:
		buf := make([]byte, n)
		got, err := s.files[slot].ReadAt(buf, off)
		if got == n {
			err = nil // end of file may be reported or not
		}
		return fmt.Sprintf("read %d at %d: %q, %v", n, off, buf[:got], err)
	}
}

func (s *story) close() {
	for _, f := range s.files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// class reduces an error to what callers may rely on.
func class(err error) string {
	for _, want := range []error{fs.ErrNotExist, fs.ErrExist, fault.ErrDiskFull, fault.ErrMissing} {
		if errors.Is(err, want) {
			return want.Error()
		}
	}
	if err != nil {
		return "fails"
	}
	return "ok"
}

// TestMemIsLikeOS plays random stories on both file systems.
func TestMemIsLikeOS(t *testing.T) {
	rng := randtest.New(t)
	for range 30 {
		a, b := rng.Uint64(), rng.Uint64()
		osFS, err := OpenRoot(t.TempDir())
		check(t, err)
		onOS, onMem := newStory(rand.New(rand.NewPCG(a, b))), newStory(rand.New(rand.NewPCG(a, b)))
		mem := NewMem()
		var log []string
		for range 300 {
			want, got := onOS.step(osFS), onMem.step(mem)
			log = append(log, got)
			if got != want {
				t.Fatalf("Mem: %s\nOS:  %s\nafter\n%s", got, want, strings.Join(log[max(0, len(log)-20):], "\n"))
			}
		}
		onOS.close()
		onMem.close()
	}
}

// TestSyncedSurvives plays random stories and crashes them: what was synced is
// in every image, and images of a synced file system are the file system.
func TestSyncedSurvives(t *testing.T) {
	rng := randtest.New(t)
	stories := 40
	if testing.Short() {
		stories = 8
	}
	for range stories {
		m := NewMem()
		s := newStory(rand.New(rand.NewPCG(rng.Uint64(), 0)))
		for range 200 {
			s.step(m)
			opt := CrashOptions{Keep: Keep(rng.IntN(3)), TornLast: rng.IntN(2) == 0, Seed: rng.Uint64()}
			image := m.Crash(opt)
			checkConsistent(t, image)
			if s := describeMem(t, image); s != describeMem(t, image.Crash(CrashOptions{})) {
				t.Fatalf("%+v: an image is not durable", opt)
			}
			if k := m.Kill(); describeMem(t, k) != describeMem(t, m) {
				t.Fatal("a kill lost something")
			}
		}
		if all := m.Crash(CrashOptions{Keep: KeepAll}); describeMem(t, all) != describeMem(t, m) {
			t.Fatal("KeepAll lost something")
		}
		// Sync all files, then all directories.
		for _, name := range m.Names() {
			f, err := m.Open(name)
			check(t, err)
			check(t, f.Sync())
			check(t, f.Close())
		}
		for _, dir := range []string{".", "a", "b", "c", "d", "e", "d/a", "d/b", "e/a"} {
			if info, err := m.Stat(dir); err == nil && info.Dir {
				check(t, m.SyncDir(dir))
			}
		}
		for _, opt := range images(5) {
			if got, want := describeMem(t, m.Crash(opt)), describeMem(t, m); got != want {
				t.Fatalf("%+v: synced, but the image is\n%s\nwant\n%s", opt, got, want)
			}
		}
		s.close()
		checkConsistent(t, m)
	}
}

// checkConsistent checks the counts that Mem keeps against the tree.
func checkConsistent(t *testing.T, m *Mem) {
	t.Helper()
	links := map[*node]int{m.root: 1}
	used := int64(0)
	var walk func(dir *node)
	walk = func(dir *node) {
		for _, n := range dir.names {
			links[n]++
			if n.isDir() {
				walk(n)
			} else if links[n] == 1 {
				used += n.live.size
			}
		}
	}
	walk(m.root)
	for n, want := range links {
		if n.links != want || n.isDir() && want != 1 {
			t.Fatalf("node %d has %d names, its count is %d", n.id, want, n.links)
		}
	}
	if m.used != used {
		t.Fatalf("%d bytes in use, the count is %d", used, m.used)
	}
	names := m.Names()
	if !slices.IsSorted(names) {
		t.Fatalf("names %q are not sorted", names)
	}
}
