package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/replica/cluster"
)

type demoCommand struct {
	Dir        string        `help:"Directory for the cluster, which is kept. Default: a temporary one, which is removed." type:"path"`
	Partitions int           `help:"Physical partitions, each a Raft group." default:"8"`
	Writers    int           `help:"Clients that write." default:"32"`
	Size       int           `help:"Size of a document, in bytes." default:"300"`
	Rounds     int           `help:"How often a node is killed." default:"5"`
	All        int           `help:"How often all nodes are killed at once." default:"1"`
	Stop       int           `help:"How often a node is stopped for a while, so that it goes on afterwards with what it knew." default:"1"`
	StopTime   time.Duration `help:"For how long." default:"4s"`
	Pause      time.Duration `help:"How long clients write before and after each of these." default:"1s"`
	Planned    int           `help:"How often a node is ended by SIGTERM and started again." default:"1"`
	Grow       bool          `help:"In the end split a partition, and have a fourth node join that takes its share." default:"true" negatable:""`
	Profile    bool          `hidden:""`
}

// round is what has happened to a node.
type round struct {
	what   string
	node   uint64
	groups int             // that it led
	gap    time.Duration   // until all of them took writes again
	acks   int64           // of all groups, meanwhile and until it was back
	back   time.Duration   // until it was up to date and led its groups again
	moved  int             // replicas that it has got
	ended  time.Duration   // when the gap of a planned change ended, from its beginning
	pauses []time.Duration // of each group: the longest time between two of its writes,
	left   []time.Duration // of these until the node is started again,
	calm   []time.Duration // and for as long afterwards, without a change
}

// Run implements the command.
func (c *demoCommand) Run(ctx context.Context, e *environment) error {
	err := cmp.Or(atLeast("writers", c.Writers, 1), atLeast("size", c.Size, 0), atLeast("rounds", c.Rounds, 0), atLeast("all", c.All, 0), atLeast("stop", c.Stop, 0), atLeast("planned", c.Planned, 0))
	if err != nil {
		return err
	}
	dir, remove, err := trialDir(c.Dir)
	if err != nil {
		return err
	}
	defer remove()
	begun := time.Now()
	t, err := newTrial(ctx, dir, []cluster.Container{{Name: container, PartitionKey: []string{"/k"}, Partitions: c.Partitions}}, c.Profile, true)
	if err != nil {
		return err
	}
	defer t.close()
	fmt.Fprintf(e.stdout, "3 nodes, 3 processes with an etcd of 3 members, %d partitions with 3 replicas each: ready after %.1f s\n", c.Partitions, time.Since(begun).Seconds())
	w := startWriters(ctx, t.client, c.Writers, c.Size)
	defer w.end()
	time.Sleep(c.Pause)
	var rounds []round
	for i := range c.Rounds + c.Stop + c.All {
		r := round{what: killed, node: uint64(i%3 + 1)}
		switch {
		case i >= c.Rounds+c.Stop:
			r.what, r.node = killedAll, 0
		case i >= c.Rounds:
			r.what = stopped
		}
		if err = c.round(ctx, t, w, &r); err != nil {
			return errors.Join(err, w.end())
		}
		rounds = append(rounds, r)
		fmt.Fprintf(e.stderr, "%s node %d: gap %v, back after %v\n", r.what, r.node, r.gap.Round(time.Millisecond), r.back.Round(time.Millisecond))
	}
	for i := range c.Planned {
		r, failed := c.restart(ctx, t, w, uint64(i%3+1))
		if failed != nil {
			return errors.Join(failed, w.end())
		}
		rounds = append(rounds, r)
		fmt.Fprintf(e.stderr, "%s node %d: gap %v, which ended %v after the signal\n", planned, r.node, r.gap.Round(time.Millisecond), r.ended.Round(10*time.Millisecond))
	}
	if c.Grow {
		grown, failed := c.grow(ctx, t, w)
		if failed != nil {
			return errors.Join(failed, w.end())
		}
		rounds = append(rounds, grown...)
	}
	if err = w.end(); err != nil {
		return err
	}
	checked := time.Now()
	v, err := w.check(ctx)
	if err != nil {
		return err
	}
	printRounds(e, rounds)
	fmt.Fprintf(e.stdout, "\nwrites acknowledged  %d\noutcome unknown      %d\nreads meanwhile      %d\nthat were stale      %d\nread back            %d items in %.1f s\nlost                 %d\nnever written        %d\n",
		w.acks.Load(), v.unknown, v.reads, v.stale, v.checked, time.Since(checked).Seconds(), v.lost, v.wrong)
	for _, x := range v.examples[:min(len(v.examples), 10)] {
		fmt.Fprintln(e.stdout, " ", x)
	}
	if v.lost+v.wrong+v.stale > 0 {
		return fmt.Errorf("%d acknowledged writes are lost, %d items are wrong, %d reads were stale", v.lost, v.wrong, v.stale)
	}
	return nil
}

// What happens to nodes.
const (
	killed    = "kill -9"
	stopped   = "SIGSTOP"
	killedAll = "kill -9 of all"
	planned   = "SIGTERM"
)

// restart ends a node as an operator does, and starts it again. Twice its groups change their leader as it
// was planned. The gap is the longest one between two writes in a group.
func (c *demoCommand) restart(ctx context.Context, t *trial, w *writers, node uint64) (round, error) {
	r := round{what: planned, node: node}
	var groups []uint64
	for _, g := range t.d.Groups() {
		if g.Replicas[0] == node {
			groups = append(groups, g.ID)
		}
	}
	r.groups = len(groups)
	begun := time.Now()
	err := r.grow(w, groups, func() error {
		if err := t.signal(node, syscall.SIGTERM); err != nil {
			return err
		}
		time.Sleep(c.Pause)
		for _, id := range groups {
			left, _ := w.longest(id, begun)
			r.left = append(r.left, left)
		}
		return errors.Join(t.start(node), t.leads(ctx, node, groups))
	})
	begun = time.Now()
	time.Sleep(r.back)
	for _, id := range groups {
		calm, _ := w.longest(id, begun)
		r.calm = append(r.calm, calm)
	}
	return r, err
}

// round has something happen to a node, or to all, and waits until all is well again.
func (c *demoCommand) round(ctx context.Context, t *trial, w *writers, r *round) error {
	led := make(map[uint64][]uint64) // of each node that it happens to
	for _, g := range t.d.Groups() {
		if g.Replicas[0] == r.node || r.node == 0 {
			led[g.Replicas[0]] = append(led[g.Replicas[0]], g.ID)
			r.groups++
		}
	}
	// Not always at the same place of what the node does at intervals.
	time.Sleep(time.Duration(rand.Int64N(int64(200 * time.Millisecond))))
	before := w.acks.Load()
	begun := time.Now()
	signal := syscall.SIGKILL
	if r.what == stopped {
		signal = sigStop
	}
	if err := t.each(led, func(node uint64) error { return t.signal(node, signal) }); err != nil {
		return err
	}
	again := func(node uint64) error {
		if signal == sigStop {
			return t.signal(node, sigCont)
		}
		return t.start(node)
	}
	if r.what == killedAll {
		for node := range led {
			if err := again(node); err != nil {
				return err
			}
		}
	}
	if err := r.wait(ctx, w, led, begun); err != nil {
		return err
	}
	time.Sleep(c.Pause)
	if signal == sigStop {
		time.Sleep(time.Until(begun.Add(c.StopTime)))
	}
	up := begun
	if r.what != killedAll {
		up = time.Now()
		if err := again(r.node); err != nil {
			return err
		}
	}
	for node, groups := range led {
		if err := t.leads(ctx, node, groups); err != nil {
			return err
		}
	}
	r.back = time.Since(up)
	r.acks = w.acks.Load() - before
	time.Sleep(c.Pause)
	return nil
}

// each calls a function for nodes, at the same time.
func (t *trial) each(nodes map[uint64][]uint64, do func(node uint64) error) error {
	var tasks sync.WaitGroup
	errs := make([]error, len(t.d.Nodes)+1)
	for node := range nodes {
		tasks.Go(func() { errs[node] = do(node) })
	}
	tasks.Wait()
	return errors.Join(errs...)
}

// wait waits until all groups take writes again, and notes how long that took.
func (r *round) wait(ctx context.Context, w *writers, led map[uint64][]uint64, begun time.Time) error {
	for {
		first := w.firstAfter(begun)
		all := begun
		missing := 0
		for _, groups := range led {
			for _, id := range groups {
				at, found := first[id]
				if !found {
					missing++
				} else if at.After(all) {
					all = at
				}
			}
		}
		if missing == 0 {
			r.gap = all.Sub(begun)
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Since(begun) > time.Minute {
			return fmt.Errorf("%s of node %d: %d groups take no writes after a minute", r.what, r.node, missing)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// leads waits until a node leads groups, by what all nodes say.
func (t *trial) leads(ctx context.Context, node uint64, groups []uint64) error {
	missing := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := errors.Join(ctx.Err(), t.running()); err != nil {
			return err
		}
		missing = len(t.d.Nodes) * len(groups)
		for _, s := range statusOf(ctx, t.client, t.d) {
			if s.Status == nil {
				continue
			}
			for _, g := range s.Status.Groups {
				if g.Leader == node && slices.Contains(groups, g.ID) {
					missing--
				}
			}
		}
		if missing == 0 {
			return nil
		}
	}
	return fmt.Errorf("node %d is not back after a minute: %d replicas do not follow it", node, missing)
}

func printRounds(e *environment, rounds []round) {
	table := cli.NewTable("what", "node", "groups it led", "gap until all write again", "writes meanwhile", "back and leading after")
	gaps := make(map[string][]time.Duration)
	var pauses, left, calm []time.Duration // of groups whose leader has changed as it was planned
	for _, r := range rounds {
		node := fmt.Sprint(r.node)
		if r.node == 0 {
			node = ""
		}
		table.Row(r.what, node, fmt.Sprint(r.groups), r.gap.Round(time.Millisecond).String(), fmt.Sprint(r.acks), r.back.Round(10*time.Millisecond).String())
		gaps[r.what] = append(gaps[r.what], r.gap)
		if r.what == planned {
			pauses, left, calm = append(pauses, r.pauses...), append(left, r.left...), append(calm, r.calm...)
		}
	}
	table.Print(e.stdout, "")
	for _, r := range rounds {
		if r.what == joins {
			fmt.Fprintf(e.stdout, "node %d took %d replicas; for a split, SIGTERM and a node that joins the gap is the longest one between two writes in a group\n", r.node, r.moved)
		}
	}
	for _, what := range []string{killed, stopped, killedAll, planned} {
		if all := gaps[what]; len(all) > 0 {
			fmt.Fprintf(e.stdout, "%s: gap %s\n", what, summary(all))
		}
	}
	if len(pauses) > 0 {
		fmt.Fprintf(e.stdout, "%s: pause of a group, while the node hands over and ends, %s; until it leads again %s; for as long afterwards, without a change of the leader, %s\n",
			planned, summary(left), summary(pauses), summary(calm))
	}
}

// summary returns the median and the longest of some times.
func summary(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("p50 %v, max %v of %d", all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond), len(all))
}

// trialDir returns the directory of a trial, and what removes it.
func trialDir(given string) (dir string, remove func(), err error) {
	if given != "" {
		return given, func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pnode")
	return dir, func() { os.RemoveAll(dir) }, err
}
