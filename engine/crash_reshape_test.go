package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// reshapeStories are the stories of splits, merges of neighbours and moves of
// boundaries.
var reshapeStories = []story{
	{"split", func(s *stage) {
		s.start(1)
		s.put("c", 12, 100)
		s.flush()
		s.put("c", 8, 100)
		s.split("c", 0)
		s.put("c", 8, 100)
		s.remove("c", 3)
		s.split("c", 1)
		s.put("c", 5, 100)
		s.close()
		s.open()
		s.put("c", 3, 10)
	}},
	{"inherit", func(s *stage) {
		s.opts.keepInheritance = true
		s.start(1)
		s.put("c", 8, 100)
		s.flush()
		s.put("c", 8, 100)
		s.split("c", 0)
		s.put("c", 8, 100)
		s.carry()
		s.flush()
		s.put("c", 5, 100)
	}},
	{"buffered split", func(s *stage) {
		s.opts.Durability = Buffered
		s.opts.keepInheritance = true
		s.start(1)
		s.put("c", 8, 100)
		s.split("c", 0)
		s.put("c", 8, 100)
		s.mergeParts("c")
		s.put("c", 8, 100)
	}},
	{"one flushed", func(s *stage) {
		s.opts.Durability = Buffered
		s.opts.keepInheritance = true
		s.start(2)
		s.put("c", 8, 100)
		s.flushPart(0)
		s.mergeParts("c")
		s.put("c", 8, 100)
		s.flushPart(0)
	}},
	{"merge of partitions", func(s *stage) {
		s.start(2)
		s.put("c", 8, 100)
		s.flush()
		s.put("c", 8, 100)
		s.mergeParts("c")
		s.put("c", 5, 100)
		s.remove("c", 2)
		s.settle()
		s.put("c", 2, 10)
	}},
	{"move", func(s *stage) {
		s.start(2)
		s.put("c", 8, 100)
		s.flush()
		s.put("c", 8, 100)
		s.move("c", "10")
		s.put("c", 5, 100)
		s.move("c", "30")
		s.put("c", 2, 10)
	}},
	{"trim", func(s *stage) {
		s.start(1)
		s.put("c", 24, 100)
		s.flush()
		s.split("c", 0)
		s.settle()
		s.put("c", 5, 100)
		s.mergeParts("c")
		s.settle()
		s.put("c", 2, 10)
	}},
	{"load across a cut", func(s *stage) {
		s.start(1)
		s.load("c", 20, func() { s.split("c", 0) })
		s.load("c", 20, func() { s.mergeParts("c") })
	}},
	{"scan across a cut", func(s *stage) {
		s.start(1)
		s.put("c", 12, 100)
		s.flush()
		s.put("c", 6, 100)
		s.scan("c", func() { s.split("c", 0) })
		s.scan("c", func() { s.mergeParts("c") })
	}},
	{"cancelled", func(s *stage) {
		s.start(1)
		s.put("c", 8, 100)
		s.flush()
		s.cancelAt("c", vfs.OpLink)
		s.put("c", 3, 100)
		s.cancelAt("c", vfs.OpSyncDir)
		s.put("c", 3, 100)
		s.split("c", 0)
		s.put("c", 3, 100)
	}},
	{"copies", func(s *stage) {
		// No file has a second name, for each of the reasons that there are.
		refusals := []error{syscall.EXDEV, syscall.EMLINK, syscall.EPERM}
		links := 0
		s.faulty().SetHook(func(c vfs.Call) error {
			if c.Op != vfs.OpLink {
				return nil
			}
			links++
			return refusals[links%len(refusals)]
		})
		s.start(1)
		s.put("c", 8, 100)
		s.flush()
		s.put("c", 4, 100)
		s.split("c", 0)
		s.put("c", 4, 100)
		s.mergeParts("c")
		s.put("c", 2, 10)
	}},
	{"hierarchical", func(s *stage) {
		s.open()
		s.define("c", ContainerDef{PartitionKey: []string{"/k", "/l"}})
		s.put("c", 12, 100)
		s.flush()
		s.put("c", 8, 100)
		s.split("c", 0)
		s.put("c", 8, 100)
		s.split("c", 1)
		s.settle()
		s.put("c", 4, 100)
	}},
	{"drop of children", func(s *stage) {
		s.opts.keepInheritance = true
		s.open()
		s.create("a", 1)
		s.create("b", 1)
		s.put("a", 5, 100)
		s.put("b", 8, 100)
		s.flush()
		s.put("b", 4, 100)
		s.split("b", 0)
		s.put("b", 4, 100)
		s.drop("b")
		s.put("a", 5, 100)
		s.close()
		s.open()
		s.put("a", 2, 100)
	}},
}

// reshape carries out a job. One that fails has changed nothing, unless the
// store has failed.
func (s *stage) reshape(name string, start func(c *Container, ids []PartitionID) (*ReshapeJob, error)) {
	s.must(s.do(func() error {
		c, err := s.db.Container(name)
		if err != nil {
			return err
		}
		var ids []PartitionID
		for _, p := range c.Partitions() {
			ids = append(ids, p.ID)
		}
		job, err := start(c, ids)
		if err == nil {
			_ = job.Wait(context.Background()) // whether the store has failed tells what to expect
		}
		s.o.follow(s.db) // also where the store failed behind the swap
		return s.db.writable()
	}))
}

func (s *stage) split(name string, i int) {
	s.reshape(name, func(c *Container, ids []PartitionID) (*ReshapeJob, error) {
		return c.Split(context.Background(), ids[min(i, len(ids)-1)], nil)
	})
}

func (s *stage) mergeParts(name string) {
	s.reshape(name, func(c *Container, ids []PartitionID) (*ReshapeJob, error) {
		if len(ids) < 2 {
			return nil, ErrNotFound // the split before it has failed
		}
		return c.Merge(context.Background(), ids[0], ids[1])
	})
}

func (s *stage) move(name, at string) {
	s.reshape(name, func(c *Container, ids []PartitionID) (*ReshapeJob, error) {
		return c.MoveBoundary(context.Background(), ids[0], ids[1], at)
	})
}

func (s *stage) faulty() *vfs.Faulty { return s.opts.fs.(*vfs.Faulty) }

// cancelAt splits the first partition, and cancels that at the first call of a
// kind.
func (s *stage) cancelAt(name string, op vfs.Op) {
	var job *ReshapeJob
	s.reshape(name, func(c *Container, ids []PartitionID) (*ReshapeJob, error) {
		job = c.newJob(ReshapeSplit, "", ids[0])
		s.faulty().SetHook(func(c vfs.Call) error {
			if c.Op == op && job.Progress().Phase == PhasePreparing {
				job.cancel()
			}
			return nil
		})
		c.db.submit(job)
		s.faulty().SetHook(nil)
		return job, nil
	})
	if s.err == nil && job != nil && job.err == nil {
		s.t.Errorf("a split that was cancelled at a call to %v was carried out", op)
	}
}

// scan reads a container while something happens to its partitions, and again
// at a snapshot of before.
func (s *stage) scan(name string, during func()) {
	s.must(s.do(func() error {
		c, err := s.db.Container(name)
		if err != nil {
			return err
		}
		snapshot, err := c.Snapshot(context.Background())
		if err != nil {
			return err
		}
		defer snapshot.Close()
		before := make(map[itemID]string)
		for it, err := range snapshot.ScanAll(context.Background(), nil) {
			if err != nil {
				return err
			}
			before[itemID{name, it.Key, it.ID}] = string(it.Body)
		}
		same := func(items func(func(Item, error) bool), during func()) error {
			n := 0
			for it, err := range items {
				if err != nil {
					return err
				}
				if want := before[itemID{name, it.Key, it.ID}]; want != string(it.Body) {
					s.t.Errorf("a scan across a cut gives %.60q for %v/%s, not %.60q", it.Body, it.Key, it.ID, want)
				}
				if n++; n == len(before)/2 {
					during()
				}
			}
			if n != len(before) {
				s.t.Errorf("a scan across a cut gives %d items, not %d", n, len(before))
			}
			return nil
		}
		if err := same(c.ScanAll(context.Background(), nil), during); err != nil {
			return err
		}
		s.put(name, 5, 100)
		if s.err != nil {
			return s.err
		}
		return same(snapshot.ScanAll(context.Background(), &ScanOptions{Reverse: true}), func() { s.flush() })
	}))
}

// TestCrashAtOpen stops the opening of what a crash in a reshape left, or fails
// a call of it, and opens what that leaves.
func TestCrashAtOpen(t *testing.T) {
	seed := newSeed(t)
	for _, st := range reshapeStories {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 5))
			for n := range stops(seed) {
				mem := vfs.NewMem()
				faulty := vfs.NewFaulty(mem)
				var image *vfs.Mem
				killed := rng.IntN(2) == 0
				faulty.StopAt(n, func() {
					if image = mem.Kill(); !killed {
						image = mem.Crash(randomCrash(rng))
					}
				})
				s := st.play(t, faulty)
				if image == nil {
					return
				}
				if err := s.survivesOpens(rng, image, killed); err != nil {
					t.Fatalf("stopped at call %d (%v), killed %v: %v", n, s.err, killed, err)
				}
			}
		})
	}
}

// survivesOpens opens an image several times, each time with a crash or an
// error at some call, and then as it should be.
func (s *stage) survivesOpens(rng *rand.Rand, image *vfs.Mem, killed bool) error {
	calls := int64(60) // of the first try; later ones know better
	for range 3 {
		faulty := vfs.NewFaulty(image)
		var next *vfs.Mem
		at := 1 + rng.Int64N(calls)
		crash := func() {
			if next = image.Kill(); !killed {
				next = image.Crash(randomCrash(rng))
			}
		}
		how := "stopped"
		var synced int64 // syncs that did not fail
		if rng.IntN(3) == 0 {
			how = "failed"
			faulty.FailAt(at, errInjected, rng.IntN(2) == 0)
			faulty.SetHook(func(c vfs.Call) error {
				if c.Op == vfs.OpSync {
					synced++
				}
				return nil
			})
		} else {
			faulty.StopAt(at, crash)
		}
		opts := *testOptions(faulty)
		opts.keepInheritance = rng.IntN(2) == 0
		db, err := Open(context.Background(), "image", &opts)
		if err == nil {
			db.Close()
		} else if next == nil && !errors.Is(err, errInjected) {
			return fmt.Errorf("open, %s at call %d: %w", how, at, err)
		}
		if how == "failed" && faulty.CallsOf(vfs.OpSync) > synced {
			killed = false // a sync that failed may have lost what the kernel had
		}
		if next == nil {
			calls = max(faulty.Calls(), at)
			crash()
		}
		image = next
	}
	return s.survives(image, killed)
}
