package host_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
)

// TestUniqueKeys: of clients that write the same value at the same time one has it, and the others are told who. That is so on all
// replicas, also after a split, a move and a failover, and when the item that had the value is deleted or has expired.
func TestUniqueKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		users := cluster.Container{
			Name: "users", PartitionKey: []string{"/k"}, Partitions: 1, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3},
			UniqueKeys: [][]string{{"/mail"}}, DefaultTTL: cluster.NoExpiry,
		}
		for id := uint64(1); id <= 3; id++ {
			must(t, r.Node(id).AddContainer(t.Context(), users))
		}
		put := func(key, id, mail, rest string) error {
			_, err := c.Upsert(within(30*time.Second), "users", engine.StringKey(key), fmt.Appendf(nil, `{"id":%q,"k":%q,"mail":%q%s}`, id, key, mail, rest))
			return err
		}
		taken := func(when string, err error, id, holder string) {
			t.Helper()
			var of *engine.UniqueKeyError
			if !errors.Is(err, engine.ErrUniqueKey) || !errors.As(err, &of) || of.ID != id || of.Holder != holder {
				t.Errorf("%s: %v", when, err)
			}
		}
		// race has ten items want a value at once, and returns the one that has it.
		race := func(key, mail string) (winner string) {
			t.Helper()
			errs := make([]error, 10)
			var tasks sync.WaitGroup
			for i := range errs {
				tasks.Go(func() { errs[i] = put(key, fmt.Sprint(mail, i), mail, "") })
			}
			tasks.Wait()
			for i, err := range errs {
				if err == nil && winner == "" {
					winner = fmt.Sprint(mail, i)
				} else if !errors.Is(err, engine.ErrUniqueKey) {
					t.Errorf("%d: %v, and %q has the value", i, err, winner)
				}
			}
			return winner
		}
		keys := make([]string, 8)
		winners := make(map[string]string)
		for i := range keys {
			keys[i] = fmt.Sprint("key", i)
			winners[keys[i]] = race(keys[i], "a")
			must(t, put(keys[i], "short", "s", `,"ttl":10`))
			taken("in time", put(keys[i], "long", "s", ""), "long", "short")
		}
		agree(t, r, "users", 1, 2, 3)
		_, err := c.Batch(within(30*time.Second), "users", engine.StringKey(keys[0]),
			command.Operation{Kind: command.Create, Body: fmt.Appendf(nil, `{"id":"one","k":%q,"mail":"free"}`, keys[0])},
			command.Operation{Kind: command.Create, Body: fmt.Appendf(nil, `{"id":"two","k":%q,"mail":"a"}`, keys[0])})
		taken("a batch", err, "two", winners[keys[0]])
		if _, err = c.Read(within(time.Second), protocol.Strong, "users", engine.StringKey(keys[0]), "one"); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("a part of a batch that was refused: %v", err)
		}
		must(t, r.Split(users.Number<<32|1, users.Number<<32|100))
		must(t, r.Start(4))
		must(t, r.Node(4).AddContainer(t.Context(), users))
		r.Move(users.Number<<32|100, 3, 4)
		time.Sleep(12 * time.Second)
		must(t, r.Node(1).DB().Compact(t.Context())) // the others keep what has expired
		r.Kill(r.Leading(users.Number<<32 | 1).Node())
		for _, k := range keys {
			taken("after a failover", put(k, "new", "a", ""), "new", winners[k])
			must(t, put(k, "long", "s", "")) // that of an item which has expired
			taken("taken over", put(k, "short", "s", ""), "short", "long")
			_, err = c.Batch(within(30*time.Second), "users", engine.StringKey(k), command.Operation{Kind: command.Delete, ID: winners[k]})
			must(t, err)
			must(t, put(k, "new", "a", ""))
			race(k, "b")
		}
		for id := uint64(1); id <= 4; id++ {
			if r.Node(id) == nil {
				must(t, r.Start(id))
			}
		}
		r.Until("all replicas agree", func() bool { return len(digests(t, r, "users", 1, 2, 3, 4)) == 2 })
		other := users
		other.UniqueKeys = nil
		if err = r.Node(1).AddContainer(t.Context(), other); !errors.Is(err, host.ErrChange) {
			t.Errorf("without unique keys: %v", err)
		}
		c.Close()
		r.Close()
	})
}
