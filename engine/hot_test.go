package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/loadstats"
)

// newHeatStore returns a store in which every operation is looked at.
func newHeatStore(t *testing.T, limit float64) *meteredStore {
	s := newMeteredStore(t, ContainerDef{})
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	s.o.MaxPartitionThroughput = limit
	s.open()
	var err error
	if s.c, err = s.db.Container("metered"); err != nil {
		t.Fatal(err)
	}
	s.db.unsampled = 0
	return s
}

// read reads a document that every key has.
func (s *meteredStore) read(key string) {
	s.t.Helper()
	if _, err := s.c.Read(context.Background(), StringKey(key), "a"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *meteredStore) write(key string) {
	s.t.Helper()
	if _, err := s.c.Upsert(context.Background(), documentOf("a", key, 60), nil); err != nil {
		s.t.Fatal(err)
	}
}

func about(got, want float64) bool { return math.Abs(got-want) <= 0.03*want }

// TestHot asks which keys are hot while the load moves on.
func TestHot(t *testing.T) {
	s := newHeatStore(t, 0)
	if got := s.c.Hot(5); len(got) != 0 {
		t.Errorf("before the first operation: %+v", got)
	}
	load := func(reads, writes string, span time.Duration) {
		t.Helper()
		for end := s.db.uptime() + span; s.db.uptime() < end; s.pass(100 * time.Millisecond) {
			s.write(writes)
			for range 5 {
				s.read(reads)
			}
			for i := range 2 {
				s.read(fmt.Sprint("cold", int(s.db.uptime()/time.Millisecond)%3000+i))
			}
		}
	}
	for i := range 3002 {
		s.write(fmt.Sprint("cold", i))
	}
	s.write("a")
	s.write("b")
	s.pass(time.Hour) // all that is forgotten
	load("a", "b", 5*time.Minute)
	check := func(reads, writes string) {
		t.Helper()
		hot := s.c.Hot(2)
		if len(hot) != 2 {
			t.Fatalf("%+v", hot)
		}
		w, r := hot[0], hot[1]
		if w.Key != StringKey(writes) || r.Key != StringKey(reads) || w.Partition != s.c.Partitions()[0].ID {
			t.Errorf("%+v", hot)
		}
		for _, k := range []struct{ got, err, want float64 }{{w.Units, w.Error, 50}, {r.Units, r.Error, 50}, {w.Ops, w.Error, 10}, {r.Ops, r.Error, 50}} {
			if k.got < k.want*0.97 || k.got-k.err > k.want*1.03 {
				t.Errorf("%+v", hot)
			}
		}
		if load := s.c.Partitions()[0].Load; !about(load, 120) {
			t.Errorf("the partition consumes %v RU/s", load)
		}
	}
	check("a", "b")
	s.pass(10 * time.Minute)
	load("b", "a", 5*time.Minute)
	check("b", "a")
	if all := s.c.Hot(1000); len(all) != loadstats.Keys {
		t.Errorf("%d keys", len(all))
	}
	if got := s.c.Hot(-1); len(got) != 0 {
		t.Errorf("%d keys, none wanted", len(got))
	}
}

// TestHotSampled finds a hot key in the sample that is taken by default.
func TestHotSampled(t *testing.T) {
	s := newHeatStore(t, 0)
	s.db.unsampled = loadstats.Every - 1
	const keys = 500
	for i := range keys {
		s.write(fmt.Sprint(i))
	}
	const n = 200_000
	for i := range n {
		key := "7"
		if i%2 == 0 {
			key = fmt.Sprint(i / 2 % keys)
		}
		s.read(key)
		s.pass(100 * time.Microsecond)
	}
	hot := s.c.Hot(1)
	// Half of 10,000 a second. Some 390 reads of it are in the sample: within eight
	// standard errors.
	if len(hot) != 1 || hot[0].Key != StringKey("7") || math.Abs(hot[0].Units-5000) > 2000 {
		t.Errorf("%+v", hot)
	}
}

// TestHotSplits cuts partitions that consume too much where their load is
// halved, until none does, and none when one key is hot.
func TestHotSplits(t *testing.T) {
	s := newHeatStore(t, 100)
	var refused []error
	s.db.opts.Events = &EventListener{Reshaped: func(e ReshapeEvent) { refused = append(refused, e.Err) }}
	const keys = 200
	for i := range keys {
		s.write(fmt.Sprint(i))
	}
	load := func(span time.Duration, key func(i int) string) {
		for i, end := 0, s.db.uptime()+span; s.db.uptime() < end; i++ {
			s.read(key(i))
			s.pass(time.Second / 300)
			if i%75 == 0 {
				s.db.splitHot()
			}
		}
	}
	spread := func(i int) string { return fmt.Sprint(i % keys) }
	load(50*time.Second, spread)
	if n := len(s.c.Partitions()); n != 1 {
		t.Fatalf("%d partitions before a minute", n)
	}
	load(20*time.Second, spread)
	if n := len(s.c.Partitions()); n != 2 {
		t.Fatalf("%d partitions after a minute", n)
	}
	load(55*time.Second, spread)
	for _, p := range s.c.Partitions() {
		if p.Load < 120 || p.Load > 180 {
			t.Errorf("a child consumes %v RU/s of 300", p.Load)
		}
	}
	load(5*time.Minute, spread)
	parts := s.c.Partitions()
	if len(parts) != 4 {
		t.Errorf("%d partitions", len(parts))
	}
	for _, p := range parts {
		if p.Load > 100 {
			t.Errorf("partition %d consumes %v RU/s", p.ID, p.Load)
		}
	}
	load(12*time.Minute, func(int) string { return "7" })
	if n := len(s.c.Partitions()); n != len(parts) {
		t.Errorf("%d partitions, for one key", n)
	}
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	var reasons []RefusalReason
	for _, err := range refused {
		var r *Refusal
		if errors.As(err, &r) {
			reasons = append(reasons, r.Reason)
		}
	}
	if len(refused) != 5 || len(reasons) != 2 {
		t.Errorf("jobs ended with %v", refused)
	}
}
