package vfs

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
)

// images are the options that crash tests run through.
func images(random int) []CrashOptions {
	opts := []CrashOptions{{Keep: KeepNone}, {Keep: KeepAll}}
	for seed := range uint64(random) {
		opts = append(opts,
			CrashOptions{Keep: KeepRandom, Seed: seed},
			CrashOptions{Keep: Keep(seed % 3), Seed: seed, TornLast: true})
	}
	return opts
}

func wantNames(t *testing.T, m *Mem, want ...string) {
	t.Helper()
	if got := m.Names(); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

func TestCrashWithoutFileSync(t *testing.T) {
	m := NewMem()
	put1(t, m, "a", "data")
	check(t, m.SyncDir("."))
	none := m.Crash(CrashOptions{Keep: KeepNone})
	wantNames(t, none, "a")
	wantContent(t, none, "a", "")
	wantContent(t, m.Crash(CrashOptions{Keep: KeepAll}), "a", "data")
	wantContent(t, m, "a", "data")
}

func TestCrashWithoutDirSync(t *testing.T) {
	m := NewMem()
	f := create(t, m, "a", "data")
	check(t, f.Sync())
	wantNames(t, m.Crash(CrashOptions{Keep: KeepNone}))
	check(t, m.SyncDir("."))
	wantContent(t, m.Crash(CrashOptions{Keep: KeepNone}), "a", "data")

	// Each of rename, link and remove is undone, until the directory is synced.
	for _, step := range []struct {
		do    func() error
		names []string
	}{
		{func() error { return m.Rename("a", "b") }, []string{"b"}},
		{func() error { return m.Link("b", "c") }, []string{"b", "c"}},
		{func() error { return m.Remove("b") }, []string{"c"}},
	} {
		before := m.Names()
		check(t, step.do())
		wantNames(t, m, step.names...)
		wantNames(t, m.Crash(CrashOptions{Keep: KeepNone}), before...)
		wantNames(t, m.Crash(CrashOptions{Keep: KeepAll}), step.names...)
		check(t, m.SyncDir("."))
		wantNames(t, m.Crash(CrashOptions{Keep: KeepNone}), step.names...)
	}
	wantContent(t, m.Crash(CrashOptions{}), "c", "data")
}

func TestCrashOfNewDirectory(t *testing.T) {
	m := NewMem()
	check(t, m.Mkdir("d"))
	f := create(t, m, "d/a", "data")
	check(t, f.Sync())
	check(t, m.SyncDir("d"))
	wantNames(t, m.Crash(CrashOptions{})) // the name d itself is lost
	check(t, m.SyncDir("."))
	wantContent(t, m.Crash(CrashOptions{}), "d/a", "data")

	n := NewMem()
	check(t, MkdirSync(n, "d"))
	c := n.Crash(CrashOptions{})
	if info, err := c.Stat("d"); err != nil || !info.Dir {
		t.Errorf("%+v, %v", info, err)
	}

	// A directory that is there already may have names that are not durable.
	create(t, n, "d/a", "")
	check(t, MkdirSync(n, "d"))
	wantNames(t, n.Crash(CrashOptions{}), "d/a")
}

// TestProtocolNeedsEverySync replaces a file with one step of the protocol left
// out. Whole, it survives every image; each omission is caught by some.
func TestProtocolNeedsEverySync(t *testing.T) {
	replace := func(m *Mem, omit string, after func(acknowledged bool)) {
		step := func(name string, do func() error) {
			if name != omit {
				check(t, do())
			}
			after(false)
		}
		var f File
		step("create", func() (err error) { f, err = m.Create("M.tmp"); return })
		step("write", func() error { return second(f.WriteAt([]byte(strings.Repeat("new", 500)), 0)) })
		step("sync", f.Sync)
		step("rename", func() error { return m.Rename("M.tmp", "M") })
		step("syncdir", func() error { return m.SyncDir(".") })
		after(true)
	}
	for _, omit := range []string{"", "sync", "syncdir"} {
		m := NewMem()
		check(t, WriteFileAtomic(m, "M.tmp", "M", []byte(strings.Repeat("old", 500))))
		violations := 0
		replace(m, omit, func(acknowledged bool) {
			for _, opt := range images(50) {
				data, err := m.Crash(opt).ReadFile("M")
				isOld, isNew := string(data) == strings.Repeat("old", 500), string(data) == strings.Repeat("new", 500)
				if err != nil || !isOld && !isNew || acknowledged && !isNew {
					violations++
				}
			}
		})
		if (violations > 0) != (omit != "") {
			t.Errorf("without %q: %d violations", omit, violations)
		}
	}
}

// TestRandomSectors: every sector is whole and has the content of some write,
// and both choices occur for each.
func TestRandomSectors(t *testing.T) {
	m := NewMem()
	const sectors = 6
	f := create(t, m, "a", strings.Repeat("0", sectors*sectorBytes))
	check(t, f.Sync())
	check(t, m.SyncDir("."))
	for _, version := range []string{"1", "2"} {
		_, err := f.WriteAt([]byte(strings.Repeat(version, sectors*sectorBytes)), 0)
		check(t, err)
	}
	seen := map[string]bool{}
	for seed := range uint64(200) {
		got := content(t, m.Crash(CrashOptions{Keep: KeepRandom, Seed: seed}), "a")
		if len(got) != sectors*sectorBytes {
			t.Fatalf("seed %d: %d bytes", seed, len(got))
		}
		for i := range sectors {
			sector := got[i*sectorBytes : (i+1)*sectorBytes]
			if strings.Trim(sector, sector[:1]) != "" {
				t.Fatalf("seed %d: sector %d is mixed", seed, i)
			}
			seen[fmt.Sprint(i, sector[:1])] = true
		}
	}
	if len(seen) != 3*sectors {
		t.Errorf("only %d of %d sector states occur", len(seen), 3*sectors)
	}
}

// TestRandomAppends: unsynced appends leave a length of some append, a sector
// never shows a later append without an earlier one in it, and synced bytes stay.
func TestRandomAppends(t *testing.T) {
	m := NewMem()
	f := create(t, m, "a", "synced..")
	check(t, f.Sync())
	check(t, m.SyncDir("."))
	off := int64(8)
	for i := range 100 {
		_, err := f.WriteAt([]byte(fmt.Sprintf("append%02d", i)), off)
		check(t, err)
		off += 8
	}
	whole := content(t, m, "a")
	holes, lengths := 0, map[int]bool{}
	for seed := range uint64(300) {
		got := content(t, m.Crash(CrashOptions{Keep: KeepRandom, Seed: seed}), "a")
		if len(got)%8 != 0 || !strings.HasPrefix(got, "synced..") {
			t.Fatalf("seed %d: %d bytes, start %q", seed, len(got), got[:8])
		}
		lengths[len(got)] = true
		for first := 0; first < len(got); first += sectorBytes {
			sector := got[first:min(first+sectorBytes, len(got))]
			kept := strings.TrimRight(sector, "\x00")
			if !strings.HasPrefix(whole[first:], kept) {
				t.Fatalf("seed %d: sector at %d is %q", seed, first, kept)
			}
			if kept != sector {
				holes++
			}
		}
	}
	if holes == 0 || len(lengths) < 20 {
		t.Errorf("%d holes, %d lengths", holes, len(lengths))
	}
}

// TestRandomTruncation: bytes cut off do not come back behind a later growth.
func TestRandomTruncation(t *testing.T) {
	m := NewMem()
	f := create(t, m, "a", strings.Repeat("x", 1000))
	check(t, f.Sync())
	check(t, m.SyncDir("."))
	check(t, f.Truncate(100))
	check(t, f.Truncate(600))
	states := map[string]bool{
		strings.Repeat("x", 1000):                              false,
		strings.Repeat("x", 100):                               false,
		strings.Repeat("x", 100) + strings.Repeat("\x00", 500): false,
	}
	for seed := range uint64(50) {
		got := content(t, m.Crash(CrashOptions{Keep: KeepRandom, Seed: seed}), "a")
		if _, ok := states[got]; !ok {
			t.Fatalf("seed %d: %d bytes %q", seed, len(got), got)
		}
		states[got] = true
	}
	for state, seen := range states {
		if !seen {
			t.Errorf("the state of %d bytes never occurs", len(state))
		}
	}
	wantContent(t, m.Crash(CrashOptions{Keep: KeepAll}), "a", content(t, m, "a"))
}

// TestTornLast: of the last write a part survives from its start on, by bytes
// and by sectors, under every Keep.
func TestTornLast(t *testing.T) {
	m := NewMem()
	f := create(t, m, "a", strings.Repeat("o", 700))
	check(t, f.Sync())
	check(t, m.SyncDir("."))
	_, err := f.WriteAt([]byte(strings.Repeat("n", 2000)), 300)
	check(t, err)
	cuts := map[int]bool{}
	aligned, zeros := 0, 0
	for _, keep := range []Keep{KeepNone, KeepAll, KeepRandom} {
		for seed := range uint64(200) {
			got := content(t, m.Crash(CrashOptions{Keep: keep, Seed: seed, TornLast: true}), "a")
			body := strings.TrimRight(got, "\x00")
			if len(body) < len(got) {
				zeros++
			}
			end := strings.LastIndexByte(body, 'n') + 1
			cut := max(end, 300)
			want := strings.Repeat("o", 300) + strings.Repeat("n", cut-300)
			if cut < 700 {
				want += strings.Repeat("o", 700-cut)
			}
			if body != want || len(got) > 2300 || cut >= 2300 {
				t.Fatalf("keep %d, seed %d: cut %d, %d bytes", keep, seed, cut, len(got))
			}
			cuts[cut] = true
			if cut%sectorBytes == 0 {
				aligned++
			}
		}
	}
	if len(cuts) < 100 || aligned < 100 || zeros < 100 {
		t.Errorf("%d cuts, %d aligned, %d with zeros behind", len(cuts), aligned, zeros)
	}
}

// TestTornLastIsTheLast: of two files only the one written last is torn, and a
// synced write never.
func TestTornLastIsTheLast(t *testing.T) {
	m := NewMem()
	a := create(t, m, "a", strings.Repeat("a", 1000))
	create(t, m, "b", strings.Repeat("b", 1000))
	torn := false
	for seed := range uint64(50) {
		c := m.Crash(CrashOptions{Keep: KeepAll, Seed: seed, TornLast: true})
		wantContent(t, c, "a", strings.Repeat("a", 1000))
		torn = torn || content(t, c, "b") != strings.Repeat("b", 1000)
	}
	if !torn {
		t.Error("nothing is torn")
	}
	_, err := a.WriteAt([]byte("A"), 0)
	check(t, err)
	check(t, a.Sync())
	for seed := range uint64(50) {
		c := m.Crash(CrashOptions{Keep: KeepAll, Seed: seed, TornLast: true})
		wantContent(t, c, "a", "A"+strings.Repeat("a", 999))
	}
}

// TestRandomNames: independent operations survive in any subset, those on one
// name in their order.
func TestRandomNames(t *testing.T) {
	m := NewMem()
	put1(t, m, "x", "")
	put1(t, m, "y", "")
	put1(t, m, "a", "a")
	check(t, m.Rename("a", "b"))
	check(t, m.Rename("b", "c"))
	names, abc := map[string]bool{}, map[string]bool{}
	for seed := range uint64(200) {
		got := m.Crash(CrashOptions{Keep: KeepRandom, Seed: seed}).Names()
		one := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s == "x" || s == "y" })
		if len(one) > 1 {
			t.Fatalf("seed %d: one file has the names %q", seed, one)
		}
		abc[strings.Join(one, " ")] = true
		names[strings.Join(slices.DeleteFunc(got, func(s string) bool { return s != "x" && s != "y" }), " ")] = true
	}
	if len(names) != 4 || len(abc) != 4 {
		t.Errorf("x and y occur as %v, the renamed file as %v", names, abc)
	}
}

// TestRenameBetweenDirectories: old name, new name or both, never neither.
func TestRenameBetweenDirectories(t *testing.T) {
	build := func() *Mem {
		m := NewMem()
		check(t, MkdirSync(m, "d"))
		check(t, MkdirSync(m, "e"))
		f := create(t, m, "d/a", "data")
		check(t, f.Sync())
		check(t, m.SyncDir("d"))
		check(t, m.Rename("d/a", "e/b"))
		return m
	}
	seen := map[string]bool{}
	m := build()
	for seed := range uint64(100) {
		c := m.Crash(CrashOptions{Keep: KeepRandom, Seed: seed})
		for _, name := range c.Names() {
			wantContent(t, c, name, "data")
			if info, err := c.Stat(name); err != nil || info.Links != len(c.Names()) {
				t.Errorf("%+v, %v", info, err)
			}
		}
		seen[strings.Join(c.Names(), " ")] = true
	}
	if !seen["d/a"] || !seen["e/b"] || !seen["d/a e/b"] || len(seen) != 3 {
		t.Errorf("states %v", seen)
	}
	check(t, m.SyncDir("e"))
	wantNames(t, m.Crash(CrashOptions{}), "d/a", "e/b")
	check(t, m.Clone().SyncDir("d"))
	check(t, m.SyncDir("d"))
	wantNames(t, m.Crash(CrashOptions{}), "e/b")
	m = build()
	check(t, m.SyncDir("d"))
	wantNames(t, m.Crash(CrashOptions{}), "e/b")
}

func TestKill(t *testing.T) {
	m := NewMem()
	f := create(t, m, "a", "data")
	held, err := m.Lock("LOCK", "owner")
	check(t, err)
	k := m.Kill()
	wantNames(t, k, "LOCK", "a")
	wantContent(t, k, "a", "data")
	wantNames(t, k.Crash(CrashOptions{})) // still not durable
	lock, err := k.Lock("LOCK", "next")
	check(t, err)
	check(t, lock.Close())
	if _, err := m.Lock("LOCK", ""); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("the old lock is gone: %v", err)
	}
	// Files opened before belong to the old file system.
	_, err = f.WriteAt([]byte("DATA and more"), 0)
	check(t, err)
	check(t, f.Sync())
	check(t, held.Close())
	wantContent(t, k, "a", "data")
	check(t, k.SyncDir("."))
	wantContent(t, k.Crash(CrashOptions{}), "a", "")
}

func TestCloneIsApart(t *testing.T) {
	m := NewMem()
	check(t, MkdirSync(m, "d"))
	check(t, WriteFileAtomic(m, "d/t", "d/a", []byte("base")))
	put1(t, m, "d/new", "new")
	check(t, m.Link("d/new", "d/link"))
	c := m.Clone()
	for _, x := range []*Mem{m, c} { // the same steps on each, interleaved with reads of the other
		f, err := x.OpenWrite("d/a")
		check(t, err)
		_, err = f.WriteAt([]byte("more"), 4)
		check(t, err)
		check(t, f.Close())
		check(t, x.Remove("d/new"))
		if x == m {
			wantContent(t, c, "d/a", "base")
			wantNames(t, c, "d/a", "d/link", "d/new")
		}
	}
	for _, x := range []*Mem{m, c} {
		wantContent(t, x, "d/a", "basemore")
		wantNames(t, x.Crash(CrashOptions{}), "d/a")
		wantContent(t, x.Crash(CrashOptions{}), "d/a", "base")
		check(t, x.SyncDir("d"))
		wantNames(t, x.Crash(CrashOptions{}), "d/a", "d/link")
	}
}

func TestCapacity(t *testing.T) {
	m := NewMem()
	m.SetCapacity(1000)
	f := create(t, m, "a", strings.Repeat("x", 900))
	n, err := f.WriteAt(make([]byte, 200), 900)
	refused(t, m, "a", err, fault.ErrDiskFull)
	if n != 100 {
		t.Errorf("wrote %d bytes", n)
	}
	if free, err := m.Free(); err != nil || free != 0 {
		t.Errorf("%d free, %v", free, err)
	}
	n, err = f.WriteAt([]byte("y"), 1000)
	refused(t, m, "a", err, fault.ErrDiskFull)
	if n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	refused(t, m, "a", f.Allocate(1001), fault.ErrDiskFull)
	refused(t, m, "a", f.Truncate(1001), fault.ErrDiskFull)
	_, err = f.WriteAt(make([]byte, 1000), 0) // nothing new
	check(t, err)
	if c := m.Crash(CrashOptions{Keep: KeepAll}); len(content(t, c, "a")) != 1000 {
		t.Error("a crash image lost bytes")
	} else if free, err := c.Free(); err != nil || free != 0 {
		t.Errorf("image: %d free, %v", free, err)
	}
	check(t, m.Remove("a"))
	put1(t, m, "b", "")
	if free, _ := m.Free(); free != 0 {
		t.Errorf("an open file gave back its space: %d free", free)
	}
	check(t, f.Close())
	if free, _ := m.Free(); free != 1000 {
		t.Errorf("%d free after close", free)
	}
	m.SetCapacity(-1)
	if free, _ := m.Free(); free != 0 {
		t.Errorf("%d free", free)
	}
}

func TestDamage(t *testing.T) {
	m := NewMem()
	check(t, WriteFileAtomic(m, "t", "a", []byte("data")))
	put1(t, m, "u", "unsynced")
	data, err := m.ReadFile("a")
	check(t, err)
	data[0] ^= 1
	wantContent(t, m, "a", "data")
	check(t, m.WriteFile("a", data))
	data[1] ^= 1
	wantContent(t, m, "a", "eata")
	wantContent(t, m.Crash(CrashOptions{}), "a", "eata")
	check(t, m.WriteFile("u", []byte("now it is")))
	check(t, m.SyncDir("."))
	wantContent(t, m.Crash(CrashOptions{}), "u", "now it is")
	check(t, m.WriteFile("new", nil))
	wantNames(t, m, "a", "new", "u")
	if err := m.WriteFile("gone/x", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := m.ReadFile("gone"); !errors.Is(err, fault.ErrMissing) {
		t.Error(err)
	}
}

// TestCrashRepeatable: equal histories and options give equal images.
func TestCrashRepeatable(t *testing.T) {
	history := func() *Mem {
		m := NewMem()
		check(t, MkdirSync(m, "d"))
		for i := range 20 {
			name := fmt.Sprintf("d/%02d", i)
			f := create(t, m, name, strings.Repeat("x", 100*i))
			if i%3 == 0 {
				check(t, f.Sync())
			}
			if i%5 == 0 {
				check(t, m.Rename(name, name+"r"))
			}
		}
		return m
	}
	a, b := history(), history()
	different := map[string]bool{}
	for _, opt := range images(20) {
		x, y, z := describeMem(t, a.Crash(opt)), describeMem(t, b.Crash(opt)), describeMem(t, a.Clone().Crash(opt))
		if x != y || x != z {
			t.Errorf("%+v: images differ", opt)
		}
		different[x] = true
	}
	if len(different) < 10 {
		t.Errorf("%d different images", len(different))
	}
}

func describeMem(t testing.TB, m *Mem) string {
	t.Helper()
	var b strings.Builder
	for _, name := range m.Names() {
		fmt.Fprintf(&b, "%s %q\n", name, content(t, m, name))
	}
	return b.String()
}

// TestSum tells file systems apart by all that calls see, and by nothing else.
func TestSum(t *testing.T) {
	seed := maphash.MakeSeed()
	build := func(change func(m *Mem)) uint64 {
		m := NewMem()
		for _, err := range []error{m.Mkdir("d"), m.WriteFile("d/a", []byte("one")), m.WriteFile("b", []byte("two")), m.Link("b", "c")} {
			if err != nil {
				t.Fatal(err)
			}
		}
		change(m)
		return m.Sum(seed)
	}
	nothing := func(*Mem) {}
	same := build(nothing)
	if build(nothing) != same || build(func(m *Mem) { m.SyncDir(".") }) != same {
		t.Error("the same file systems have different sums")
	}
	other := map[uint64]string{same: "nothing"}
	for what, change := range map[string]func(m *Mem){
		"bytes":             func(m *Mem) { m.WriteFile("b", []byte("twO")) },
		"length":            func(m *Mem) { m.WriteFile("b", []byte("two\x00")) },
		"name":              func(m *Mem) { m.Rename("d/a", "d/b") },
		"other directory":   func(m *Mem) { m.Rename("d/a", "e") },
		"empty directory":   func(m *Mem) { m.Mkdir("d/d") },
		"empty file":        func(m *Mem) { m.WriteFile("d/d", nil) },
		"file gone":         func(m *Mem) { m.Remove("d/a") },
		"copy, not a link":  func(m *Mem) { m.Remove("c"); m.WriteFile("c", []byte("two")) },
		"one more name":     func(m *Mem) { m.Link("d/a", "z") },
		"contents swapped":  func(m *Mem) { m.WriteFile("b", []byte("one")); m.WriteFile("d/a", []byte("two")) },
		"link of the other": func(m *Mem) { m.Remove("c"); m.Link("d/a", "c") },
	} {
		sum := build(change)
		if with := other[sum]; with != "" {
			t.Errorf("%s has the sum of %s", what, with)
		}
		other[sum] = what
	}
}
