package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/outputfile"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/topology"
)

// A backup of a cluster is a directory with backup.json and a file for each group, which has what
// engine.Container.ExportPartition writes. backup.json is written last, so a directory without it is
// no backup.
const (
	backupName   = "backup.json"
	backupFormat = 1
)

// backup is what backup.json has.
type backup struct {
	Format     int                 `json:"format"`
	Containers []cluster.Container `json:"containers"`
	Groups     []backupGroup       `json:"groups"`
}

type backupGroup struct {
	ID        uint64 `json:"id"`
	Container string `json:"container"`
	Min       string `json:"min"` // effective partition keys
	Max       string `json:"max"`
	Epoch     uint64 `json:"epoch"`
	Index     uint64 `json:"index"` // newest entry that it has
	File      string `json:"file"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
}

type backupCommand struct {
	Dir    string        `arg:"" help:"Directory that init has made."`
	Target string        `arg:"" help:"Directory to be made."`
	Wait   time.Duration `help:"How long nodes are waited for that have just started, until all groups are known." default:"30s"`
	Region string        `help:"Take what replicas in this region have, and ask no leader: for when the main region is lost. It shows what can be missing." placeholder:"REGION"`
	etcdFlags
}

// Run implements the command.
func (c *backupCommand) Run(ctx context.Context, e *environment) (err error) {
	if err = outputfile.OutsideStores(c.Target); err != nil {
		return err
	}
	o, err := newOperator(c.Dir, &c.etcdFlags)
	if err != nil {
		return err
	}
	defer o.close()
	if err = os.Mkdir(c.Target, 0o700); err != nil {
		return err
	}
	// Without backup.json the files are of no use, and the command can be repeated with the same name.
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(c.Target))
		}
	}()
	b := backup{Format: backupFormat}
	if o.store != nil && c.Region == "" {
		p, failed := o.picture(ctx)
		if failed != nil {
			return fmt.Errorf("containers that were made while the cluster ran are not known: %w", failed)
		}
		b.Containers = p.Containers
	}
	done := make(map[topology.GroupID]backupGroup)
	rest, made := o.remnants(ctx, c.Region)
	for _, name := range slices.Sorted(maps.Keys(made)) {
		b.Containers = append(b.Containers, made[name])
	}
	b.Containers = newest(o.present(), b.Containers)
	if c.Region != "" {
		var without []string
		if b.Containers, without = readIn(c.Region, b.Containers, rest); len(b.Containers) == 0 {
			return fmt.Errorf("no node of region %q that answers has a group", c.Region)
		} else if len(without) > 0 {
			fmt.Fprintln(e.stdout, noReaders(c.Region, without)+". They are not in the backup")
		}
	}
	known := b.numbers(o.present())
	// Until no group has split or moved since it was exported, and all are known: a node that has just
	// started does not tell of its groups yet, and one answer may come long before the others.
	for until := time.Now().Add(c.Wait); ; {
		again := false
		o.client.Refresh(ctx)
		for _, g := range o.client.Descriptors() {
			if g.Epoch == 0 || done[g.ID].Epoch == g.Epoch { // 0: only the description tells of it
				continue
			}
			if !known[g.ID.Number()] { // of a container that was made meanwhile, or was dropped
				continue
			}
			again = true
			var last *remnant
			if c.Region != "" {
				if last = rest[g.ID]; last == nil {
					return fmt.Errorf("no node of region %q that answers has group %d of %s", c.Region, g.ID, g.Container)
				}
				fmt.Fprintln(e.stdout, last)
			}
			out, failed := o.export(ctx, c.Target, g, last)
			if failed != nil {
				return failed
			}
			done[g.ID] = out
			fmt.Fprintf(e.stdout, "group %d of %s up to entry %d: %s\n", out.ID, out.Container, out.Index, humanize.Bytes(uint64(out.Bytes)))
		}
		if again {
			continue
		}
		b.Groups = slices.SortedFunc(maps.Values(done), func(x, y backupGroup) int { return compareGroups(&x, &y) })
		if err = b.whole(); err == nil {
			break
		}
		if time.Now().After(until) {
			return fmt.Errorf("no node that answers has told of some groups, so there is no backup: %w%s", err, o.silent(ctx))
		}
		if err = wait(ctx); err != nil {
			return err
		}
	}
	content, err := json.MarshalIndent(&b, "", "  ")
	if err != nil {
		return err
	}
	fs, err := vfs.OpenRoot(c.Target)
	if err != nil {
		return err
	}
	// It makes the names of all files durable too.
	if err = vfs.WriteFileAtomic(fs, backupName+".tmp", backupName, append(content, '\n')); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "%s: %d groups of %d containers\n", c.Target, len(b.Groups), len(b.Containers))
	return nil
}

// silent says which nodes do not answer; empty: all do.
func (o *operator) silent(ctx context.Context) (out string) {
	for _, s := range statusOf(ctx, o.client, o.d) {
		if s.Status == nil {
			out += fmt.Sprintf("\nnode %d does not answer: %s", s.Node, s.Error)
		}
	}
	return out
}

// remnant is the replica of a region that has most of a group.
type remnant struct {
	host.GroupStatus
	node uint64
}

// String says what can be missing.
func (r *remnant) String() string {
	return fmt.Sprintf("group %d of %s: node %d has it up to entry %d. There are %d later entries that the node has, of which it does not know that they were committed. It has not heard of the leader for %.1f s. %s",
		r.ID, r.Container, r.node, r.Applied, r.Behind, r.Silent, r.missing())
}

// missing says what can be missing. While the replica heard of its leader it may have lacked more than
// it knew, for instance since it waited for a snapshot.
func (r *remnant) missing() string {
	if r.Confirmed == nil {
		return "How much can be missing is not known: since the node has started, no quorum has confirmed that it has everything"
	}
	return fmt.Sprintf("Missing can be what was acknowledged in the last %.1f s", upward(*r.Confirmed))
}

// upward rounds seconds up to tenths.
func upward(s float64) float64 { return math.Ceil(s*10) / 10 }

// remnants returns for each group the replica in a region that has most of it, and the containers that
// were made while the cluster ran.
func (o *operator) remnants(ctx context.Context, region string) (map[topology.GroupID]*remnant, map[string]cluster.Container) {
	out, made := make(map[topology.GroupID]*remnant), make(map[string]cluster.Container)
	if region == "" {
		return out, made
	}
	all := statusOf(ctx, o.client, o.d)
	o.hear(all)
	for _, s := range all {
		if n := o.d.Node(s.Node); s.Status == nil || n == nil || n.Region != region {
			continue
		}
		for _, t := range s.Status.Containers {
			if !o.dropped[t.Number] && newer(&t, made) {
				made[t.Name] = t
			}
		}
		for _, g := range s.Status.Groups {
			id := topology.GroupID(g.ID)
			if o.dropped[id.Number()] {
				continue
			}
			if out[id] == nil || out[id].Applied < g.Applied {
				out[id] = &remnant{g, s.Node}
			}
		}
	}
	return out, made
}

// readIn divides containers into those of which a region is to have readers, or has a replica, and the names of the others. What these
// have is nowhere in the region, and it keeps nobody from what is.
func readIn[ID topology.GroupID | uint64](region string, all []cluster.Container, replicas map[ID]*remnant) (read []cluster.Container, without []string) {
	here := make(map[string]bool)
	for _, r := range replicas {
		here[r.Container] = true
	}
	for _, t := range all {
		if here[t.Name] || slices.Contains(t.Regions, region) {
			read = append(read, t)
		} else {
			without = append(without, t.Name)
		}
	}
	return read, without
}

func noReaders(region string, containers []string) string {
	return fmt.Sprintf("Region %q has no readers of the containers %q, and nothing of what they have", region, containers)
}

// export writes the content of a group to a file: what a remnant has, unless that is nil.
func (o *operator) export(ctx context.Context, dir string, g *topology.Group, last *remnant) (out backupGroup, err error) {
	out = backupGroup{ID: uint64(g.ID), Container: g.Container, File: fmt.Sprint("group-", g.ID)}
	sum := sha256.New()
	var size counter
	err = writeSynced(filepath.Join(dir, out.File), func(w io.Writer) error {
		described, index, failed := g, uint64(0), error(nil)
		if all := io.MultiWriter(w, sum, &size); last == nil {
			described, index, failed = o.client.Export(ctx, out.ID, all)
		} else {
			index, failed = o.client.ExportAlone(ctx, last.node, out.ID, all)
		}
		if failed == nil {
			out.Index, out.Epoch = index, described.Epoch
			out.Min, out.Max = described.Range.Min.String(), described.Range.Max.String()
		}
		return failed
	})
	out.Bytes, out.SHA256 = int64(size), hex.EncodeToString(sum.Sum(nil))
	return out, err
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func writeSynced(name string, fill func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err = fill(f); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// newest returns the containers of a description, in the newest definition of each, and then others that were made later.
func newest(d *cluster.Cluster, later []cluster.Container) []cluster.Container {
	out := slices.Clone(d.Containers)
	for _, t := range later {
		at := slices.IndexFunc(out, func(o cluster.Container) bool { return o.Name == t.Name })
		if at < 0 {
			out = append(out, t)
		} else if known := &out[at]; cmp.Or(known.Number, d.NumberOf(t.Name)) == t.Number {
			known.Renew(&t)
		}
	}
	return out
}

// newer reports whether a definition is newer than the one of its name that is known: numbers are never given again, and of one
// container each change of the definition has a higher revision.
func newer(t *cluster.Container, made map[string]cluster.Container) bool {
	known := made[t.Name]
	return cmp.Or(cmp.Compare(t.Number, known.Number), cmp.Compare(t.Revision, known.Revision)) > 0
}

// numbers returns the numbers of the containers of the backup.
func (b *backup) numbers(d *cluster.Cluster) map[uint64]bool {
	out := make(map[uint64]bool, len(b.Containers))
	for _, t := range b.Containers {
		out[cmp.Or(t.Number, d.NumberOf(t.Name))] = true
	}
	return out
}

func compareGroups(x, y *backupGroup) int {
	switch {
	case x.Container != y.Container && x.Container < y.Container, x.Container == y.Container && x.Min < y.Min:
		return -1
	case x.Container == y.Container && x.Min == y.Min:
		return 0
	}
	return 1
}

// whole returns an error unless the groups of each container cover all keys once, and each group is of a container.
func (b *backup) whole() error {
	for _, g := range b.Groups {
		if !slices.ContainsFunc(b.Containers, func(t cluster.Container) bool { return t.Name == g.Container }) {
			return fmt.Errorf("group %d is of container %q, of which there is no definition", g.ID, g.Container)
		}
	}
	for _, t := range b.Containers {
		end := partmap.MinEPK().String()
		for _, g := range b.Groups {
			if g.Container == t.Name {
				if g.Min != end {
					return fmt.Errorf("container %q: no group has the keys from %q to %q", t.Name, end, g.Min)
				}
				end = g.Max
			}
		}
		if end != partmap.MaxEPK().String() {
			return fmt.Errorf("container %q: no group has the keys from %q to the end", t.Name, end)
		}
	}
	return nil
}
