package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// throttledContainers are the containers of TestRerunAfterThrottling: their throughput, or
// that of each logical partition, is limited.
func throttledContainers(perSecond float64) map[string]ContainerDef {
	return map[string]ContainerDef{
		"physical":          {Throughput: perSecond, NoBurst: true},
		"physical, bursts":  {Throughput: perSecond},
		"logical":           {Limits: ContainerLimits{LogicalPartitionThroughput: perSecond}},
		"logical, physical": {Throughput: perSecond, NoBurst: true, Limits: ContainerLimits{LogicalPartitionThroughput: perSecond}},
	}
}

// TestRerunAfterThrottling: a caller that waits as long as RetryAfter says and calls again is
// admitted, however many request units the call takes, and what was consumed stays within
// the limit over time.
func TestRerunAfterThrottling(t *testing.T) {
	ctx := context.Background()
	const items = 12
	// A refusal tells how long one of the limits needs, and the others recover meanwhile: so
	// a call is refused at most once for each limit, two partitions and three keys.
	const mostLimits = 5
	pk := StringKey("k")
	var wanted []ItemIdentity
	for i := range items {
		wanted = append(wanted, ItemIdentity{Key: pk, ID: fmt.Sprint(i)})
	}
	reads := func(tx *Tx) error {
		for i := range items {
			if _, err := tx.Read(fmt.Sprint(i)); err != nil {
				return err
			}
		}
		return nil
	}
	// Each call returns what it has cost.
	calls := map[string]func(c *Container) (float64, error){
		"update": func(c *Container) (charge float64, err error) {
			_, err = c.UpdateWith(ctx, pk, &UpdateOptions{Charge: &charge}, func(tx *Tx) error {
				if err := reads(tx); err != nil {
					return err
				}
				for _, err := range tx.Scan(IDRange{}, nil) {
					if err != nil {
						return err
					}
				}
				return tx.Upsert(documentOf("0", "k", 100), nil)
			})
			return charge, err
		},
		"view": func(c *Container) (charge float64, err error) {
			err = c.View(ctx, pk, func(tx *Tx) error {
				defer func() { charge += tx.Charge() }()
				return reads(tx)
			})
			return charge, err
		},
		"read many": func(c *Container) (charge float64, err error) {
			for r, err := range c.ReadMany(ctx, wanted) {
				if err != nil {
					return charge, err
				}
				charge += r.Charge
			}
			return charge, nil
		},
		"count": func(c *Container) (float64, error) {
			_, stats, err := c.CountStats(ctx, AllPartitions(), Eq("/k", "l"))
			return stats.Charge, err
		},
	}
	for name, text := range map[string]string{
		"query":         "SELECT * FROM c WHERE c.k IN ('k', 'l', 'm')",
		"ordered query": "SELECT * FROM c WHERE c.k IN ('k', 'l', 'm') ORDER BY c.x, c.id",
		"groups":        "SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k",
	} {
		q, err := ParseQuery(text, nil)
		must(t, err)
		calls[name] = func(c *Container) (float64, error) {
			r := c.Query(ctx, AllPartitions(), q)
			for _, err := range r.All() {
				if err != nil {
					return r.Stats().Charge, err
				}
			}
			return r.Stats().Charge, nil
		}
	}
	for _, perSecond := range []float64{1, 20} {
		for limited, def := range throttledContainers(perSecond) {
			for name, call := range calls {
				t.Run(fmt.Sprintf("%v RU/s/%s/%s", perSecond, limited, name), func(t *testing.T) {
					s := newMeteredStore(t, ContainerDef{Index: IndexAll(), MinPartitions: 2})
					for i := range items {
						for _, key := range []string{"k", "l", "m"} {
							if _, err := s.c.Upsert(ctx, documentOf(fmt.Sprint(i), key, 100), nil); err != nil {
								t.Fatal(err)
							}
						}
					}
					if def.Throughput > 0 {
						if err := s.c.SetThroughput(ctx, def.Throughput); err != nil {
							t.Fatal(err)
						}
					}
					if l := def.Limits.LogicalPartitionThroughput; l > 0 {
						if err := s.c.SetDefaultKeyLimits(ctx, KeyLimits{Throughput: l}); err != nil {
							t.Fatal(err)
						}
					}
					begun, spent, largest := s.db.uptime(), 0.0, 0.0
					for range 5 {
						refused := 0
						for {
							charge, err := call(s.c)
							spent, largest = spent+charge, max(largest, charge)
							if err == nil {
								break
							}
							throttled, ok := errors.AsType[*ThrottledError](err)
							if !ok {
								t.Fatal(err)
							}
							if charge != 0 {
								t.Fatalf("a call that was refused has cost %v RU", charge)
							}
							if refused++; refused > mostLimits {
								t.Fatalf("refused %d times", refused)
							}
							s.pass(throttled.RetryAfter)
						}
					}
					took := (s.db.uptime() - begun).Seconds()
					if most := perSecond*(took+1) + largest; limited != "logical" && spent > most+1e-3 || spent == 0 {
						t.Errorf("%v RU in %v s, at most %v", spent, took, most)
					}
				})
			}
		}
	}
}

// TestRerunAfterThrottlingOfSeveral: several callers update the same items of a container with
// little throughput, and wait as RetryAfter says. All of their transactions end, in the time
// that the throughput needs for them.
func TestRerunAfterThrottlingOfSeveral(t *testing.T) {
	for _, perSecond := range []float64{1, 20} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			db, err := Open(ctx, "mem", testOptions(vfs.NewMem()))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				if _, err := c.Upsert(ctx, documentOf(fmt.Sprint(i), "k", 100), nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.SetThroughput(ctx, perSecond); err != nil {
				t.Fatal(err)
			}
			const callers, each = 8, 5
			begun := time.Now()
			charges := make([]float64, callers)
			var group sync.WaitGroup
			for caller := range callers {
				group.Go(func() {
					for ended := 0; ended < each; {
						_, err := c.UpdateWith(ctx, StringKey("k"), &UpdateOptions{Charge: &charges[caller], Serializable: true}, func(tx *Tx) error {
							for i := range 4 {
								if _, err := tx.Read(fmt.Sprint(i)); err != nil {
									return err
								}
							}
							return tx.Upsert(documentOf(fmt.Sprint(caller%4), "k", 100), nil)
						})
						throttled, ok := errors.AsType[*ThrottledError](err)
						switch {
						case ok:
							time.Sleep(throttled.RetryAfter)
						case errors.Is(err, ErrConflict):
						case err != nil:
							t.Error(err)
							return
						default:
							ended++
						}
					}
				})
			}
			group.Wait()
			spent := 0.0
			for _, charge := range charges {
				spent += charge
			}
			for { // until what the last callers have overdrawn is paid for
				_, err := c.Read(ctx, StringKey("k"), "0")
				throttled, ok := errors.AsType[*ThrottledError](err)
				if !ok {
					must(t, err)
					break
				}
				time.Sleep(throttled.RetryAfter)
			}
			if had := time.Since(begun).Seconds() * perSecond; had < spent-1e-3 || had > spent+perSecond || spent < callers*each*9 {
				t.Errorf("%v RU/s: %v RU, and the throughput gave %v", perSecond, spent, had)
			}
		})
	}
}

// TestLongViewWaits: a transaction that reads much consumes no more than the limit: its reads
// wait, as the pages of a scan do.
func TestLongViewWaits(t *testing.T) {
	ctx := context.Background()
	s := newMeteredStore(t, ContainerDef{Throughput: 100, NoBurst: true})
	s.pass(time.Second)
	_, err := s.c.Upsert(ctx, documentOf("a", "k", 100), nil)
	must(t, err)
	s.pass(time.Second)
	begun := s.db.uptime()
	const reads = mostOverdrawn + 500
	must(t, s.c.View(ctx, StringKey("k"), func(tx *Tx) error {
		for range reads {
			if _, err := tx.Read("a"); err != nil {
				return err
			}
		}
		return nil
	}))
	if took := s.db.uptime() - begun; took < (reads-11)*10*time.Millisecond || took > reads*10*time.Millisecond {
		t.Errorf("%d RU at 100 RU/s in %v", reads, took)
	}
}

// TestCloseWhileThrottled: what waits for throughput ends when the store is closed.
func TestCloseWhileThrottled(t *testing.T) {
	ctx := context.Background()
	for name, wait := range map[string]func(c *Container) error{
		"feed": func(c *Container) error {
			for _, err := range c.Changes(ctx, AllPartitions(), ChangePosition{}, nil) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"load": func(c *Container) error {
			_, err := c.Load(ctx, func(yield func([]byte, error) bool) { yield(documentOf("b", "k", 100), nil) }, nil)
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, Throughput: 1})
			time.Sleep(time.Second)
			_, err := c.Upsert(ctx, documentOf("a", "k", 100<<10), nil)
			must(t, err)
			ended := make(chan error, 1)
			go func() { ended <- wait(c) }()
			synctest.Wait()
			begun := time.Now()
			must(t, db.Close())
			if err, took := <-ended, time.Since(begun); !errors.Is(err, ErrClosed) || took > 0 {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
}

// TestWaitsSeeChanges: what waits for throughput goes on soon after the limit that it waits for
// was raised or lifted.
func TestWaitsSeeChanges(t *testing.T) {
	for name, raise := range map[string]func(ctx context.Context, c *Container) error{
		"raised":     func(ctx context.Context, c *Container) error { return c.SetThroughput(ctx, 10_000) },
		"lifted":     func(ctx context.Context, c *Container) error { return c.SetThroughput(ctx, 0) },
		"of the key": func(ctx context.Context, c *Container) error { return c.SetKeyLimits(ctx, StringKey("k"), KeyLimits{}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			_, c := openStore(t, testOptions(vfs.NewMem()))
			if name == "of the key" {
				must(t, c.SetKeyLimits(t.Context(), StringKey("k"), KeyLimits{Throughput: 1}))
			} else {
				must(t, c.SetThroughput(t.Context(), 1))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			loaded := background(func() error {
				return second(c.Load(ctx, func(yield func([]byte, error) bool) {
					_ = yield(documentOf("1", "k", 1<<20), nil) && yield(doc("2", "k", 2), nil)
				}, nil))
			})
			time.Sleep(5 * time.Second)
			if _, err := c.Upsert(ctx, doc("3", "k", 3), nil); !errors.Is(err, ErrThrottled) {
				t.Fatalf("%s: nothing waits: %v", name, err)
			}
			must(t, raise(ctx, c))
			if err := <-loaded; err != nil {
				t.Errorf("%s: a load that waited: %v", name, err)
			}
		})
	}
}
