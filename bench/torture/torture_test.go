package main

import (
	"context"
	"os"
	"testing"
)

// TestMain lets the binary of the tests be the child too.
func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		victimMain(os.Args[1:], plants[os.Getenv(plantEnv)])
		return
	}
	os.Exit(m.Run())
}

func kills(t *testing.T, n int, mutant bool) *series {
	t.Helper()
	s := newSeries(&plain{t.TempDir()}, kill, settings[0], 1)
	s.mutant = mutant
	for range n {
		if err := s.cycle(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestKills(t *testing.T) {
	s := kills(t, 4, false)
	for _, v := range s.violations {
		t.Error(v)
	}
	if s.acknowledged == 0 {
		t.Error("no write was acknowledged")
	}
}

// TestMutant shows that the oracle sees a document that is gone.
func TestMutant(t *testing.T) {
	s := kills(t, 3, true)
	for s.taken < 3 { // a child may have come to no write
		if err := s.cycle(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.violations) != s.taken {
		t.Errorf("%d of %d stores without a document were noticed", len(s.violations), s.taken)
	}
}

func TestDamages(t *testing.T) {
	r, err := damages(context.Background(), 60, 1, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.violations {
		t.Error(v)
	}
}

// TestStory asks for the same operations of a lane wherever they are drawn.
func TestStory(t *testing.T) {
	a, b := newLane(small, 5, 3), newLane(small, 5, 3)
	a.advance(500)
	for range 5 {
		b.advance(b.n + 100)
	}
	if a.sum != b.sum || len(a.docs) != len(b.docs) || len(a.docs) == 0 {
		t.Errorf("%d and %d documents", len(a.docs), len(b.docs))
	}
}
