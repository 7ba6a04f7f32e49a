package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
)

// reshapes is how many splits and merges the test makes while clients work.
const reshapes = 20

// phase is how long clients work before partitions change, and while they do. 0: until they
// have made a number of calls.
var phase = flag.Duration("phase", 0, "how long clients of the tests of splits work before partitions change, and while they do")

// latencies are the durations of calls of a kind, before partitions changed and while they
// did.
type latencies struct {
	mu     sync.Mutex
	during bool
	calls  [2][]time.Duration
}

func (l *latencies) add(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := 0
	if l.during {
		at = 1
	}
	l.calls[at] = append(l.calls[at], took)
}

// change begins the time in which partitions change.
func (l *latencies) change() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.during = true
}

// String has the median and p99 of both times.
func (l *latencies) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var p [2][2]time.Duration
	for at, all := range l.calls {
		slices.Sort(all)
		if n := len(all); n > 0 {
			p[at] = [2]time.Duration{all[n/2], all[n*99/100]}
		}
	}
	return fmt.Sprintf("p50 %v before and %v while partitions changed, p99 %v and %v (%.2f x)", p[0][0].Round(time.Microsecond), p[1][0].Round(time.Microsecond),
		p[0][1].Round(time.Microsecond), p[1][1].Round(time.Microsecond), float64(p[1][1])/float64(max(p[0][1], 1)))
}

// start serves a store, and returns a client of a container of it with the container of
// the store beneath.
func start(t *testing.T) (*azcosmos.ContainerClient, *engine.Container) {
	t.Helper()
	db, err := engine.Open(t.Context(), t.TempDir(), &engine.Options{Durability: engine.Buffered})
	if err != nil {
		t.Fatal(err)
	}
	h, err := gateway.New(t.Context(), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	key, err := azcosmos.NewKeyCredential(gateway.EmulatorKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(server.URL, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "d"}, nil); err != nil {
		t.Fatal(err)
	}
	d, err := client.NewDatabase("d")
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.CreateContainer(t.Context(), azcosmos.ContainerProperties{
		ID: "c", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.NewContainer("c")
	if err != nil {
		t.Fatal(err)
	}
	under, err := db.Container("d.c")
	if err != nil {
		t.Fatal(err)
	}
	return c, under
}

// document is an item of the test.
type document struct {
	ID string `json:"id"`
	PK string `json:"pk"`
	N  int    `json:"n"`
}

// TestSplitsUnderAzcosmos: while physical partitions split and merge, clients write, read,
// query, read many items and follow the change feed. No call fails beyond what azcosmos
// itself repeats, and nothing is lost, doubled in an answer or invented.
func TestSplitsUnderAzcosmos(t *testing.T) {
	c, under := start(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const writers, readers = 4, 4
	var work, feed sync.WaitGroup
	var written sync.Map // id: the newest n that was acknowledged
	var calls, count atomic.Int64
	var upserts, reads latencies
	called := make(chan struct{}, 1)
	check := func(what string, err error) bool {
		calls.Add(1)
		select {
		case called <- struct{}{}:
		default: // it has been told of one already
		}
		if err != nil && ctx.Err() == nil {
			var answer *azcore.ResponseError
			errors.As(err, &answer)
			t.Errorf("%s: %v", what, err)
		}
		return err == nil
	}
	for w := range writers {
		work.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				d := document{ID: fmt.Sprintf("%d-%d", w, i%500), PK: fmt.Sprint(i % 97), N: i}
				d.ID += "-" + d.PK
				text, _ := json.Marshal(&d)
				begun := time.Now()
				_, err := c.UpsertItem(ctx, azcosmos.NewPartitionKeyString(d.PK), text, nil)
				upserts.add(time.Since(begun))
				if check("upsert", err) {
					if _, was := written.Swap(d.ID, d); !was {
						count.Add(1)
					}
				}
			}
		})
	}
	some := func() (out []document) {
		written.Range(func(_, v any) bool {
			out = append(out, v.(document))
			return len(out) < 50
		})
		rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out
	}
	for r := range readers {
		work.Go(func() {
			for ctx.Err() == nil {
				known := some()
				if len(known) < 5 {
					continue
				}
				switch r {
				case 0:
					d := known[0]
					begun := time.Now()
					answer, err := c.ReadItem(ctx, azcosmos.NewPartitionKeyString(d.PK), d.ID, nil)
					reads.add(time.Since(begun))
					if check("read", err) {
						var got document
						if err := json.Unmarshal(answer.Value, &got); err != nil || got.N < d.N {
							t.Errorf("read %+v, %+v was acknowledged before: %v", got, d, err)
						}
					}
				case 1:
					identities := make([]azcosmos.ItemIdentity, len(known))
					for i, d := range known {
						identities[i] = azcosmos.ItemIdentity{ID: d.ID, PartitionKey: azcosmos.NewPartitionKeyString(d.PK)}
					}
					answer, err := c.ReadManyItems(ctx, identities, nil)
					// azcosmos answers a call whose context has ended with no items and no error.
					if check("read many", err) && ctx.Err() == nil && len(answer.Items) != len(known) {
						t.Errorf("read many: %d of %d items", len(answer.Items), len(known))
					}
				case 2:
					before := count.Load()
					got := map[string]int{}
					pages := c.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{PageSizeHint: 200})
					whole := true
					for pages.More() {
						page, err := pages.NextPage(ctx)
						if whole = check("query", err); !whole {
							break
						}
						for _, text := range page.Items {
							var d document
							if err := json.Unmarshal(text, &d); err != nil {
								t.Error(err)
							}
							got[d.ID]++
						}
					}
					for id, times := range got {
						if times > 1 {
							t.Errorf("query: %s came %d times", id, times)
						}
					}
					if whole && int64(len(got)) < before {
						t.Errorf("query: %d items, %d were there before", len(got), before)
					}
				case 3:
					d := known[0]
					pages := c.NewQueryItemsPager("SELECT * FROM c ORDER BY c.n", azcosmos.NewPartitionKeyString(d.PK), nil)
					last, found := -1, false
					for pages.More() {
						page, err := pages.NextPage(ctx)
						if !check("ordered query", err) {
							found = true
							break
						}
						for _, text := range page.Items {
							var got document
							if err := json.Unmarshal(text, &got); err != nil || got.N < last || got.PK != d.PK {
								t.Errorf("ordered query of %s: %+v after %d: %v", d.PK, got, last, err)
							}
							last, found = got.N, found || got.ID == d.ID
						}
					}
					if !found && last < 0 {
						t.Errorf("ordered query: nothing of %+v", d)
					}
				}
			}
		})
	}
	// The feed goes on when the writers have stopped, until there is nothing new.
	shown := map[string]document{}
	quiet := make(chan struct{})
	feed.Go(func() {
		at := (*string)(nil)
		for {
			stopped := false
			select {
			case <-quiet:
				stopped = true
			default:
			}
			answer, err := c.ReadChangeFeed(t.Context(), &azcosmos.ChangeFeedOptions{
				FeedRange: &azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}, MaxItemCount: 100, Continuation: at,
			})
			calls.Add(1)
			select {
			case called <- struct{}{}:
			default: // it has been told of one already
			}
			if err != nil {
				t.Errorf("change feed: %v", err)
				return
			}
			for _, text := range answer.Items {
				var d document
				if err := json.Unmarshal(text, &d); err != nil {
					t.Error(err)
				}
				if d.N < shown[d.ID].N {
					t.Errorf("change feed: %+v after %+v", d, shown[d.ID])
				}
				shown[d.ID] = d
			}
			if answer.Count == 0 && stopped {
				return
			}
			next := answer.ContinuationToken
			at = &next
		}
	})

	// wait lets clients work for a part of a phase.
	wait := func(part int64) {
		if *phase > 0 {
			time.Sleep(*phase * time.Duration(part) / reshapes)
			return
		}
		for until := calls.Load() + 200*part; calls.Load() < until && !t.Failed(); {
			<-called
		}
	}
	wait(reshapes)
	upserts.change()
	reads.change()
	for i := range reshapes {
		if err := reshape(ctx, under, i); err != nil {
			t.Fatal(err)
		}
		wait(1) // with the new partitions
	}
	stop()
	work.Wait()
	close(quiet)
	feed.Wait()
	written.Range(func(id, v any) bool {
		if d := v.(document); shown[d.ID].N < d.N {
			t.Errorf("the change feed has shown %+v of %+v", shown[d.ID], d)
		}
		return true
	})
	t.Logf("%d calls, %d items, %d physical partitions after %d splits and merges", calls.Load(), count.Load(), len(under.Partitions()), reshapes)
	t.Logf("upserts: %v", &upserts)
	t.Logf("point reads: %v", &reads)
}

// reshape splits a physical partition, or merges two: the n-th change of its kind.
func reshape(ctx context.Context, c *engine.Container, n int) error {
	parts := c.Partitions()
	var job *engine.ReshapeJob
	var err error
	if n%3 == 2 && len(parts) > 2 {
		at := rand.IntN(len(parts) - 1)
		job, err = c.Merge(ctx, parts[at].ID, parts[at+1].ID)
	} else {
		job, err = c.Split(ctx, slices.MaxFunc(parts, func(a, b engine.PartitionStats) int { return cmp.Compare(a.Items, b.Items) }).ID, nil)
	}
	if err != nil {
		return err
	}
	// A partition that is one logical partition cannot be split: the next change may be.
	if err = job.Wait(ctx); errors.Is(err, engine.ErrRefused) {
		return nil
	}
	return err
}
