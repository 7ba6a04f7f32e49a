package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/meta"
	"github.com/cleavestore/cleave/replica/placement"
	"github.com/cleavestore/cleave/replica/topology"
	"github.com/cleavestore/cleave/replica/transport"
)

// lookEvery is how often a command looks how far something has come.
const lookEvery = 500 * time.Millisecond

// storeTime bounds how long a command waits for an answer of the metadata store.
const storeTime = 5 * time.Second

// leaseTime is how long a drain waits for another node to be present, and how long a group stays held
// after a move has died.
const leaseTime = 10 * time.Second

// planTime is for how long a node that drains must have nothing: a plan that knows nothing of the drain yet is ordered within it.
const planTime = 4 * time.Second

// errNoMetadata says that a cluster has no metadata store.
var errNoMetadata = errors.New("the cluster has no metadata store, so nothing is planned in it")

// operator is what commands have that change a cluster.
type operator struct {
	d       *cluster.Cluster
	client  *client.Client
	store   *meta.Store
	way     access // to the store
	close   func()
	dropped map[uint64]bool // containers of which the metadata store, or a node, has said so
}

// newOperator connects to the cluster of a directory of init.
func newOperator(dir string, f *etcdFlags) (*operator, error) {
	cl, d, err := openClient(dir)
	if err != nil {
		return nil, err
	}
	o := &operator{d: d, client: cl, close: cl.Close, dropped: make(map[uint64]bool)}
	if d.Metadata == nil {
		return o, nil
	}
	creds, err := transport.LoadCredentials(filepath.Join(dir, clientDir))
	if err != nil {
		cl.Close()
		return nil, err
	}
	if o.way, err = accessMetadata(d.Metadata, creds, f); err != nil {
		cl.Close()
		return nil, err
	}
	etcd, err := o.way.connect()
	if err != nil {
		cl.Close()
		return nil, err
	}
	o.close = func() { cl.Close(); _ = etcd.Close() }
	o.store, err = meta.New(etcd, d.Metadata.Name)
	if err != nil {
		o.close()
		return nil, err
	}
	o.store.BeginAt(d.FirstID())
	return o, nil
}

// openPicture returns an operator, which the caller closes, and what the metadata store has.
func openPicture(ctx context.Context, dir string, f *etcdFlags) (o *operator, p meta.Picture, err error) {
	if o, err = newOperator(dir, f); err != nil {
		return nil, p, err
	}
	if p, err = o.picture(ctx); err != nil {
		o.close()
		return nil, p, err
	}
	return o, p, nil
}

// picture reads what the metadata store has.
func (o *operator) picture(ctx context.Context) (p meta.Picture, err error) {
	if o.store == nil {
		return p, errNoMetadata
	}
	each, cancel := context.WithTimeoutCause(ctx, storeTime, fmt.Errorf("the metadata store (%s) has not answered within %v: do its members run?", where(o.d.Metadata), storeTime))
	defer cancel()
	if p, err = o.store.Picture(each); err != nil && each.Err() != nil {
		err = context.Cause(each)
		if trouble := o.way.trouble(ctx); trouble != nil {
			err = fmt.Errorf("%w\n%w", err, trouble)
		}
	}
	for _, d := range p.Dropped {
		o.dropped[d.Number] = true
	}
	return p, err
}

// hear takes in which containers were dropped, by what nodes say.
func (o *operator) hear(all []nodeStatus) {
	for _, s := range all {
		if s.Status != nil {
			for _, number := range s.Status.Dropped {
				o.dropped[number] = true
			}
		}
	}
}

// present returns the description of the cluster without the containers that were dropped, as far as the
// operator has heard.
func (o *operator) present() *cluster.Cluster {
	return o.d.Without(slices.Collect(maps.Keys(o.dropped))...)
}

// startTime is how long commands wait for the leases of nodes that have just started.
const startTime = 30 * time.Second

// usable returns the nodes of a region that hold a lease and are not drained. If they are fewer
// than least, it waits until they are enough, at most startTime.
func (o *operator) usable(ctx context.Context, region string, least int) (nodes []uint64, _ error) {
	for until := time.Now().Add(startTime); ; {
		p, err := o.picture(ctx)
		if err != nil {
			return nil, err
		}
		nodes = nodes[:0]
		for _, n := range p.Nodes {
			if n.Region == region && !p.Draining[n.ID] {
				nodes = append(nodes, uint64(n.ID))
			}
		}
		if len(nodes) >= least || time.Now().After(until) {
			slices.Sort(nodes)
			return nodes, nil
		}
		if err = wait(ctx); err != nil {
			return nil, err
		}
	}
}

// where says where the metadata store is.
func where(m *cluster.Metadata) string {
	at := slices.Clone(m.Endpoints)
	for _, o := range m.Members {
		at = append(at, o.Client)
	}
	return strings.Join(at, ", ")
}

type containerCommand struct {
	Dir       string   `arg:"" help:"Directory that init has made."`
	Container string   `arg:"" help:"The container: name:partition key path:partitions."`
	Readers   []string `help:"Regions in which it has readers: replicas that do not vote." placeholder:"REGION"`
	Index     string   `help:"Index policy, as JSON, or the word all for an index of all paths. Without the flag no path is indexed." placeholder:"POLICY"`
	TTL       int64    `name:"ttl" help:"Seconds that items live after their last write that do not say it; -1: for ever. 0: no item expires."`
	Unique    []string `help:"A unique key: one path, or several paths with commas between them. The flag may be given several times." placeholder:"PATHS" sep:"none"`
	etcdFlags
}

// Run implements the command.
func (c *containerCommand) Run(ctx context.Context, e *environment) error {
	t, err := parseContainer(c.Container)
	if err != nil {
		return cli.Usage(err)
	}
	t.Regions, t.DefaultTTL = c.Readers, c.TTL
	for _, paths := range c.Unique {
		t.UniqueKeys = append(t.UniqueKeys, jsondoc.SplitPaths(paths))
	}
	if t.Index, err = parseIndex(c.Index); err != nil {
		return cli.Usage(err)
	}
	o, p, err := openPicture(ctx, c.Dir, &c.etcdFlags)
	if err != nil {
		return err
	}
	defer o.close()
	var regions []string
	for _, n := range o.d.All() {
		regions = append(regions, n.Region)
	}
	for _, n := range p.Nodes { // it may have joined since the description was written
		regions = append(regions, n.Region)
	}
	if err = checkReaders(c.Readers, regions); err != nil {
		return cli.Usage(err)
	}
	if slices.ContainsFunc(p.Dropped, func(d meta.Dropped) bool { return d.Name == t.Name && !d.Released }) {
		return fmt.Errorf("container %q is being dropped, and its name stays taken until then. What that waits for is shown by: pnode drop %s %s --yes", t.Name, c.Dir, t.Name)
	}
	if o.present().Container(t.Name) != nil {
		return fmt.Errorf("container %q is in %s", t.Name, descriptionName)
	}
	region := o.d.MainRegion()
	t.Replicas = o.voters()
	if t.Nodes, err = o.usable(ctx, region, t.Replicas); err != nil {
		return err
	}
	if len(t.Nodes) < t.Replicas {
		return fmt.Errorf("container %q is to have %d replicas, and %d nodes of region %q hold a lease", t.Name, t.Replicas, len(t.Nodes), region)
	}
	if _, err = o.present().With(t); err != nil {
		return err
	}
	if t, err = o.store.CreateContainer(ctx, t); err != nil {
		return err
	}
	n := 0
	begun := func(err error) error {
		return &unfinished{fmt.Sprintf("container %q is made; %d of its %d groups have told of a leader", t.Name, n, t.Partitions), err}
	}
	for {
		p, err := o.picture(ctx)
		if err != nil {
			return begun(err)
		}
		n = 0
		for _, g := range p.Groups {
			if g.ID.Number() == t.Number {
				n++
			}
		}
		if n >= t.Partitions {
			fmt.Fprintf(e.stdout, "container %q has %d groups on the nodes %v\n", t.Name, n, t.Nodes)
			return nil
		}
		if err = wait(ctx); err != nil {
			return begun(err)
		}
	}
}

// voters is how many replicas of a group vote.
func (o *operator) voters() int {
	if o.d.Replicas != 0 {
		return o.d.Replicas
	}
	return min(3, len(o.d.Nodes))
}

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(lookEvery):
		return nil
	}
}

type drainCommand struct {
	Dir  string `arg:"" help:"Directory that init has made."`
	Node uint64 `arg:"" help:"Node that is to lose its replicas."`
	Undo bool   `help:"The node is to have replicas again."`
	etcdFlags
}

// Run implements the command.
func (c *drainCommand) Run(ctx context.Context, e *environment) error {
	o, p, err := openPicture(ctx, c.Dir, &c.etcdFlags)
	if err != nil {
		return err
	}
	defer o.close()
	node := topology.NodeID(c.Node)
	if !slices.ContainsFunc(p.Nodes, func(n meta.Node) bool { return n.ID == node }) && o.d.Node(c.Node) == nil {
		return fmt.Errorf("there is no node %d", c.Node)
	}
	if c.Undo {
		if err = o.store.Drain(ctx, node, false); err == nil {
			fmt.Fprintf(e.stdout, "node %d may have replicas\n", c.Node)
		}
		return err
	}
	// A node that was just added may be about to take its lease.
	for end := time.Now().Add(leaseTime); ; {
		others, least := o.others(&p, node)
		if others >= least {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("node %d cannot be drained: %d other nodes of its region hold a lease and are not drained, and a group has %d replicas there. Add a node first: pnode add %s ADDRESS", c.Node, others, least, c.Dir)
		}
		if err = wait(ctx); err != nil {
			return err
		}
		if p, err = o.picture(ctx); err != nil {
			return err
		}
	}
	if err = o.store.Drain(ctx, node, true); err != nil {
		return err
	}
	before, last, seen := -1, "", time.Now()
	for {
		o.client.RefreshAll(ctx)
		if p, err = o.picture(ctx); err != nil {
			return c.goesOn(err)
		}
		left := remaining(node, o.client.Descriptors(), &p)
		before = max(before, len(left))
		if len(left) > 0 {
			seen = time.Now()
		} else if time.Since(seen) >= planTime {
			fmt.Fprintf(e.stdout, "node %d has no replicas. It stays so until: pnode drain %s %d --undo\n", c.Node, c.Dir, c.Node)
			return nil
		}
		moving := slices.DeleteFunc(slices.Clone(left), func(s string) bool { return !strings.Contains(s, "goes") })
		if line := fmt.Sprintf("node %d: %d of %d replicas remain. %s", c.Node, len(left), before, strings.Join(moving, ", ")); len(left) > 0 && line != last {
			fmt.Fprintln(e.stdout, line)
			last = line
		}
		if err = wait(ctx); err != nil {
			return c.goesOn(err)
		}
	}
}

func (c *drainCommand) goesOn(err error) error {
	return &unfinished{fmt.Sprintf("the drain goes on, until pnode drain %s %d --undo", c.Dir, c.Node), err}
}

// remaining returns what a node has, and what it is to get by a step that was planned before the node was drained.
func remaining(node topology.NodeID, told []*topology.Group, p *meta.Picture) (left []string) {
	on := groupsOn(node, told, p.Groups)
	for _, g := range on {
		text := fmt.Sprint("group ", g.ID)
		if in, moving := g.Moving(); moving {
			text += fmt.Sprintf(" goes to node %d", in.Node)
		}
		left = append(left, text)
	}
	for _, s := range p.Steps {
		comes := s.Kind == placement.Add || s.Kind == placement.Reader
		if comes && s.Node == node && !slices.ContainsFunc(on, func(g *topology.Group) bool { return g.ID == s.Group }) {
			left = append(left, fmt.Sprintf("group %d is about to come", s.Group))
		}
	}
	return left
}

// groupsOn returns the groups that have a replica on a node, in the order of their ids, by the newest description of each: what nodes
// have told, or what the metadata store has, which knows also those that no node tells of which answers.
func groupsOn(node topology.NodeID, told, stored []*topology.Group) (on []*topology.Group) {
	newest := make(map[topology.GroupID]*topology.Group)
	for _, g := range slices.Concat(told, stored) {
		if known := newest[g.ID]; known == nil || known.Epoch < g.Epoch {
			newest[g.ID] = g
		}
	}
	for _, id := range slices.Sorted(maps.Keys(newest)) {
		if _, has := newest[id].On(node); has {
			on = append(on, newest[id])
		}
	}
	return on
}

// others counts the nodes of a node's region that could have its replicas, and how many that have to be: as many as a group has
// voters, or one where a group has but a reader.
func (o *operator) others(p *meta.Picture, node topology.NodeID) (others, least int) {
	region := ""
	if n := o.d.Node(uint64(node)); n != nil {
		region = n.Region
	}
	for _, n := range p.Nodes { // it may have joined since the description was written
		if n.ID == node {
			region = n.Region
		}
	}
	for _, n := range p.Nodes {
		if n.ID != node && !p.Draining[n.ID] && n.Region == region {
			others++
		}
	}
	if region != o.d.MainRegion() {
		return others, 1
	}
	return others, o.voters()
}

type moveCommand struct {
	Dir   string `arg:"" help:"Directory that init has made."`
	Group uint64 `arg:"" help:"Group, as status shows it."`
	From  uint64 `arg:"" help:"Node that has a replica."`
	To    uint64 `arg:"" help:"Node that is to have it."`
	etcdFlags
}

// Run implements the command.
func (c *moveCommand) Run(ctx context.Context, e *environment) error {
	o, err := newOperator(c.Dir, &c.etcdFlags)
	if err != nil {
		return err
	}
	defer o.close()
	if err = c.check(ctx, o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o.store != nil {
		hold, failed := o.hold(ctx, e, c.Group, c.To)
		if failed != nil {
			return failed
		}
		defer func() {
			last, end := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
			defer end()
			_ = hold.Release(last) // it ends with its lease
		}()
		go func() {
			<-hold.Lost()
			cancel(fmt.Errorf("the metadata store (%s) has not answered for %v, and the planner may move the group: run the command again, which completes the move", where(o.d.Metadata), leaseTime))
		}()
		// Until now the planner may have moved the group. A move from a node without a replica would add one.
		if err = c.check(ctx, o); err != nil {
			return err
		}
	}
	moved := make(chan error, 1)
	go func() { moved <- o.client.Move(ctx, c.Group, c.From, c.To) }()
	last := ""
	for {
		select {
		case err = <-moved:
			switch {
			case errors.Is(err, context.Canceled):
				return &unfinished{fmt.Sprintf("the move of group %d may be half done, and the same command completes it", c.Group), err}
			case err != nil:
				return err
			}
			fmt.Fprintf(e.stdout, "group %d is on node %d, and not on node %d\n", c.Group, c.To, c.From)
			return nil
		case <-time.After(lookEvery):
		}
		line := o.progress(ctx, c.Group, c.To)
		if line != last {
			fmt.Fprintln(e.stdout, line)
			last = line
		}
	}
}

// check returns why the group cannot be moved so.
func (c *moveCommand) check(ctx context.Context, o *operator) error {
	o.client.RefreshAll(ctx)
	g := o.client.Descriptor(c.Group)
	if g == nil {
		return fmt.Errorf("no node that answers has group %d", c.Group)
	}
	return c.allowed(g)
}

// allowed is check of a group that is known.
func (c *moveCommand) allowed(g *topology.Group) error {
	if r, on := g.On(topology.NodeID(c.From)); !on {
		return fmt.Errorf("group %d has no replica on node %d", c.Group, c.From)
	} else if r.Role == topology.Learner {
		return fmt.Errorf("the replica of group %d on node %d is a reader, and a move is one of a voter. The planner gives the region another reader if the node drains: pnode drain %s %d", c.Group, c.From, c.Dir, c.From)
	}
	if r, on := g.On(topology.NodeID(c.To)); on && r.Role != topology.Incoming {
		return fmt.Errorf("group %d has a replica on node %d already", c.Group, c.To)
	}
	return nil
}

// hold takes a group out of the planner's hands, so that both do not change it at once. It waits
// while the planner changes the group.
func (o *operator) hold(ctx context.Context, e *environment, group, to uint64) (*meta.Hold, error) {
	p, err := o.picture(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(p.Nodes, func(n meta.Node) bool { return uint64(n.ID) == to }) {
		return nil, fmt.Errorf("node %d holds no lease: does it run?", to)
	}
	other := func() (uint64, *topology.Group) { // the node that gets a replica meanwhile
		o.client.RefreshAll(ctx)
		g := o.client.Descriptor(group)
		if g == nil {
			return 0, nil
		}
		if in, moving := g.Moving(); moving && uint64(in.Node) != to {
			return uint64(in.Node), g
		}
		return 0, g
	}
	last := ""
	for {
		why := ""
		if node, g := other(); g == nil {
			return nil, fmt.Errorf("no node that answers has group %d", group)
		} else if node != 0 {
			why = fmt.Sprintf("group %d: waits until node %d has its replica", group, node)
		} else {
			hold, refused := o.store.Hold(ctx, topology.GroupID(group), g.Epoch, leaseTime)
			switch {
			case errors.Is(refused, meta.ErrHeld):
				why = fmt.Sprint("waits: ", refused)
			case refused != nil:
				return nil, refused
			default:
				if node, _ = other(); node == 0 {
					return hold, nil
				}
				if err = hold.Release(ctx); err != nil {
					return nil, err
				}
			}
		}
		if why != "" && why != last {
			fmt.Fprintln(e.stdout, why)
			last = why
		}
		if err = wait(ctx); err != nil {
			return nil, err
		}
	}
}

// progress says how far the replica of a group has come that a node gets.
func (o *operator) progress(ctx context.Context, group, to uint64) string {
	for _, s := range statusOf(ctx, o.client, o.d) {
		if s.Status == nil {
			continue
		}
		for _, g := range s.Status.Groups {
			if g.ID != group || !g.Leads {
				continue
			}
			switch {
			case g.Incoming == to && g.Lacks != nil:
				return fmt.Sprintf("group %d: node %d lacks %d entries", group, to, *g.Lacks)
			case g.Incoming == to:
				return fmt.Sprintf("group %d: node %d gets a snapshot of %d bytes", group, to, g.Bytes)
			case slices.Contains(g.Replicas, to):
				return fmt.Sprintf("group %d: the replica on node %d votes", group, to)
			}
		}
	}
	return fmt.Sprintf("group %d: node %d is asked", group, to)
}
