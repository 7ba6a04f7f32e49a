package wal

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

const logDir = "log"

// smallOptions are those of a log that rotates early and is the same in each
// run.
func smallOptions(seed uint64) Options {
	rng := rand.New(rand.NewPCG(seed, 1))
	return Options{MaxFileBytes: minFileBytes, FirstFileBytes: minFileBytes, RandomID: rng.Uint64, StoreID: [16]byte{7, 1}}
}

func newMem(t testing.TB) *vfs.Mem {
	t.Helper()
	fs := vfs.NewMem()
	must(t, vfs.MkdirSync(fs, logDir))
	return fs
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// entry is a record of the model: what Append was given and what it returned.
type entry struct {
	stream  Stream
	typ     Type
	seq     uint64
	count   uint32
	payload string
}

func (e entry) String() string {
	head := e.payload
	if len(head) > 16 {
		head = head[:16] + "…"
	}
	return fmt.Sprintf("{stream %d %v seq %d+%d, %d bytes %q}", e.stream, e.typ, e.seq, e.count, len(e.payload), head)
}

// replay recovers the log and returns the records of the streams.
func replay(fs vfs.FS, st State, o Options) ([]entry, *Recovery, error) {
	var got []entry
	rec, err := Recover(context.Background(), fs, logDir, st, o, func(r *Record) error {
		if r.Type == TypeVouch || r.Type == TypeSeal {
			return nil
		}
		got = append(got, entry{r.Stream, r.Type, r.Seq, r.Count, string(r.Payload)})
		return nil
	})
	return got, rec, err
}

func mustReplay(t testing.TB, fs vfs.FS, st State, o Options) ([]entry, *Recovery) {
	t.Helper()
	got, rec, err := replay(fs, st, o)
	must(t, err)
	return got, rec
}

// openLog recovers and creates the log that follows, as its owner does it. The
// state is brought up to date.
func openLog(fs vfs.FS, st *State, o Options) (*Log, []entry, error) {
	if err := PrepareRecovery(fs, logDir, *st); err != nil {
		return nil, nil, err
	}
	got, rec, err := replay(fs, *st, o)
	if err != nil {
		return nil, nil, err
	}
	*st = State{First: rec.First, Closed: rec.Closed}
	l, err := Create(fs, logDir, rec, rec.LastSeq+1, o)
	return l, got, err
}

func mustOpen(t testing.TB, fs vfs.FS, st *State, o Options) (*Log, []entry) {
	t.Helper()
	l, got, err := openLog(fs, st, o)
	must(t, err)
	return l, got
}

// put appends a write of one sequence.
func put(t testing.TB, l *Log, s Stream, payload string) (entry, Position) {
	t.Helper()
	seq, pos, err := l.Append(s, TypeWrite, 1, []byte(payload), nil)
	must(t, err)
	return entry{s, TypeWrite, seq, 1, payload}, pos
}

func mustClose(t testing.TB, l *Log, st *State) {
	t.Helper()
	c, err := l.Close()
	must(t, err)
	st.Closed = append(st.Closed, c)
}

// filler returns a payload of n bytes that differs by i.
func filler(i, n int) string {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(uint64(i), 9))
	for at := 0; at+8 <= n; at += 8 {
		binary.LittleEndian.PutUint64(b[at:], rng.Uint64())
	}
	return string(b)
}

func wantEntries(t testing.TB, got, want []entry) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("record %d is %v, want %v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
}
