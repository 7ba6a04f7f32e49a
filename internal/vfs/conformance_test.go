package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
)

// everywhere runs a test over each file system.
func everywhere(t *testing.T, test func(t *testing.T, fsys FS)) {
	osRoot := func(t *testing.T) FS {
		t.Helper()
		fsys, err := OpenRoot(t.TempDir())
		check(t, err)
		t.Cleanup(func() { check(t, fsys.(io.Closer).Close()) })
		return fsys
	}
	t.Run("OS", func(t *testing.T) { test(t, osRoot(t)) })
	t.Run("Mem", func(t *testing.T) { test(t, NewMem()) })
	t.Run("FaultyOS", func(t *testing.T) { test(t, NewFaulty(osRoot(t))) })
	t.Run("FaultyMem", func(t *testing.T) { test(t, NewFaulty(NewMem())) })
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused checks that err is an IOError that matches want and names the file.
func refused(t *testing.T, fsys FS, name string, err, want error) {
	t.Helper()
	var ioErr *fault.IOError
	if !errors.As(err, &ioErr) || !errors.Is(err, want) {
		t.Fatalf("%s: error %v, want %v", name, err, want)
	}
	if ioErr.File != fsys.Path(name) {
		t.Errorf("%s: error %v is about %s", name, err, ioErr.File)
	}
}

func create(t testing.TB, fsys FS, name, content string) File {
	t.Helper()
	f, err := fsys.Create(name)
	check(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	check(t, err)
	return f
}

func put1(t testing.TB, fsys FS, name, content string) {
	t.Helper()
	check(t, create(t, fsys, name, content).Close())
}

func content(t testing.TB, fsys FS, name string) string {
	t.Helper()
	data, err := ReadFile(fsys, name, 1<<20)
	check(t, err)
	return string(data)
}

func wantContent(t *testing.T, fsys FS, name, want string) {
	t.Helper()
	if got := content(t, fsys, name); got != want {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

func wantList(t *testing.T, fsys FS, dir string, want ...string) {
	t.Helper()
	got, err := fsys.List(dir)
	check(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

func TestFileReadWrite(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		f := create(t, fsys, "a", "hello")
		if f.Name() != fsys.Path("a") {
			t.Errorf("name %q, path %q", f.Name(), fsys.Path("a"))
		}
		_, err := f.WriteAt([]byte("world"), 8)
		check(t, err)
		buf := make([]byte, 20)
		n, err := f.ReadAt(buf, 0)
		if err != io.EOF || string(buf[:n]) != "hello\x00\x00\x00world" {
			t.Errorf("read %q, %v", buf[:n], err)
		}
		if n, err := f.ReadAt(buf[:5], 8); n != 5 || err != nil && err != io.EOF {
			t.Errorf("read to the end: %d, %v", n, err)
		}
		if n, err := f.ReadAt(buf, 13); n != 0 || err != io.EOF {
			t.Errorf("read at the end: %d, %v", n, err)
		}
		if n, err := f.ReadAt(buf, 1000); n != 0 || err != io.EOF {
			t.Errorf("read behind the end: %d, %v", n, err)
		}
		if n, err := f.ReadAt(nil, 1000); n != 0 || err != nil {
			t.Errorf("read of nothing: %d, %v", n, err)
		}
		for _, err := range []error{
			second(f.ReadAt(buf, -1)), second(f.WriteAt(buf, -1)), f.Truncate(-1),
		} {
			refused(t, fsys, "a", err, fault.ErrIO)
		}
		info, err := f.Stat()
		check(t, err)
		byName, err := fsys.Stat("a")
		check(t, err)
		if info.Size != 13 || info.Dir || info.Links != 1 || info != byName {
			t.Errorf("file %+v, name %+v", info, byName)
		}
		check(t, f.WriteBack(0, 7))
		check(t, f.WriteBack(7, 6))
		check(t, f.Sync())
		for _, advice := range []Advice{Random, Sequential, WillNeed, DontNeed, Advice(99)} {
			f.Advise(0, 0, advice)
			f.Advise(-1, -1, advice)
		}
		check(t, f.Close())
		_, statErr := f.Stat()
		_, mapErr := f.Map()
		for _, err := range []error{
			f.Close(), second(f.ReadAt(buf, 0)), second(f.WriteAt(buf, 0)), f.Truncate(0), f.Sync(), f.Allocate(1), statErr, mapErr,
		} {
			refused(t, fsys, "a", err, os.ErrClosed)
		}
	})
}

func second(_ int, err error) error { return err }

func TestFileLength(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		f := create(t, fsys, "a", "0123456789")
		defer f.Close()
		check(t, f.Truncate(4))
		check(t, f.Truncate(6))
		wantContent(t, fsys, "a", "0123\x00\x00")
		check(t, f.Allocate(3))
		check(t, f.Allocate(-1))
		wantContent(t, fsys, "a", "0123\x00\x00")
		check(t, f.Allocate(8))
		wantContent(t, fsys, "a", "0123\x00\x00\x00\x00")
		check(t, f.Allocate(3<<20))
		info, err := f.Stat()
		check(t, err)
		if info.Size != 3<<20 {
			t.Errorf("%d bytes", info.Size)
		}
		check(t, f.Truncate(0))
		wantContent(t, fsys, "a", "")
	})
}

// TestNextData: what is passed over reads as zeros.
func TestNextData(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		const size, at = 1 << 20, 512<<10 + 100
		f := create(t, fsys, "a", "0123456789")
		defer f.Close()
		check(t, f.Allocate(size))
		if _, err := f.WriteAt([]byte("x"), at); err != nil {
			t.Fatal(err)
		}
		check(t, f.Sync())
		for off, limit := range map[int64]int64{0: 0, 9: 9, 10: at, 300 << 10: at, at: at, at + 1: size, size - 1: size, size: size, size + 5: size + 5} {
			if next := f.NextData(off); next < off || next > limit {
				t.Errorf("from %d: %d, want at most %d", off, next, limit)
			}
		}
	})
}

func TestOpenModes(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		put1(t, fsys, "a", "one")
		check(t, fsys.Mkdir("d"))
		_, err := fsys.Create("a")
		refused(t, fsys, "a", err, fs.ErrExist)
		_, err = fsys.Create("d")
		refused(t, fsys, "d", err, fs.ErrExist)
		wantContent(t, fsys, "a", "one")

		r, err := fsys.Open("a")
		check(t, err)
		defer r.Close()
		refused(t, fsys, "a", second(r.WriteAt([]byte("x"), 0)), fault.ErrIO)
		refused(t, fsys, "a", r.Truncate(0), fault.ErrIO)

		w, err := fsys.OpenWrite("a")
		check(t, err)
		defer w.Close()
		_, err = w.WriteAt([]byte("w"), 2)
		check(t, err)
		wantContent(t, fsys, "a", "onw")

		for _, open := range []func(string) (File, error){fsys.Open, fsys.OpenWrite} {
			_, err := open("d")
			refused(t, fsys, "d", err, fault.ErrIO)
			_, err = open("gone")
			refused(t, fsys, "gone", err, fault.ErrMissing)
			_, err = open("gone/a")
			refused(t, fsys, "gone/a", err, fault.ErrMissing)
			_, err = open("a/b")
			refused(t, fsys, "a/b", err, errNotDir)
		}
	})
}

func TestNamesOutside(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		put1(t, fsys, "a", "")
		for _, name := range []string{"", "/a", "../a", "d/../a", "a/", "./a", "d//a", "a\x00", `d\a`, ".."} {
			_, createErr := fsys.Create(name)
			_, openErr := fsys.Open(name)
			_, writeErr := fsys.OpenWrite(name)
			_, statErr := fsys.Stat(name)
			_, listErr := fsys.List(name)
			_, lockErr := fsys.Lock(name, "")
			for _, err := range []error{createErr, openErr, writeErr, statErr, listErr, lockErr,
				fsys.Mkdir(name), fsys.Remove(name), fsys.SyncDir(name), fsys.Rename(name, "b"), fsys.Link(name, "b")} {
				refused(t, fsys, name, err, fs.ErrInvalid)
			}
			for _, err := range []error{fsys.Rename("a", name), fsys.Link("a", name)} {
				refused(t, fsys, "a", err, fs.ErrInvalid)
			}
		}
		wantList(t, fsys, ".", "a")
	})
}

func TestDirectories(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		wantList(t, fsys, ".")
		check(t, fsys.Mkdir("d"))
		check(t, fsys.Mkdir("d/e"))
		put1(t, fsys, "d/c", "c")
		put1(t, fsys, "d/a", "a")
		wantList(t, fsys, ".", "d")
		wantList(t, fsys, "d", "a", "c", "e")
		wantList(t, fsys, "d/e")
		info, err := fsys.Stat("d/e")
		check(t, err)
		if !info.Dir {
			t.Errorf("%+v", info)
		}
		root, err := fsys.Stat(".")
		check(t, err)
		if !root.Dir {
			t.Errorf("%+v", root)
		}
		for _, dir := range []string{".", "d", "d/e"} {
			check(t, fsys.SyncDir(dir))
		}
		refused(t, fsys, "d/a", fsys.SyncDir("d/a"), errNotDir)
		_, err = fsys.List("d/a")
		refused(t, fsys, "d/a", err, errNotDir)
		refused(t, fsys, "gone", fsys.SyncDir("gone"), fault.ErrMissing)
		_, err = fsys.List("gone")
		refused(t, fsys, "gone", err, fault.ErrMissing)
		refused(t, fsys, "d", fsys.Mkdir("d"), fs.ErrExist)
		refused(t, fsys, ".", fsys.Mkdir("."), fs.ErrExist)
		refused(t, fsys, "d/a", fsys.Mkdir("d/a"), fs.ErrExist)
		refused(t, fsys, "gone/x", fsys.Mkdir("gone/x"), fault.ErrMissing)

		refused(t, fsys, ".", fsys.Remove("."), fs.ErrInvalid)
		refused(t, fsys, "gone", fsys.Remove("gone"), fault.ErrMissing)
		if err := fsys.Remove("d"); !errors.Is(err, fault.ErrIO) {
			t.Errorf("removed a full directory: %v", err)
		}
		for _, name := range []string{"d/a", "d/c", "d/e", "d"} {
			check(t, fsys.Remove(name))
		}
		wantList(t, fsys, ".")
	})
}

func TestRename(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		check(t, fsys.Mkdir("d"))
		put1(t, fsys, "a", "first")
		put1(t, fsys, "b", "second")
		check(t, fsys.Rename("a", "b"))
		wantContent(t, fsys, "b", "first")
		check(t, fsys.Rename("b", "d/c"))
		wantContent(t, fsys, "d/c", "first")
		wantList(t, fsys, ".", "d")
		check(t, fsys.Rename("d/c", "d/c"))
		wantContent(t, fsys, "d/c", "first")

		check(t, fsys.Link("d/c", "x"))
		check(t, fsys.Rename("d/c", "x"))
		wantList(t, fsys, "d", "c")
		wantContent(t, fsys, "x", "first")

		refused(t, fsys, "gone", fsys.Rename("gone", "x"), fault.ErrMissing)
		refused(t, fsys, "x", fsys.Rename("x", "gone/x"), fault.ErrMissing)
		refused(t, fsys, "x", fsys.Rename("x", "d"), fs.ErrExist)
		refused(t, fsys, "x", fsys.Rename("x", "."), fs.ErrExist)
		if err := fsys.Rename("x", "gone/x"); !strings.Contains(err.Error(), fsys.Path("gone/x")) {
			t.Errorf("%v does not name the target", err)
		}
	})
}

func TestRenameDirectory(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		for _, dir := range []string{"d", "d/e", "taken"} {
			check(t, fsys.Mkdir(dir))
		}
		put1(t, fsys, "d/e/a", "first")
		put1(t, fsys, "x", "second")
		refused(t, fsys, "d", fsys.Rename("d", "taken"), fs.ErrExist)
		refused(t, fsys, "d", fsys.Rename("d", "d"), fs.ErrExist)
		refused(t, fsys, "d", fsys.Rename("d", "x"), fs.ErrExist)
		refused(t, fsys, "d", fsys.Rename("d", "taken/d"), errIsDir)
		check(t, fsys.Rename("d", "n"))
		wantList(t, fsys, ".", "n", "taken", "x")
		wantContent(t, fsys, "n/e/a", "first")
		check(t, fsys.Rename("n/e", "n/f"))
		wantContent(t, fsys, "n/f/a", "first")
		check(t, fsys.SyncDir("."))
	})
}

func TestRenameAndRemoveOpenFile(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		f := create(t, fsys, "a", "kept")
		defer f.Close()
		check(t, fsys.Rename("a", "b"))
		check(t, fsys.Remove("b"))
		wantList(t, fsys, ".")
		buf := make([]byte, 4)
		if _, err := f.ReadAt(buf, 0); err != nil || string(buf) != "kept" {
			t.Errorf("%q, %v", buf, err)
		}
		info, err := f.Stat()
		check(t, err)
		if info.Links != 0 {
			t.Errorf("%+v", info)
		}
	})
}

func TestLink(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		check(t, fsys.Mkdir("d"))
		f := create(t, fsys, "a", "shared")
		defer f.Close()
		put1(t, fsys, "other", "")
		check(t, fsys.Link("a", "d/b"))
		_, err := f.WriteAt([]byte("S"), 0)
		check(t, err)
		wantContent(t, fsys, "d/b", "Shared")
		a, err := fsys.Stat("a")
		check(t, err)
		b, err := fsys.Stat("d/b")
		check(t, err)
		other, err := fsys.Stat("other")
		check(t, err)
		if a != b || a.Links != 2 || a.ID == other.ID {
			t.Errorf("%+v, %+v, %+v", a, b, other)
		}
		refused(t, fsys, "a", fsys.Link("a", "d/b"), fs.ErrExist)
		refused(t, fsys, "a", fsys.Link("a", "d"), fs.ErrExist)
		refused(t, fsys, "a", fsys.Link("a", "gone/b"), fault.ErrMissing)
		refused(t, fsys, "gone", fsys.Link("gone", "x"), fault.ErrMissing)
		refused(t, fsys, "d", fsys.Link("d", "x"), errIsDir)
		check(t, fsys.Remove("a"))
		wantContent(t, fsys, "d/b", "Shared")
		if b, err = fsys.Stat("d/b"); err != nil || b.Links != 1 {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

func TestMap(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		want := strings.Repeat("0123456789", 5000)
		f := create(t, fsys, "a", want)
		m, err := f.Map()
		check(t, err)
		check(t, f.Close())
		check(t, fsys.Remove("a"))
		for _, advice := range []Advice{Random, Sequential, WillNeed, DontNeed, Advice(99)} {
			m.Advise(0, 0, advice)
			m.Advise(5000, 1000, advice)
			m.Advise(49_999, 1<<40, advice)
			m.Advise(50_000, 1, advice)
			m.Advise(-1, 1, advice)
			m.Advise(1, -1, advice)
		}
		if string(m.Data) != want {
			t.Error("mapped bytes differ")
		}
		check(t, m.Unmap())
		check(t, m.Unmap())
		m.Advise(0, 0, Random)
		if m.Data != nil {
			t.Error("bytes remain after Unmap")
		}

		empty := create(t, fsys, "empty", "")
		defer empty.Close()
		m, err = empty.Map()
		check(t, err)
		m.Advise(0, 0, Random)
		if len(m.Data) != 0 {
			t.Errorf("%d bytes", len(m.Data))
		}
		check(t, m.Unmap())
	})
}

func TestMapWrite(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		f := create(t, fsys, "a", strings.Repeat(".", 50_000))
		defer func() { check(t, f.Close()) }()
		m, err := f.MapWrite(40_000)
		check(t, err)
		if m == nil {
			t.Skip("no mapping for writing here")
		}
		check(t, m.WriteAt([]byte("begin"), 0))
		check(t, m.WriteAt([]byte("end"), 39_997))
		m.Release(20_000)
		m.Release(10_000)
		check(t, m.WriteAt([]byte("after"), 19_000)) // no gain, but no harm
		_, err = f.WriteAt([]byte("BEG"), 0)
		check(t, err)
		m.Release(1 << 40)
		check(t, f.Sync())
		for _, off := range []int64{-1, 39_998, 40_000, 40_001, math.MaxInt64} {
			if err := m.WriteAt([]byte("out"), off); !errors.Is(err, fault.ErrIO) {
				t.Errorf("written at %d of 40,000: %v", off, err)
			}
		}
		check(t, m.Unmap())
		want := []byte(strings.Repeat(".", 50_000))
		copy(want, "BEGin")
		copy(want[19_000:], "after")
		copy(want[39_997:], "end")
		wantContent(t, fsys, "a", string(want))
	})
}

func TestMapWriteShrunk(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		f := create(t, fsys, "a", strings.Repeat(".", 100_000))
		defer f.Close()
		m, err := f.MapWrite(100_000)
		check(t, err)
		if m == nil {
			t.Skip("no mapping for writing here")
		}
		check(t, f.Truncate(10_000))
		err = m.WriteAt([]byte("lost"), 90_000)
		var where *fault.IOError
		if !errors.As(err, &where) || where.File != fsys.Path("a") || where.Offset/4096 != 90_000/4096 {
			t.Errorf("written where the file has shrunk: %v", err)
		}
		check(t, m.Unmap())
	})
}

func TestLock(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		held, err := fsys.Lock("LOCK", "process 123, a long note")
		check(t, err)
		_, err = fsys.Lock("LOCK", "second")
		if !errors.Is(err, fault.ErrLocked) || errors.Is(err, fault.ErrIO) ||
			!strings.Contains(err.Error(), "process 123") || !strings.Contains(err.Error(), fsys.Path("LOCK")) {
			t.Fatalf("second lock: %v", err)
		}
		check(t, held.Close())
		refused(t, fsys, "LOCK", held.Close(), os.ErrClosed)
		held, err = fsys.Lock("LOCK", "third")
		check(t, err)
		if _, err = fsys.Lock("LOCK", ""); !strings.Contains(err.Error(), `"third"`) {
			t.Errorf("the note of the first owner remains: %v", err)
		}
		check(t, held.Close())
		wantList(t, fsys, ".", "LOCK")

		check(t, fsys.Mkdir("d"))
		_, err = fsys.Lock("d", "")
		refused(t, fsys, "d", err, errIsDir)
		_, err = fsys.Lock("gone/LOCK", "")
		refused(t, fsys, "gone/LOCK", err, fault.ErrMissing)
	})
}

func TestFree(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		if n, err := fsys.Free(); err != nil || n == 0 {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

func TestWriteFileAtomic(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		check(t, fsys.Mkdir("d"))
		put1(t, fsys, "d/M.tmp", "left over from a longer, earlier attempt")
		for _, want := range []string{"one", "", "three"} {
			check(t, WriteFileAtomic(fsys, "d/M.tmp", "d/M", []byte(want)))
			wantContent(t, fsys, "d/M", want)
			wantList(t, fsys, "d", "M")
		}
		refused(t, fsys, "d/M", WriteFileAtomic(fsys, "M.tmp", "d/M", nil), fs.ErrInvalid)
		refused(t, fsys, "gone/M.tmp", WriteFileAtomic(fsys, "gone/M.tmp", "gone/M", nil), fault.ErrMissing)
	})
}

func TestReadFile(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		put1(t, fsys, "a", "12345")
		if data, err := ReadFile(fsys, "a", 5); err != nil || string(data) != "12345" {
			t.Errorf("%q, %v", data, err)
		}
		_, err := ReadFile(fsys, "a", 4)
		refused(t, fsys, "a", err, ErrTooLarge)
		_, err = ReadFile(fsys, "gone", 4)
		refused(t, fsys, "gone", err, fault.ErrMissing)
		put1(t, fsys, "empty", "")
		if data, err := ReadFile(fsys, "empty", 0); err != nil || len(data) != 0 {
			t.Errorf("%q, %v", data, err)
		}
	})
}

func TestMkdirSync(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		check(t, MkdirSync(fsys, "d"))
		check(t, MkdirSync(fsys, "d"))
		check(t, MkdirSync(fsys, "d/e"))
		put1(t, fsys, "a", "")
		refused(t, fsys, "a", MkdirSync(fsys, "a"), fs.ErrExist)
		refused(t, fsys, "gone/d", MkdirSync(fsys, "gone/d"), fault.ErrMissing)
	})
}

func TestParallelUse(t *testing.T) {
	everywhere(t, func(t *testing.T, fsys FS) {
		f := create(t, fsys, "shared", "")
		defer f.Close()
		check(t, f.Truncate(8*4096))
		done := make(chan error, 8)
		for i := range 8 {
			go func() {
				done <- func() error {
					want := bytes.Repeat([]byte{byte('a' + i)}, 4096)
					buf := make([]byte, len(want))
					for range 20 {
						if _, err := f.WriteAt(want, int64(i)*4096); err != nil {
							return err
						}
						if _, err := f.ReadAt(buf, int64(i)*4096); err != nil && err != io.EOF {
							return err
						}
						if !bytes.Equal(buf, want) {
							return errors.New("read other bytes than written")
						}
						if i == 0 {
							if err := f.Sync(); err != nil {
								return err
							}
						}
						name := string(rune('a' + i))
						own, err := fsys.Create(name)
						if err != nil {
							return err
						}
						if err := errors.Join(own.Close(), fsys.SyncDir("."), fsys.Remove(name)); err != nil {
							return err
						}
					}
					return nil
				}()
			}()
		}
		for range 8 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		wantList(t, fsys, ".", "shared")
	})
}
