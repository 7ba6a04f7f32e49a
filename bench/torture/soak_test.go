package main

import (
	"io"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/wal"
)

// TestSoakReport plants growth of each measure, which the report must see.
func TestSoakReport(t *testing.T) {
	const length = time.Hour
	for _, grows := range append(tolerances, tolerance{measure: "none"}) {
		s := &soaking{out: io.Discard, length: length, begin: time.Now().Add(-length)}
		for at := time.Duration(0); at <= length; at += length / 100 {
			m := make(measures)
			for _, t := range tolerances {
				m[t.measure] = 100
				if t.times == 0 {
					m[t.measure] = 0 // a bound that is told, not compared
				}
				if t == grows && at > length/2 {
					m[t.measure] = m[t.measure]*t.times + t.beyond + 1
				}
			}
			s.samples = append(s.samples, sampled{at, m})
		}
		s.report()
		if want := grows.measure != "none"; want != (len(s.violations) == 1) {
			t.Errorf("%s grows: %q", grows.measure, s.violations)
		}
	}
}

// TestSoakNotMeasured: a measure that is missing is a violation, unless the soak was broken off.
func TestSoakNotMeasured(t *testing.T) {
	const length = time.Hour
	for _, broken := range []bool{false, true} {
		s := &soaking{out: io.Discard, length: length, begin: time.Now().Add(-length), broken: broken}
		for at := time.Duration(0); at <= length; at += length / 100 {
			m := make(measures)
			for _, t := range tolerances[1:] {
				m[t.measure] = 0
			}
			s.samples = append(s.samples, sampled{at, m})
		}
		s.report()
		if want := !broken; want != (len(s.violations) == 1) {
			t.Errorf("broken off: %t; violations %q", broken, s.violations)
		}
	}
}

// TestSoakEnds says when lives end: some while the soak is young, and the last
// fifth of it is one life.
func TestSoakEnds(t *testing.T) {
	s := newSeries(nil, kill, settings[0], 1)
	k := &soaking{length: time.Hour, rng: s.rng, begin: time.Now()}
	if end := k.nextEnd(); end < time.Minute || end > 4*time.Minute {
		t.Errorf("the first life ends after %v", end)
	}
	k.begin = time.Now().Add(-47 * time.Minute)
	if end := k.nextEnd(); end > 48*time.Minute {
		t.Errorf("a life ends after %v", end)
	}
	k.begin = time.Now().Add(-48 * time.Minute)
	if end := k.nextEnd(); end != time.Hour {
		t.Errorf("the last life ends after %v", end)
	}
}

// TestSettled asks that the disk is measured when nothing is kept for a time any
// more, and that what is held for ever is a violation.
func TestSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db, err := engine.Open(ctx, t.TempDir(), &engine.Options{LogFileBytes: 256 << 10, LogBytes: 2 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		cs, err := openContainers(ctx, db, documents)
		if err != nil {
			t.Fatal(err)
		}
		const items, size = 2000, 4 << 10
		rng := rand.NewChaCha8([32]byte{})
		write := func() {
			t.Helper()
			body := make([]byte, size)
			for i := range items {
				_, _ = rng.Read(body)
				if _, err := cs.opaque.Put(ctx, engine.StringKey("p"), strconv.Itoa(i), body, &engine.WriteOptions{Durability: engine.Buffered}); err != nil {
					t.Fatal(err)
				}
			}
		}
		write()
		write()
		if err := db.Compact(ctx); err != nil {
			t.Fatal(err)
		}
		if len(db.Stats().Holders) == 0 {
			t.Fatal("nothing is kept")
		}
		ratio, err := settled(ctx, db, 2*changeRetention)
		if err != nil || ratio < 0.9 || ratio > 1.1 {
			t.Errorf("settled at %.2f, %v; want 0.9 to 1.1", ratio, err)
		}
		c, err := db.Container("o")
		if err != nil {
			t.Fatal(err)
		}
		snapshot, err := c.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer snapshot.Close()
		write()
		if _, err := settled(ctx, db, 2*changeRetention); !isViolation(err) {
			t.Errorf("with a snapshot that is never closed: %v", err)
		}
	})
}

// TestLogBeyond plants a log that nobody shrinks.
func TestLogBeyond(t *testing.T) {
	s := engine.Stats{Log: wal.Stats{Bytes: 9 << 20}, Containers: []engine.ContainerStats{{Partitions: []engine.PartitionStats{{MemtableBytes: 1 << 20}, {MemtableBytes: 3 << 20}}}}}
	if got := logBeyond(s, 4<<20); got != 1 {
		t.Errorf("9 MiB of log with memtables of 4 MiB are %.1f MiB beyond the bound, want 1", got)
	}
	if got := logBeyond(s, 10<<20); got != 0 {
		t.Errorf("9 MiB of log of which 10 MiB are allowed are %.1f MiB beyond the bound", got)
	}
}
