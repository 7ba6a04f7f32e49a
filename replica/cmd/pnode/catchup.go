package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

const (
	// fillNoise is how many random bytes a document has that is written while a node is down.
	fillNoise = 12 << 10
	// nearEntries is how many entries a replica lacks at most that has caught up: while clients write
	// it always lacks some.
	nearEntries = 64
	// catchUpTime bounds how long a node may take to catch up.
	catchUpTime = 10 * time.Minute
)

// catchUp measures clients that write while a node catches up that was down, and before that.
func (c *benchCommand) catchUp(ctx context.Context, e *environment, t *trial) error {
	const down = 3 // a node
	table := cli.NewTable("while", "for", "puts per second", "p50", "p99", "CPU of the nodes, each")
	do := c.putter(t)
	phase := func(what string, until func(context.Context) error) (figure, error) {
		f, err := measure(ctx, t, c.Clients, c.Rate, until, do)
		if err != nil {
			return f, fmt.Errorf("%s: %w", what, err)
		}
		table.Row(what, f.took.Round(10*time.Millisecond).String(), f.rate(), f.p50.Round(time.Microsecond).String(), f.p99.Round(time.Microsecond).String(), f.each(f.nodes))
		return f, nil
	}
	before, err := phase("all nodes are there", c.passes)
	if err != nil {
		return err
	}
	if err = t.signal(down, syscall.SIGTERM); err != nil {
		return err
	}
	delete(t.nodes, down) // so that nobody takes its end for a failure
	written, err := c.fill(ctx, t)
	if err != nil {
		return err
	}
	if _, err = phase("a node is down", c.passes); err != nil {
		return err
	}
	if err = t.start(down); err != nil {
		return err
	}
	during, err := phase("the node catches up", func(ctx context.Context) error { return t.caughtUp(ctx, down) })
	if err != nil {
		return err
	}
	if _, err = phase("all nodes are there again", c.passes); err != nil {
		return err
	}
	if err = t.running(); err != nil {
		return err
	}
	t.close()
	snapshots := 0
	for _, p := range t.nodes {
		snapshots += bytes.Count(p.log.Bytes(), []byte("a snapshot was sent"))
	}
	table.Print(e.stdout, "")
	fmt.Fprintf(e.stdout, "node %d lacked %s in %d groups and caught up after %.1f s, with %d snapshots; p99 was %.1f times that of before\n",
		down, humanize.Bytes(written), c.Partitions, during.took.Seconds(), snapshots, float64(during.p99)/float64(max(before.p99, 1)))
	return nil
}

// fill writes documents that compress little, until they have as many bytes as the node that is down is to
// lack, and returns how many these are.
func (c *benchCommand) fill(ctx context.Context, t *trial) (int64, error) {
	var written atomic.Int64
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	enough := make(chan struct{}, 1)
	keys := benchKeys()
	_, err := measure(ctx, t, c.Clients, 0, func(ctx context.Context) error {
		select {
		case <-enough:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, func(ctx context.Context, worker, n int) (err error) {
		defer func() {
			if err != nil || written.Load() >= int64(c.CatchUp) {
				select {
				case enough <- struct{}{}:
				default:
				}
			}
		}()
		random := rand.NewChaCha8([32]byte(binary.LittleEndian.AppendUint64(make([]byte, 24), uint64(worker)<<32|uint64(n))))
		key := keys[(worker*31+n)%len(keys)]
		noise := make([]byte, fillNoise)
		random.Read(noise) // never fails
		body := fmt.Appendf(nil, `{"id":"f%d-%d","k":%q,"pad":"%s"}`, worker, n, key, base64.StdEncoding.EncodeToString(noise))
		_, err = t.client.Upsert(ctx, container, engine.StringKey(key), body)
		if err = acknowledged(err); err == nil {
			written.Add(int64(len(body)))
		}
		return err
	})
	return written.Load(), err
}

// caughtUp waits until a node has all but the newest entries of each group.
func (t *trial) caughtUp(ctx context.Context, node uint64) error {
	missing := ""
	for end := time.Now().Add(catchUpTime); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := errors.Join(ctx.Err(), t.running()); err != nil {
			return err
		}
		if missing = t.lacking(ctx, node); missing == "" {
			return nil
		}
	}
	return fmt.Errorf("node %d has not caught up after %v: %s", node, catchUpTime, missing)
}

// lacking says what a node lacks, empty if only the newest entries.
func (t *trial) lacking(ctx context.Context, node uint64) string {
	newest, has := make(map[uint64]uint64), make(map[uint64]uint64) // entries of groups
	for _, s := range statusOf(ctx, t.client, t.d) {
		if s.Status == nil {
			return fmt.Sprintf("node %d: %s", s.Node, s.Error)
		}
		for _, g := range s.Status.Groups {
			newest[g.ID] = max(newest[g.ID], g.Applied)
			if s.Node == node {
				has[g.ID] = g.Applied
			}
		}
	}
	for id, n := range newest {
		if has[id]+nearEntries < n {
			return fmt.Sprintf("group %d: entry %d of %d", id, has[id], n)
		}
	}
	return ""
}
