package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/protocol"
)

// TestRenew: certificates are renewed while a cluster runs, whose nodes then restart one after the other.
// Nodes with old and renewed ones work together, and so do clients. (Package transport tests that what
// has expired is refused, and accepted when it is renewed.)
func TestRenew(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	c, err := newTrial(ctx, filepath.Join(t.TempDir(), "cluster"), []cluster.Container{{Name: "items", PartitionKey: []string{"/k"}, Partitions: 1}}, false, false)
	must(t, err)
	defer c.close()
	out := command(t, "renew", c.dir)
	if n := strings.Count(out, "has new ca.pem and cert.pem"); n != 4 {
		t.Fatal(out)
	}
	key := engine.StringKey("a")
	for node := uint64(1); node <= 3; node++ {
		must(t, c.signal(node, syscall.SIGTERM))
		must(t, c.start(node))
		must(t, c.ready(ctx, time.Minute))
		_, err = c.client.Upsert(ctx, "items", key, fmt.Appendf(nil, `{"id":"i%d","k":"a"}`, node)) // with the old certificate
		must(t, err)
	}
	renewed, _, err := openClient(c.dir)
	must(t, err)
	defer renewed.Close()
	for node := 1; node <= 3; node++ {
		_, err = renewed.Read(ctx, protocol.Strong, "items", key, fmt.Sprint("i", node))
		must(t, err)
	}
}
