package host_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
)

// digests returns the entry and the digest of each node's partitions of a container that has one group.
func digests(t *testing.T, r *host.Rig, container string, nodes ...uint64) map[string][]uint64 {
	t.Helper()
	out := make(map[string][]uint64)
	for _, id := range nodes {
		c, err := r.Node(id).DB().Container(container)
		must(t, err)
		for _, p := range c.Partitions() {
			if p.Absent {
				continue
			}
			index, sum, err := c.DigestPartition(context.Background(), p.ID)
			must(t, err)
			at := fmt.Sprintf("%s to %s at entry %d: %x", p.Min, p.Max, index, sum)
			out[at] = append(out[at], id)
		}
	}
	return out
}

// agree waits until the nodes have the same entries, and fails if their digests differ then.
func agree(t *testing.T, r *host.Rig, container string, nodes ...uint64) {
	t.Helper()
	var last map[string][]uint64
	for range 100 {
		if last = digests(t, r, container, nodes...); len(last) == 1 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("the nodes differ: %v", last)
}

// stored returns how many items of the container "notes" the files and memtables of a node have.
func stored(t *testing.T, r *host.Rig, node uint64) (n int) {
	t.Helper()
	c, err := r.Node(node).DB().Container("notes")
	must(t, err)
	for _, p := range c.Partitions() {
		if !p.Absent {
			n += int(p.Items)
		}
	}
	return n
}

// found returns what a read finds: "there", "gone", or an error.
func found(c *client.Client, level protocol.Level, container, id string) string {
	switch _, err := c.Read(within(30*time.Second), level, container, engine.StringKey("a"), id); {
	case err == nil:
		return "there"
	case errors.Is(err, engine.ErrNotFound):
		return "gone"
	default:
		return err.Error()
	}
}

// TestDefaultTTL: items expire by the default of their container and by their own time. What has expired is gone at every replica,
// also when the leader is killed and the next one has a clock that is behind, and when one node has compacted its files and
// the others have not. The id is free then, on all replicas alike.
func TestDefaultTTL(t *testing.T) {
	for seconds, want := range map[int64]map[string]string{
		0:                {"plain": "there", "own": "there", "ever": "there"},
		cluster.NoExpiry: {"plain": "there", "own": "gone", "ever": "there"},
		20:               {"plain": "gone", "own": "gone", "ever": "there"},
	} {
		t.Run(fmt.Sprint(seconds), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { expires(t, seconds, want) })
		})
	}
}

func expires(t *testing.T, seconds int64, want map[string]string) {
	r, c := open(t, 1)
	for id := uint64(1); id <= 3; id++ { // the second and the third node are behind
		r.Kill(id)
		r.SetClock(id, -time.Duration(id-1)*8*time.Second)
		must(t, r.Start(id))
	}
	notes := cluster.Container{Name: "notes", PartitionKey: []string{"/k"}, Partitions: 1, Number: cluster.FirstNumber, Nodes: []uint64{1, 2, 3}, DefaultTTL: seconds}
	for id := uint64(1); id <= 3; id++ {
		must(t, r.Node(id).AddContainer(t.Context(), notes))
	}
	group := notes.Number<<32 | 1
	r.Until("the first node leads", func() bool { leads, _ := r.Node(1).Leads(group); return leads })
	write := func(id, rest string) {
		t.Helper()
		_, err := c.Upsert(within(20*time.Second), "notes", engine.StringKey("a"), fmt.Appendf(nil, `{"id":%q,"k":"a"%s}`, id, rest))
		must(t, err)
	}
	write("plain", "")
	write("own", `,"ttl":15`)
	write("ever", `,"ttl":-1`)
	for id := range want {
		if got := found(c, protocol.Strong, "notes", id); got != "there" {
			t.Errorf("%s at first: %s", id, got)
		}
	}
	time.Sleep(25 * time.Second)
	check := func(when string, level protocol.Level) {
		t.Helper()
		for id, is := range want {
			if got := found(c, level, "notes", id); got != is {
				t.Errorf("%s, level %v: %s is %s, want %s", when, level, id, got, is)
			}
		}
	}
	check("after its time", protocol.Strong)
	check("after its time", protocol.Session)
	agree(t, r, "notes", 1, 2, 3)
	must(t, r.Node(2).DB().Compact(t.Context()))
	there := 0
	for _, is := range want {
		if is == "there" {
			there++
		}
	}
	if has, others := stored(t, r, 2), stored(t, r, 3); has != there || others != len(want) {
		t.Errorf("the node that has compacted its files has %d items, another one %d", has, others)
	}
	agree(t, r, "notes", 1, 2, 3)
	r.Kill(1)
	check("the leader is killed", protocol.Strong)
	write("late", "")
	check("the leader is killed", protocol.Strong)
	r.Kill(5 - r.Leading(group).Node()) // the follower of the two
	must(t, r.Start(1))
	check("one was down and leads maybe", protocol.Strong)
	for id := uint64(2); id <= 3; id++ {
		if r.Node(id) == nil {
			must(t, r.Start(id))
		}
	}
	check("all are back", protocol.Strong)
	agree(t, r, "notes", 1, 2, 3)
	for id, is := range want {
		_, err := c.Batch(within(20*time.Second), "notes", engine.StringKey("a"), create(id))
		if is == "gone" && err != nil || is != "gone" && !errors.Is(err, engine.ErrExists) {
			t.Errorf("%s is made again: %v", id, err)
		}
	}
	agree(t, r, "notes", 1, 2, 3)
	c.Close()
	r.Close()
}

func create(id string) command.Operation {
	return command.Operation{Kind: command.Create, Body: fmt.Appendf(nil, `{"id":%q,"k":"a"}`, id)}
}
