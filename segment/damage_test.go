package segment

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/openfile"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// smallModel is the content of a small file that has everything in it.
func smallModel(rng *rand.Rand) model {
	m := maker{rng: rng, levels: 1, partitions: 4, ids: 6, versions: 3, body: document}.make()
	k := newKey(encodeKey("large"), "large")
	m = append(m, entry{k, item.Version{Seq: 1, Body: noise(1500)(rng, nil, nil)}})
	m.sort()
	return m
}

func content(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// replace gives a file of Mem other bytes.
func replace(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fsys.OpenWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(len(b))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
}

// isDamage checks that an error is the typed one, with a place in the file.
func isDamage(t testing.TB, err error, size int64) {
	t.Helper()
	var c *fault.CorruptionError
	if !errors.As(err, &c) || c.File == "" || c.Offset < 0 || c.Offset > size {
		t.Fatalf("error is no damage with its place: %v", err)
	}
}

// checkDamaged reads all of a damaged file: each answer is an error or true.
func checkDamaged(t testing.TB, r *Reader, m model) {
	t.Helper()
	size := r.Size()
	for i := range m {
		k := &m[i].key
		for _, maxSeq := range []uint64{math.MaxUint64, m[i].ver.Seq} {
			want := m.get(k, maxSeq)
			var v item.Version
			found, _, err := r.Get(k.Lookup(), maxSeq, nil, &v)
			if err != nil {
				isDamage(t, err, size)
			} else if !found || !sameVersion(&v, want) {
				t.Fatalf("get: %t, %s, want %s", found, show(k, &v), show(k, want))
			}
		}
		if r.MayHave([]item.Lookup{*k.Lookup()}) != 1 {
			t.Fatalf("may have: %x/%q is ruled out", k.PK, k.ID)
		}
		if _, raw, ok, err := r.PartitionStats(k); err != nil {
			isDamage(t, err, size)
		} else if !ok || raw > r.Properties().RawBytes {
			t.Fatalf("stats: %t, %d bytes", ok, raw)
		}
	}
	partitions := r.WalkPartitions()
	for n := 0; partitions.Next(); n++ {
		if _, err := partitions.AppendKey(nil); err != nil {
			isDamage(t, err, size)
		}
		if n == len(m) {
			t.Fatal("the walk over the partitions does not end")
		}
	}
	if err := partitions.Err(); err != nil {
		isDamage(t, err, size)
	}
	w := r.Walk()
	i := 0
	for ; w.Next(); i++ {
		if item.Compare(w.Key(), &m[i].key) != 0 || !sameVersion(w.Version(), &m[i].ver) {
			t.Fatalf("walk: %s, want %s", show(w.Key(), w.Version()), show(&m[i].key, &m[i].ver))
		}
	}
	if w.Err() != nil {
		isDamage(t, w.Err(), size)
	} else if i != len(m) {
		t.Fatalf("walk ends at %d of %d without an error", i, len(m))
	}
	want := m.visible(math.MaxUint64)
	c := r.Cursor(math.MaxUint64)
	at := func(i int, ok bool) bool {
		if c.Err() != nil {
			isDamage(t, c.Err(), size)
			return false
		}
		if ok != (i >= 0 && i < len(want)) {
			t.Fatalf("cursor: %t at %d of %d without an error", ok, i, len(want))
		}
		if ok && (item.Compare(c.Key(), &want[i].key) != 0 || !sameVersion(c.Version(), &want[i].ver)) {
			t.Fatalf("cursor: %s, want %s", show(c.Key(), c.Version()), show(&want[i].key, &want[i].ver))
		}
		return ok
	}
	i = 0
	for ok := at(0, c.First()); ok; ok = at(i, c.Next()) {
		i++
	}
	i = len(want) - 1
	for ok := at(i, c.Last()); ok; ok = at(i, c.Prev()) {
		i--
	}
	for i := range want {
		at(i, c.SeekGE(&want[i].key))
		at(i-1, c.SeekLT(&want[i].key))
	}
}

// findings verifies a file.
func findings(t testing.TB, r *Reader) (n int) {
	t.Helper()
	err := r.Verify(context.Background(), func(f Finding) {
		n++
		if f.File == "" || f.Offset < 0 || f.Offset > r.Size() || f.What == "" {
			t.Errorf("finding %+v", f)
		}
	})
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	sums := r.VerifyChecksums(context.Background())
	if sums != nil {
		isDamage(t, sums, r.Size())
	}
	if (sums != nil) && n == 0 {
		t.Fatalf("VerifyChecksums finds what Verify does not: %v", sums)
	}
	return n
}

// A flipped bit anywhere is found, and no answer is wrong for it.
func TestFlippedBits(t *testing.T) {
	rng := randtest.New(t)
	m := smallModel(rng)
	fsys := vfs.NewMem()
	dict, err := NewDictionary(bytes.Repeat([]byte(`{"id":"id-00001","text":"alpha beta gamma delta epsilon `), 2))
	if err != nil {
		t.Fatal(err)
	}
	write(t, fsys, "a", m, WriterOptions{Dictionary: dict, Compression: Compression(rng.IntN(2))})
	good := content(t, fsys, "a")
	step := 1
	if raceEnabled {
		step = 7
	}
	for i := rng.IntN(step); i < len(good); i += step {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << rng.IntN(8)
		replace(t, fsys, "a", bad)
		r, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK, Mode: Mode(rng.IntN(2)), Warm: rng.IntN(2) == 0})
		if err != nil {
			isDamage(t, err, int64(len(good)))
			continue
		}
		checkDamaged(t, r, m)
		if findings(t, r) == 0 {
			t.Errorf("byte %d of %d: not found", i, len(good))
		}
		r.Release()
	}
}

// A bit that flips under an open reader is found too.
func TestFlippedUnderReader(t *testing.T) {
	rng := randtest.New(t)
	m := smallModel(rng)
	fsys := vfs.NewMem()
	write(t, fsys, "a", m, WriterOptions{})
	good := content(t, fsys, "a")
	for range 300 {
		replace(t, fsys, "a", good)
		r := open(t, fsys, "a", Pread)
		if rng.IntN(2) == 0 {
			checkGet(t, r, m, &m[0].key, math.MaxUint64)
		}
		bad := bytes.Clone(good)
		i := rng.IntN(len(bad))
		bad[i] ^= 1 << rng.IntN(8)
		replace(t, fsys, "a", bad)
		if findings(t, r) == 0 {
			t.Errorf("byte %d of %d: not found", i, len(good))
		}
	}
}

// A file cut at any length, or with bytes added, is no segment.
func TestTruncated(t *testing.T) {
	rng := randtest.New(t)
	fsys := vfs.NewMem()
	write(t, fsys, "a", smallModel(rng), WriterOptions{})
	good := content(t, fsys, "a")
	for n := range len(good) {
		replace(t, fsys, "a", good[:n])
		_, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK})
		if err == nil {
			t.Fatalf("%d of %d bytes: opened", n, len(good))
		}
		isDamage(t, err, int64(len(good)))
	}
	for n := range 600 {
		replace(t, fsys, "a", append(bytes.Clone(good), make([]byte, n+1)...))
		_, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK})
		isDamage(t, err, int64(len(good)+n+1))
	}
}

// A file that shrinks under its readers gives errors.
func TestTruncatedUnderReader(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system lets nobody cut a mapped file")
	}
	rng := randtest.New(t)
	m := maker{rng: rng, levels: 1, partitions: 40, ids: 40, versions: 2, body: noise(2000)}.make()
	fsys, err := vfs.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []ReaderOptions{{Mode: Map}, {Mode: Map, Warm: true}, {Mode: Pread}} {
		if o.EPK = hashEPK; raceEnabled && o.Mode == Map {
			continue // the mapping is a copy
		}
		for _, prepared := range []bool{false, true} {
			write(t, fsys, "a", m, WriterOptions{})
			r, err := Open(fsys, "a", o)
			if err != nil {
				t.Fatal(err)
			}
			c := r.Cursor(math.MaxUint64)
			if prepared {
				checkGet(t, r, m, &m[0].key, math.MaxUint64)
				if !c.First() {
					t.Fatal(c.Err())
				}
			}
			replace(t, fsys, "a", make([]byte, 64))
			checkShrunk(t, r, c, m, prepared)
			r.Release()
			if err := fsys.Remove("a"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func checkShrunk(t *testing.T, r *Reader, c *Cursor, m model, prepared bool) {
	t.Helper()
	failed := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, fault.ErrIO) && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var v item.Version
	k := &m[len(m)-1].key
	_, _, err := r.Get(k.Lookup(), math.MaxUint64, nil, &v)
	failed("get", err)
	_, err = r.Head(k.Lookup(), math.MaxUint64, &v)
	failed("head", err)
	_, _, _, err = r.PartitionStats(k)
	failed("stats", err)
	if prepared {
		for c.Next() {
		}
		failed("next", c.Err())
	}
	c.Last()
	failed("last", c.Err())
	c.SeekGE(k)
	failed("seek", c.Err())
	c.SeekLT(k)
	failed("seek", c.Err())
	w := r.Walk()
	for w.Next() {
	}
	failed("walk", w.Err())
	failed("checksums", r.VerifyChecksums(context.Background()))
	if findings(t, r) == 0 {
		t.Error("verify finds nothing")
	}
}

// Each read fails once: the call that made it says so, and the next succeeds.
func TestFailedReads(t *testing.T) {
	rng := randtest.New(t)
	m := smallModel(rng)
	mem := vfs.NewMem()
	write(t, mem, "a", m, WriterOptions{Dictionary: testDictionary(t)})
	injected := errors.New("injected")
	for _, mode := range []Mode{Map, Pread} {
		calls := func(fsys vfs.FS) error {
			r, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK, Mode: mode, Cold: openfile.NewColdReads(1)})
			if err != nil {
				return err
			}
			defer r.Release()
			var v item.Version
			k := &m[rng.IntN(len(m))].key
			if _, _, err := r.Get(k.Lookup(), math.MaxUint64, nil, &v); err != nil {
				checkGet(t, r, m, k, math.MaxUint64)
				return err
			}
			if _, _, _, err := r.PartitionStats(k); err != nil {
				checkStats(t, r, m)
				return err
			}
			c := r.Cursor(math.MaxUint64)
			if c.SeekLT(k); c.Err() != nil {
				err := c.Err()
				checkCursor(t, r, m, rng)
				return err
			}
			w := r.Walk()
			for w.Next() {
			}
			if w.Err() != nil {
				return w.Err()
			}
			return r.Verify(context.Background(), func(f Finding) { t.Error(f) })
		}
		n := int64(1)
		for ; ; n++ {
			fsys := vfs.NewFaulty(mem)
			fsys.FailAt(n, injected, false)
			err := calls(fsys)
			if err == nil {
				break
			}
			if !errors.Is(err, injected) || !errors.Is(err, fault.ErrIO) {
				t.Fatalf("call %d: %v", n, err)
			}
		}
		if n < 10 {
			t.Errorf("%d calls", n)
		}
	}
}
