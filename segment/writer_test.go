package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Whatever a walker's file is made of, AddFrom writes the same items as Add;
// what is compressed with the writer's dictionary is not compressed anew.
func TestAddFrom(t *testing.T) {
	rng := randtest.New(t)
	m := maker{rng: rng, levels: 2, partitions: 10, ids: 30, versions: 3, body: document}.make()
	dict := testDictionary(t)
	other, err := NewDictionary(bytes.Repeat([]byte("another dictionary "), 10))
	if err != nil {
		t.Fatal(err)
	}
	options := []WriterOptions{
		{Compression: Fast}, {Compression: Fast, Dictionary: dict}, {Compression: Fast, Dictionary: other},
		{Compression: Small}, {Compression: Small, Dictionary: dict}, {Compression: None},
	}
	for i, from := range options {
		for j, to := range options {
			fsys := vfs.NewMem()
			write(t, fsys, "a", m, from)
			src := open(t, fsys, "a", Map)
			keep := slices.Clone(m)
			f, err := fsys.Create("b")
			if err != nil {
				t.Fatal(err)
			}
			to.Levels, to.EPK, to.FileNumber = 2, hashEPK, 7
			w, err := NewWriter(f, to)
			if err != nil {
				t.Fatal(err)
			}
			keep = keep[:0]
			keys := src.WalkKeys()
			for walk := src.Walk(); walk.Next(); {
				if !keys.Next() || item.Compare(keys.Key(), walk.Key()) != 0 || keys.Version().Seq != walk.Version().Seq {
					t.Fatalf("WalkKeys is at %v, %v; Walk at %v", keys.Key(), keys.Err(), walk.Key())
				}
				if rng.IntN(4) == 0 {
					continue // what a compaction drops
				}
				keep = append(keep, entry{walk.Key().Clone(), *walk.Version()})
				keep[len(keep)-1].ver.Body = bytes.Clone(walk.Version().Body)
				from := walk
				if rng.IntN(2) == 0 {
					from = keys
				}
				if err := w.AddFrom(from); err != nil {
					t.Fatal(err)
				}
			}
			if keys.Next() || keys.Err() != nil {
				t.Fatalf("WalkKeys goes on: %v", keys.Err())
			}
			if _, err := w.Finish(); err != nil {
				t.Fatal(err)
			}
			dst := open(t, fsys, "b", Map)
			checkWalk(t, dst, keep)
			checkGets(t, dst, keep, rng)
			checkVerify(t, dst)
			if i != j {
				continue
			}
			write(t, fsys, "c", keep, to)
			if added, copied := int64(len(content(t, fsys, "c"))), dst.Size(); copied > added+added/20+1024 {
				t.Errorf("options %d: %d bytes copied, %d added", i, copied, added)
			}
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	a, b := newKey(encodeKey("p"), "a"), newKey(encodeKey("p"), "b")
	ver := func(seq uint64) item.Version { return item.Version{Seq: seq, Body: []byte("body")} }
	for name, c := range map[string]struct {
		key  item.Key
		ver  item.Version
		want error
	}{
		"lower key":        {a, ver(9), ErrOrder},
		"newer version":    {b, ver(6), ErrOrder},
		"same version":     {b, ver(5), ErrOrder},
		"no sequence":      {newKey(b.PK, "c"), ver(0), ErrItem},
		"unknown flag":     {newKey(b.PK, "c"), item.Version{Seq: 1, Flags: 4}, ErrItem},
		"two kinds":        {newKey(b.PK, "c"), item.Version{Seq: 1, Flags: item.Claim | item.Tombstone}, ErrItem},
		"tombstone's body": {newKey(b.PK, "c"), item.Version{Seq: 1, Flags: item.Tombstone, Body: []byte("x")}, ErrItem},
		"long id":          {newKey(b.PK, string(make([]byte, item.MaxID+1))), ver(1), ErrItem},
		"long key":         {newKey(append(encodeKey("p"), make([]byte, item.MaxPK)...), "c"), ver(1), ErrItem},
		"levels":           {newKey(encodeKey("p", "q"), "c"), ver(1), ErrItem},
		"wrong hash":       {item.Key{Hash: b.Hash + 1, EPK: b.EPK, PK: b.PK, ID: []byte("c")}, ver(1), ErrItem},
		"large body":       {newKey(b.PK, "c"), item.Version{Seq: 1, Body: make([]byte, MaxBody+1)}, ErrItem},
	} {
		fsys := vfs.NewMem()
		f, err := fsys.Create("a")
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWriter(f, WriterOptions{Levels: 1, EPK: hashEPK})
		if err != nil {
			t.Fatal(err)
		}
		v := ver(5)
		if err := w.Add(&b, &v); err != nil {
			t.Fatal(err)
		}
		if err := w.Add(&c.key, &c.ver); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.Finish(); !errors.Is(err, c.want) {
			t.Errorf("%s: Finish: %v", name, err)
		}
		w.Abort()
	}
	fsys := vfs.NewMem()
	f, _ := fsys.Create("a")
	w, err := NewWriter(f, WriterOptions{Levels: 1, EPK: hashEPK})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); !errors.Is(err, ErrEmpty) {
		t.Errorf("no items: %v", err)
	}
	for _, o := range []WriterOptions{{}, {Levels: 4, EPK: hashEPK}, {Levels: 1}, {Levels: 1, EPK: hashEPK, Compression: 9}} {
		f, _ := fsys.Create(fmt.Sprintf("o%d%d", o.Levels, o.Compression))
		if _, err := NewWriter(f, o); err == nil {
			t.Errorf("options %+v accepted", o)
		}
	}
}

// The largest items that there can be.
func TestLargestItem(t *testing.T) {
	fsys := vfs.NewMem()
	pk := encodeKey(string(bytes.Repeat([]byte("k"), item.MaxPK-2)))
	k := newKey(pk, string(bytes.Repeat([]byte("i"), item.MaxID)))
	m := model{{k, item.Version{Seq: math.MaxUint64, Modified: math.MaxInt64 - 1, Expires: math.MaxInt64, Body: make([]byte, MaxBody)}}}
	for i := range m[0].ver.Body {
		m[0].ver.Body[i] = byte(i * i >> 8)
	}
	for _, c := range []Compression{Fast, None} {
		name := c.String()
		write(t, fsys, name, m, WriterOptions{Compression: c})
		r := open(t, fsys, name, Pread)
		checkWalk(t, r, m)
		checkGet(t, r, m, &k, math.MaxUint64)
		checkVerify(t, r)
		limited, err := Open(fsys, name, ReaderOptions{EPK: hashEPK, MaxRaw: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		var v item.Version
		if _, _, err := limited.Get(k.Lookup(), math.MaxUint64, nil, &v); !errors.Is(err, errTooLarge) {
			t.Errorf("limit: %v", err)
		}
		limited.Release()
	}
}

// A writer whose file fails says so and leaves the file closed.
func TestFailedWrites(t *testing.T) {
	rng := randtest.New(t)
	m := maker{rng: rng, levels: 1, partitions: 5, ids: 30, versions: 2, body: noise(50 << 10)}.make()
	injected := errors.New("injected")
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpSync} {
		fsys := vfs.NewFaulty(vfs.NewMem())
		f, err := fsys.Create("a")
		if err != nil {
			t.Fatal(err)
		}
		fsys.SetHook(func(c vfs.Call) error {
			if c.Op == op {
				return injected
			}
			return nil
		})
		w, err := NewWriter(f, WriterOptions{Levels: 1, EPK: hashEPK})
		if err != nil {
			t.Fatal(err)
		}
		for i := range m {
			if err = w.Add(&m[i].key, &m[i].ver); err != nil {
				break
			}
		}
		if err == nil {
			_, err = w.Finish()
		} else {
			w.Abort()
		}
		if !errors.Is(err, injected) || !errors.Is(err, fault.ErrIO) {
			t.Errorf("%v: %v", op, err)
		}
		if _, err := f.Stat(); err == nil {
			t.Errorf("%v: the file is open", op)
		}
	}
}

// Size is near what the file gets.
func TestSize(t *testing.T) {
	rng := randtest.New(t)
	m := maker{rng: rng, levels: 1, partitions: 200, ids: 60, versions: 2, body: document}.make()
	fsys := vfs.NewMem()
	f, err := fsys.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{Levels: 1, EPK: hashEPK})
	if err != nil {
		t.Fatal(err)
	}
	for i := range m {
		if err := w.Add(&m[i].key, &m[i].ver); err != nil {
			t.Fatal(err)
		}
	}
	guess := w.Size()
	p, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if diff := p.FileBytes - guess; diff < -p.FileBytes/20-4096 || diff > p.FileBytes/20+4096 {
		t.Errorf("guessed %d, the file has %d bytes", guess, p.FileBytes)
	}
}

// A dictionary is one object however often it is made.
func TestDictionaryIsShared(t *testing.T) {
	a, b := testDictionary(t), testDictionary(t)
	if a != b || a.Hash() != b.Hash() || !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two objects of one content")
	}
	for _, n := range []int{0, MinDictionary - 1, MaxDictionary + 1} {
		if _, err := NewDictionary(make([]byte, n)); err == nil {
			t.Errorf("dictionary of %d bytes accepted", n)
		}
	}
}
