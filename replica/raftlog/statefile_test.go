package raftlog

import (
	"context"
	"encoding/binary"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// stateFiles returns the names of the files with states.
func stateFiles(t testing.TB, fs vfs.FS) (out []string) {
	t.Helper()
	names, err := fs.List(dir)
	must(t, err)
	for _, name := range names {
		if isState(name) || name == stateTemp {
			out = append(out, name)
		}
	}
	return out
}

// checkStates checks that there are the files of the manifest and no others.
func checkStates(t testing.TB, s *Store) {
	t.Helper()
	b, err := vfs.ReadFile(s.fs, path.Join(dir, manifestName), maxManifestBytes)
	must(t, err)
	m, err := decodeManifest(manifestName, b)
	must(t, err)
	var want []string
	for i := range m.groups {
		if m.groups[i].file.length > 0 {
			want = append(want, m.groups[i].stateName())
		}
	}
	got := stateFiles(t, s.fs)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(s.states) != len(want) {
		t.Errorf("files %v, the manifest names %v, %d are known", got, want, len(s.states))
	}
}

// olderManifest encodes a manifest as an older version did: it holds all states.
func olderManifest(t testing.TB, m *manifest, version uint32) []byte {
	older := *m
	older.groups, older.removed = nil, nil
	b, err := older.encode()
	must(t, err)
	body := binary.AppendUvarint(b[sealBytes:len(b)-2], uint64(len(m.groups)))
	for i := range m.groups {
		g := &m.groups[i]
		for _, v := range []uint64{uint64(g.stream), g.id, g.replica} {
			body = binary.AppendUvarint(body, v)
		}
		body, err = appendBase(appendHard(body, &g.hard), &g.base)
		must(t, err)
	}
	if version > 1 {
		body = binary.AppendUvarint(body, uint64(len(m.removed)))
		for _, r := range m.removed {
			body = binary.AppendUvarint(binary.AppendUvarint(body, r.group), r.replica)
		}
	}
	return seal(manifestMagic, version, body)
}

// TestOlderManifest: a store of an older version opens with all that it had, whatever call of the file system a crash comes
// at meanwhile, and has the newest version then.
func TestOlderManifest(t *testing.T) {
	for version := uint32(1); version < FormatVersion; version++ {
		from := vfs.NewMem()
		s := open(t, from)
		want := make(map[uint64]string)
		for id := uint64(1); id <= 4; id++ {
			g, err := s.Create(id, 2, base(id, 1))
			must(t, err)
			pos, err := g.Append(hard(3, 1, id), entries(id+1, 3, 3, 100))
			must(t, err)
			must(t, s.Wait(pos))
			want[id] = describe(g)
		}
		if version > 1 {
			_, err := s.Create(9, 7, base(1, 1))
			must(t, err)
			must(t, s.Remove(9))
		}
		must(t, s.Close())
		manifestPath := path.Join(dir, manifestName)
		b, err := from.ReadFile(manifestPath)
		must(t, err)
		m, err := decodeManifest(manifestName, b)
		must(t, err)
		for i := range m.groups {
			m.groups[i].base = base(m.groups[i].base.Index, 1)
		}
		must(t, from.WriteFile(manifestPath, olderManifest(t, m, version)))
		for _, name := range stateFiles(t, from) {
			must(t, from.Remove(path.Join(dir, name)))
		}
		from = from.Kill()
		for n := int64(1); ; n++ {
			mem := from.Clone()
			faulty := vfs.NewFaulty(mem)
			var image *vfs.Mem
			faulty.StopAt(n, func() { image = mem.Clone() })
			_, err := Open(context.Background(), faulty, dir, small)
			done := image == nil
			if done {
				must(t, err)
				image = mem
			}
			for _, keep := range []vfs.CrashOptions{{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}, {Keep: vfs.KeepNewest}, {Keep: vfs.KeepRandom, TornLast: true, Seed: uint64(n)}} {
				s := open(t, image.Crash(keep))
				for id, was := range want {
					if got := describe(s.Group(id)); got != was {
						t.Fatalf("version %d, call %d, %+v: %s, was %s", version, n, keep, got, was)
					}
				}
				checkStates(t, s)
				if _, err := s.Create(9, 7, Base{}); version > 1 && !errors.Is(err, ErrRemoved) {
					t.Errorf("version %d: a replica that was removed: %v", version, err)
				}
			}
			if done {
				b, err := image.ReadFile(manifestPath)
				must(t, err)
				if got := binary.LittleEndian.Uint32(b[8:]); got != FormatVersion {
					t.Errorf("version %d was opened and is %d now", version, got)
				}
				break
			}
		}
	}
}

// TestTruncationCost: what a truncation of one group writes does not depend on the states of the others.
func TestTruncationCost(t *testing.T) {
	const groups, length = 50, 100 << 10
	faulty := vfs.NewFaulty(vfs.NewMem())
	s := open(t, faulty)
	large := func(index, term uint64) Base {
		b := base(index, term)
		b.State = []byte(strings.Repeat("s", length))
		return b
	}
	for id := range uint64(groups) {
		_, err := s.Create(id+1, 1, large(1, 1))
		must(t, err)
	}
	g := s.Group(7)
	pos, err := g.Append(hard(3, 1, 5), entries(2, 5, 3, 10))
	must(t, err)
	must(t, s.Wait(pos))
	written := int64(0)
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpWrite && !isLog(path.Base(c.Name)) {
			written += c.Len
		}
		return nil
	})
	must(t, g.Truncate(large(4, 3)))
	if most := int64(length + groups*200); written < length || written > most {
		t.Errorf("%d bytes were written, want %d to %d", written, length, most)
	}
	faulty.SetHook(nil)
	must(t, s.Close())
}

// TestStateFiles: there are the files of the bases that groups have, whatever becomes of a group, and a start removes others.
func TestStateFiles(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem)
	check := func(files int) {
		t.Helper()
		checkStates(t, s)
		if got := stateFiles(t, mem); len(got) != files {
			t.Errorf("files %v, want %d", got, files)
		}
	}
	for id := uint64(1); id <= 4; id++ {
		_, err := s.Create(id, 1, base(1, 1))
		must(t, err)
		check(int(id))
	}
	g := s.Group(1)
	_, err := g.Append(hard(3, 1, 1), entries(2, 9, 3, 10))
	must(t, err)
	must(t, g.Truncate(base(3, 3)))
	check(4)
	must(t, g.Truncate(base(4, 3))) // in the manifest
	check(3)
	must(t, g.BeginInstall(hard(5, 0, 4), base(21, 5)))
	must(t, g.EndInstall(true))
	check(3)
	must(t, s.Note())
	check(4)
	must(t, s.Remove(2))
	check(3)
	must(t, s.Discard(func(id uint64) bool { return id == 3 }))
	check(2)
	must(t, s.Close())
	for _, name := range []string{"4-3.base", "77-1.base", stateTemp} {
		must(t, mem.WriteFile(path.Join(dir, name), []byte("left")))
	}
	s = open(t, mem)
	check(2)
	must(t, s.Close())
}

// TestLostState: a log with a state that is missing or damaged is refused, and so is one with files of states alone.
func TestLostState(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem)
	_, err := s.Create(1, 1, base(1, 1))
	must(t, err)
	_, err = s.Create(2, 1, base(3, 1))
	must(t, err)
	must(t, s.Close())
	refused := func(what string, mem *vfs.Mem, kinds ...error) {
		t.Helper()
		_, err := Open(context.Background(), mem, dir, small)
		if !slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
			t.Errorf("%s: %v", what, err)
		}
	}
	files := stateFiles(t, mem)
	if len(files) != 2 {
		t.Fatal(files)
	}
	name, other := path.Join(dir, files[0]), path.Join(dir, files[1])
	b, err := mem.ReadFile(name)
	must(t, err)
	with := func(content []byte) *vfs.Mem {
		damaged := mem.Clone()
		must(t, damaged.WriteFile(name, content))
		return damaged
	}
	missing := mem.Clone()
	must(t, missing.Remove(name))
	refused("missing", missing, ErrLost)
	for at := range sealBytes + 40 {
		damaged := slices.Clone(b)
		damaged[at] ^= 4
		if at >= 8 && at < 12 { // of the version
			refused("damaged", with(damaged), fault.ErrTooNew)
			continue
		}
		refused("damaged", with(damaged), ErrLost)
	}
	refused("shorter", with(b[:len(b)-1]), ErrLost)
	refused("longer", with(append(slices.Clone(b), 0)), ErrLost)
	refused("empty", with(nil), ErrLost)
	swapped, err := mem.ReadFile(other)
	must(t, err)
	refused("of another group", with(swapped), ErrLost)
	for _, file := range mem.Names() {
		if file == path.Join(dir, manifestName) || isLog(path.Base(file)) {
			must(t, mem.Remove(file))
		}
	}
	refused("no manifest", mem, ErrLost)
}

// TestNoteFails: after a failure at any call of the file system the log is whole after a crash, and the next Note makes good
// for it.
func TestNoteFails(t *testing.T) {
	prepare := func(s *Store) {
		g, err := s.Create(1, 1, base(1, 1))
		must(t, err)
		pos, err := g.Append(hard(3, 1, 1), entries(2, 9, 3, 10))
		must(t, err)
		must(t, s.Wait(pos))
	}
	truncate := func(s *Store) error { return s.Group(1).Truncate(base(3, 3)) }
	eachFailure(t, 8, prepare, truncate, func(n int64, mem *vfs.Mem, s *Store, failed error) {
		if failed != nil {
			crashed := open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}))
			if b := crashed.Group(1).Base(); b.Index != 1 && b.Index != 3 || string(b.State) != string(base(b.Index, 1).State) {
				t.Errorf("call %d: %+v", n, b)
			}
			checkStates(t, crashed)
			if err := s.Note(); err != nil {
				t.Fatalf("call %d: %v", n, err)
			}
		}
		checkStates(t, s)
		want := describe(s.Group(1))
		again := open(t, mem.Crash(vfs.CrashOptions{Keep: vfs.KeepNone}))
		if got := describe(again.Group(1)); got != want {
			t.Errorf("call %d: %s, was %s", n, got, want)
		}
	})
}
