package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
)

// TestChanges: the command shows each item once, from the start and from a position of before a split and the death of a node, and
// refuses what is no position.
func TestChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "cluster")
	one, err := newTrial(ctx, dir, []cluster.Container{{Name: "orders", PartitionKey: []string{"/tenant"}, Partitions: 2}}, false, false)
	must(t, err)
	defer one.close()
	made := 0
	write := func(n int) {
		t.Helper()
		for range n {
			made++
			tenant := fmt.Sprint("t", made%10)
			_, err := one.client.Upsert(ctx, "orders", engine.StringKey(tenant), fmt.Appendf(nil, `{"id":"o%d","tenant":%q,"n":%d}`, made, tenant, made))
			must(t, err)
		}
	}
	at, next := "start", make(map[string]int) // of each tenant, the newest that was shown
	shown := 0
	show := func(args ...string) {
		t.Helper()
		out := command(t, append([]string{"changes", dir, "orders", "--from", at}, args...)...)
		for line := range strings.Lines(out) {
			var l struct {
				changeLine
				positionLine
			}
			must(t, json.Unmarshal([]byte(line), &l))
			if l.Position != "" {
				at = l.Position
				continue
			}
			var doc struct {
				ID, Tenant string
				N          int
			}
			must(t, json.Unmarshal(l.Item, &doc))
			if doc.ID != l.ID || doc.N <= next[doc.Tenant] || l.Seq == 0 {
				t.Errorf("behind item %d: %s", next[doc.Tenant], line)
			}
			next[doc.Tenant] = doc.N
			shown++
		}
		if shown != made {
			t.Errorf("%d of %d items were shown", shown, made)
		}
	}
	write(100)
	show()
	write(10)
	show()
	show()
	g := one.d.Groups()[0]
	must(t, one.client.Split(ctx, g.ID, g.ID|1<<20))
	write(50)
	must(t, one.signal(one.d.Nodes[0].ID, syscall.SIGKILL))
	delete(one.nodes, one.d.Nodes[0].ID)
	write(20)
	show()
	if status, _, errs := run(t, "changes", dir, "orders", "--from", "somewhere"); status != 1 || !strings.Contains(errs, "no position of a feed") {
		t.Errorf("no position: status %d, %s", status, errs)
	}
	if status, _, errs := run(t, "changes", dir, "none"); status != 1 || !strings.Contains(errs, engine.ErrNoContainer.Error()) {
		t.Errorf("no container: status %d, %s", status, errs)
	}
}
