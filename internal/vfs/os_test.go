package vfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
)

func TestOpenRoot(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	if _, err := OpenRoot(gone); !errors.Is(err, fault.ErrMissing) || !strings.Contains(err.Error(), gone) {
		t.Errorf("no directory: %v", err)
	}
	file := filepath.Join(dir, "file")
	check(t, os.WriteFile(file, nil, 0o600))
	if _, err := OpenRoot(file); !errors.Is(err, fault.ErrIO) {
		t.Errorf("a file: %v", err)
	}
	if _, err := CreateRoot(file); !errors.Is(err, fault.ErrIO) {
		t.Errorf("a file: %v", err)
	}
	if _, err := CreateRoot(filepath.Join(file, "below")); err == nil {
		t.Error("a directory was made below a file")
	}
}

func TestCreateRoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	for range 2 { // the second time all of it exists
		fsys, err := CreateRoot(dir)
		check(t, err)
		if fsys.Path("x/y") != filepath.Join(dir, "x", "y") {
			t.Errorf("path %q", fsys.Path("x/y"))
		}
		check(t, fsys.(io.Closer).Close())
	}
	for d := dir; filepath.Base(d) != "a"; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		check(t, err)
		if runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", d, info.Mode())
		}
	}
}

func TestFileMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system has no such modes")
	}
	dir := t.TempDir()
	fsys, err := OpenRoot(dir)
	check(t, err)
	put1(t, fsys, "a", "")
	check(t, fsys.Mkdir("d"))
	lock, err := fsys.Lock("LOCK", "")
	check(t, err)
	check(t, lock.Close())
	for name, want := range map[string]os.FileMode{"a": 0o600, "d": 0o700, "LOCK": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		check(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

// TestLinksRefused plants links inside the root, to the outside and to itself.
func TestLinksRefused(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	fsys, err := OpenRoot(dir)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	put1(t, fsys, "real", "real")
	check(t, fsys.Mkdir("d"))
	put1(t, fsys, "d/f", "f")
	for name, target := range map[string]string{
		"inside": "real", "out": filepath.Join(outside, "secret"), "dirIn": "d", "dirOut": outside, "loop": "loop", "dangling": "gone",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	for _, name := range []string{"inside", "out", "loop", "dangling", "dirIn/f", "dirOut/secret", "loop/x"} {
		_, openErr := fsys.Open(name)
		_, writeErr := fsys.OpenWrite(name)
		_, lockErr := fsys.Lock(name, "note")
		_, createErr := fsys.Create(name)
		for i, err := range []error{openErr, writeErr, lockErr, createErr, fsys.Rename(name, "x"), fsys.Link(name, "y")} {
			if err == nil {
				t.Errorf("%s: call %d followed a link", name, i)
			}
		}
	}
	for _, name := range []string{"dirIn", "dirOut"} {
		_, listErr := fsys.List(name)
		for i, err := range []error{listErr, fsys.SyncDir(name), fsys.Mkdir(name + "/x"), fsys.Rename("real", name+"/r"), fsys.Remove(name + "/f")} {
			if err == nil {
				t.Errorf("%s: call %d followed a link", name, i)
			}
		}
	}
	data, err := os.ReadFile(filepath.Join(outside, "secret"))
	if err != nil || string(data) != "secret" {
		t.Errorf("the outside changed: %q, %v", data, err)
	}
	wantContent(t, fsys, "real", "real")
	wantContent(t, fsys, "d/f", "f")
}

// TestOpenReplaced: a name that gets another file all the time has one of them at any time, and opens.
func TestOpenReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file is not replaced by os.Rename there")
	}
	dir := t.TempDir()
	fsys, err := OpenRoot(dir)
	check(t, err)
	put1(t, fsys, "name", "x")
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			next := filepath.Join(dir, "next")
			err := os.WriteFile(next, []byte("x"), 0o600)
			if err == nil {
				err = os.Rename(next, filepath.Join(dir, "name"))
			}
			if err != nil {
				stopped <- err
				return
			}
		}
	}()
	for range 2000 {
		f, err := fsys.Open("name")
		if err != nil {
			t.Error(err)
			break
		}
		check(t, f.Close())
	}
	close(stop)
	check(t, <-stopped)
}

// TestMovedRoot: names stay below the directory that was opened, also where another one takes its place, and so do links
// of files in it.
func TestMovedRoot(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open directory cannot be renamed there")
	}
	dir := t.TempDir()
	fsys, err := CreateRoot(filepath.Join(dir, "store"))
	check(t, err)
	check(t, os.Rename(filepath.Join(dir, "store"), filepath.Join(dir, "moved")))
	put1(t, fsys, "a", "a")
	if _, err := os.Stat(filepath.Join(dir, "moved", "a")); err != nil {
		t.Error(err)
	}
	other, err := CreateRoot(filepath.Join(dir, "store"))
	check(t, err)
	put1(t, other, "a", "other")
	to, err := CreateRoot(filepath.Join(dir, "checkpoint"))
	check(t, err)
	check(t, os.Rename(filepath.Join(dir, "checkpoint"), filepath.Join(dir, "copy")))
	linked, err := LinkTo(Sparing(fsys, func() bool { return false }), "a", to, "b")
	if !linked || err != nil {
		t.Fatalf("linked %v, %v", linked, err)
	}
	wantContent(t, to, "b", "a")
}

func TestRootClosed(t *testing.T) {
	fsys, err := OpenRoot(t.TempDir())
	check(t, err)
	f := create(t, fsys, "a", "a")
	check(t, fsys.(io.Closer).Close())
	if _, err := fsys.Open("a"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("open after close: %v", err)
	}
	_, err = f.WriteAt([]byte("b"), 0)
	check(t, err)
	check(t, f.Close())
}

func TestWriteZeros(t *testing.T) {
	f := create(t, NewMem(), "a", strings.Repeat("x", 10))
	check(t, writeZeros(f, 10, 10))
	check(t, writeZeros(f, 10, 5))
	check(t, writeZeros(f, 10, 3<<20+1))
	info, err := f.Stat()
	check(t, err)
	if info.Size != 3<<20+1 {
		t.Errorf("%d bytes", info.Size)
	}
	buf := make([]byte, 11)
	_, err = f.ReadAt(buf, 0)
	check(t, err)
	if string(buf) != "xxxxxxxxxx\x00" {
		t.Errorf("%q", buf)
	}
}

func BenchmarkReadAt4K(b *testing.B) {
	fsys, err := OpenRoot(b.TempDir())
	check(b, err)
	f := create(b, fsys, "a", strings.Repeat("x", 1<<20))
	defer f.Close()
	buf := make([]byte, 4096)
	b.ReportAllocs()
	b.SetBytes(4096)
	off := int64(0)
	for b.Loop() {
		if _, err := f.ReadAt(buf, off); err != nil && err != io.EOF {
			b.Fatal(err)
		}
		off = (off + 4096) % (1 << 20)
	}
}

func BenchmarkWriteAt4K(b *testing.B) {
	fsys, err := OpenRoot(b.TempDir())
	check(b, err)
	f := create(b, fsys, "a", strings.Repeat("x", 1<<20))
	defer f.Close()
	buf := make([]byte, 4096)
	b.ReportAllocs()
	b.SetBytes(4096)
	off := int64(0)
	for b.Loop() {
		if _, err := f.WriteAt(buf, off); err != nil {
			b.Fatal(err)
		}
		off = (off + 4096) % (1 << 20)
	}
}

func BenchmarkWriteSync4K(b *testing.B) {
	fsys, err := OpenRoot(b.TempDir())
	check(b, err)
	f := create(b, fsys, "a", "")
	defer f.Close()
	check(b, f.Allocate(1<<20))
	buf := make([]byte, 4096)
	b.ReportAllocs()
	off := int64(0)
	for b.Loop() {
		if _, err := f.WriteAt(buf, off); err != nil {
			b.Fatal(err)
		}
		check(b, f.Sync())
		off = (off + 4096) % (1 << 20)
	}
}

func BenchmarkOpenClose(b *testing.B) {
	fsys, err := OpenRoot(b.TempDir())
	check(b, err)
	check(b, fsys.Mkdir("p"))
	check(b, fsys.Mkdir("p/1"))
	put1(b, fsys, "p/1/a", "a")
	b.ReportAllocs()
	for b.Loop() {
		f, err := fsys.Open("p/1/a")
		check(b, err)
		check(b, f.Close())
	}
}

func BenchmarkMap(b *testing.B) {
	fsys, err := OpenRoot(b.TempDir())
	check(b, err)
	f := create(b, fsys, "a", strings.Repeat("x", 1<<20))
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		m, err := f.Map()
		check(b, err)
		check(b, m.Unmap())
	}
}
