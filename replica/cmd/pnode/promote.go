package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
)

type promoteCommand struct {
	Dir    string `arg:"" help:"Directory that init has made."`
	Region string `help:"Region whose readers are to become voters, after the region of the voters was lost for good." required:"" placeholder:"REGION"`
	Yes    bool   `help:"Do it. Without this flag the command shows what can be missing and changes nothing."`
}

// errVoters says that a region is not lost.
var errVoters = errors.New("nodes with voters answer, so their region is not lost")

// Run implements the command.
func (c *promoteCommand) Run(ctx context.Context, e *environment) error {
	cl, d, err := openClient(c.Dir)
	if err != nil {
		return err
	}
	defer cl.Close()
	if !slices.ContainsFunc(d.All(), func(n cluster.Node) bool { return n.Region == c.Region }) {
		return cli.Usage(fmt.Errorf("no node is in region %q", c.Region))
	}
	p := newPromotion(d, c.Region)
	all := statusOf(ctx, cl, d)
	for _, s := range all {
		if s.Status != nil {
			p.dropped = append(p.dropped, s.Status.Dropped...)
		}
	}
	for _, s := range all {
		if err = p.hear(&s); err != nil {
			return err
		}
	}
	next, err := p.next()
	if err != nil {
		return err
	}
	p.show(e.stdout)
	if !c.Yes {
		fmt.Fprintf(e.stdout, "Nothing was changed. See to it that the nodes %v do not run and cannot be started: while they run, their clients can write there, and those writes are lost. Then: pnode promote %s --region %s --yes\n", next.Promotion.Lost, c.Dir, c.Region)
		return nil
	}
	if err = replaceDescription(c.Dir, d.Incarnation, next); err != nil {
		return err
	}
	p.tellNext(e.stdout, c.Dir)
	return nil
}

// promotion finds out what a region has.
type promotion struct {
	d      *cluster.Cluster
	region string
	best   map[uint64]*remnant          // by group
	voters map[uint64]bool              // nodes that the readers know as those of voters
	answer map[uint64]bool              // nodes that have answered
	heard  map[uint64][]uint64          // numbers of dropped containers of which a node has heard, by node
	made   map[string]cluster.Container // or changed, while the cluster ran
	// dropped are the numbers of containers of which a node knows that they were dropped.
	dropped []uint64
	lost    []uint64 // nodes that must not come back
	without []string // containers of which the region has nothing
}

func newPromotion(d *cluster.Cluster, region string) *promotion {
	return &promotion{
		d: d, region: region, best: make(map[uint64]*remnant), voters: make(map[uint64]bool),
		answer: make(map[uint64]bool), heard: make(map[uint64][]uint64), made: make(map[string]cluster.Container),
	}
}

// hear takes in what a node says, or that it does not.
func (p *promotion) hear(s *nodeStatus) error {
	if s.Status == nil {
		return nil
	}
	p.answer[s.Node] = true
	p.heard[s.Node] = s.Status.Dropped
	for _, t := range s.Status.Containers {
		if slices.Contains(p.dropped, t.Number) {
			continue
		}
		if known, found := p.made[t.Name]; found && known.Number != t.Number {
			return fmt.Errorf("container %q has number %d on one node and %d on node %d", t.Name, known.Number, t.Number, s.Node)
		}
		if newer(&t, p.made) {
			p.made[t.Name] = t
		}
	}
	n := p.d.Node(s.Node)
	for _, g := range s.Status.Groups {
		for _, node := range g.Replicas {
			p.voters[node] = true
		}
		if slices.Contains(p.dropped, g.ID>>32) {
			continue
		}
		if n == nil || n.Region != p.region || g.Applied == 0 || g.Error != "" {
			continue
		}
		if before := p.best[g.ID]; before == nil || more(&g, &before.GroupStatus) {
			p.best[g.ID] = &remnant{g, s.Node}
		}
	}
	return nil
}

// more reports whether a replica has more of a group than another one, as Raft judges logs: then it has
// all that the other one knows was committed.
func more(a, b *host.GroupStatus) bool {
	return cmp.Or(cmp.Compare(a.LastTerm, b.LastTerm), cmp.Compare(a.Applied+a.Behind, b.Applied+b.Behind), cmp.Compare(a.Applied, b.Applied)) > 0
}

// next returns the description of the next incarnation. Errors: errVoters; others if the region does not
// have each key once.
func (p *promotion) next() (*cluster.Cluster, error) {
	b, err := json.Marshal(p.d)
	if err != nil {
		return nil, err
	}
	d, err := cluster.Decode(b) // a copy
	if err != nil {
		return nil, err
	}
	if len(p.best) == 0 {
		return nil, fmt.Errorf("no node of region %q that answers has a group", p.region)
	}
	gone := make(map[string]bool) // regions
	for node := range p.voters {
		n := d.Node(node)
		if n == nil {
			return nil, fmt.Errorf("node %d has voters and is not in %s", node, descriptionName)
		}
		if n.Region == p.region {
			return nil, fmt.Errorf("node %d of region %q has voters: the region has the groups, and there is nothing to promote", node, p.region)
		}
		gone[n.Region] = true
	}
	d.Incarnation++
	d.Promotion = &cluster.Promotion{Region: p.region}
	for _, some := range [][]cluster.Node{d.Nodes, d.Joined} {
		for i := range some {
			n := &some[i]
			if !gone[n.Region] {
				continue
			}
			if p.answer[n.ID] {
				return nil, fmt.Errorf("node %d of region %q: %w. End all nodes of the region if it is to be given up", n.ID, n.Region, errVoters)
			}
			n.Gone = true
			d.Promotion.Lost = append(d.Promotion.Lost, n.ID)
		}
	}
	slices.Sort(d.Promotion.Lost)
	p.lost = d.Promotion.Lost
	var later []cluster.Container
	for _, name := range slices.Sorted(maps.Keys(p.made)) {
		later = append(later, p.made[name])
	}
	if err = p.rename(d); err != nil {
		return nil, err
	}
	d.Containers = newest(d, later)
	// A container that was dropped stays in the description: a node that has not heard of the drop still has it.
	has := backup{}
	has.Containers, p.without = readIn(p.region, d.Without(p.dropped...).Containers, p.best)
	for i := range d.Containers {
		t := &d.Containers[i]
		t.Regions = slices.DeleteFunc(t.Regions, func(r string) bool { return r == p.region || gone[r] })
	}
	for _, id := range slices.Sorted(maps.Keys(p.best)) {
		r := p.best[id]
		d.Promotion.Groups = append(d.Promotion.Groups, cluster.Promoted{ID: id, Replica: r.Replica})
		has.Groups = append(has.Groups, backupGroup{Container: r.Container, Min: r.Min, Max: r.Max})
	}
	slices.SortFunc(has.Groups, func(x, y backupGroup) int { return compareGroups(&x, &y) })
	if err = has.whole(); err != nil {
		return nil, fmt.Errorf("the nodes of region %q that answer do not have each key once: %w", p.region, err)
	}
	return d, p.moveMetadata(d)
}

// rename gives the containers that have taken the names of dropped ones of the description the places of these there. Nodes that
// come later know only the description, and the others keep their places, and so the ids of their groups. A node that has not heard of
// the drop has the old container under the name, and would take what it has for the new one.
func (p *promotion) rename(d *cluster.Cluster) error {
	for i := range d.Containers {
		t, taken := p.made[d.Containers[i].Name]
		before := d.NumberOf(d.Containers[i].Name)
		if !taken || t.Number == before || !slices.Contains(p.dropped, before) {
			continue
		}
		for _, node := range slices.Sorted(maps.Keys(p.answer)) {
			if !slices.Contains(p.heard[node], before) {
				return fmt.Errorf("container %q was dropped and made again, and node %d has not heard of that. End the node and promote again; then put another one in its place: pnode add DIR --replaces %d", t.Name, node, node)
			}
		}
		d.Containers[i] = t
	}
	return nil
}

// moveMetadata gives the next incarnation a metadata store: an etcd within nodes of the region, or other
// keys in the etcd that exists. Nodes fill it with the map.
func (p *promotion) moveMetadata(d *cluster.Cluster) (err error) {
	switch {
	case d.Metadata == nil:
	case len(d.Metadata.Members) == 0:
		d.Metadata.Name = fmt.Sprint(d.Metadata.Name, "-", d.Incarnation)
	default:
		var nodes []cluster.Node
		for _, n := range d.All() {
			if n.Region == p.region && p.answer[n.ID] {
				nodes = append(nodes, n)
			}
		}
		d.Metadata.Members, err = membersOf(nodes)
	}
	return err
}

// show says what can be missing.
func (p *promotion) show(w io.Writer) {
	oldest, unknown := 0.0, 0
	for _, id := range slices.Sorted(maps.Keys(p.best)) {
		r := p.best[id]
		newest := "not known: none was applied since the node has started"
		if !r.Newest.IsZero() {
			newest = r.Newest.Format(time.RFC3339Nano)
		}
		fmt.Fprintf(w, "group %d of %s: node %d has it up to entry %d, the newest of %s. %d later entries of its log are kept, of which it does not know that they were committed. It has not heard of the leader for %.1f s. %s\n",
			r.ID, r.Container, r.node, r.Applied, newest, r.Behind, r.Silent, r.missing())
		if r.Confirmed == nil {
			unknown++
		} else {
			oldest = max(oldest, upward(*r.Confirmed))
		}
	}
	lost := fmt.Sprintf("What was acknowledged in the last %.1f s can be missing", oldest)
	if unknown > 0 {
		lost += fmt.Sprintf(", and of %d groups it is not known how much", unknown)
	}
	fmt.Fprintf(w, "%d groups can go on in region %q, each with one voter at first. %s. The nodes %v are given up\n",
		len(p.best), p.region, lost, p.lost)
	if len(p.without) > 0 {
		fmt.Fprintln(w, noReaders(p.region, p.without)+": that is lost. They stay until they are dropped, by pnode drop")
	}
}

// tellNext says what is to be done with the new description.
func (p *promotion) tellNext(w io.Writer, dir string) {
	first := make(map[uint64]bool)
	for _, r := range p.best {
		first[r.node] = true
	}
	fmt.Fprintf(w, "%s describes incarnation %d now. Give it to all nodes that are left, and to the clients. Then end these nodes and start them again; each makes its readers voters when it starts:\n", filepath.Join(dir, descriptionName), p.d.Incarnation+1)
	for _, id := range slices.Sorted(maps.Keys(first)) {
		fmt.Fprintf(w, "pnode serve %s\n", nodeDir(dir, id))
	}
	for _, n := range p.d.All() {
		if !first[n.ID] && !slices.Contains(p.lost, n.ID) {
			fmt.Fprintf(w, "and when those serve: pnode serve %s (its replicas go, and it gets new ones)\n", nodeDir(dir, n.ID))
		}
	}
}

// replaceDescription puts a description in the place of another one, which is kept.
func replaceDescription(dir string, before uint64, d *cluster.Cluster) error {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	if _, err = cluster.Decode(b); err != nil {
		return err
	}
	fs, err := vfs.OpenRoot(dir)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(filepath.Join(dir, descriptionName))
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		b    []byte
	}{{fmt.Sprintf("cluster-%d.json", before), old}, {descriptionName, append(b, '\n')}} {
		if err = vfs.WriteFileAtomic(fs, f.name+".tmp", f.name, f.b); err != nil {
			return err
		}
	}
	return nil
}
