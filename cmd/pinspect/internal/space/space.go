// Package space is the command that says what takes the space of a store: what is live,
// what a compaction would give back, and what keeps it from doing so.
package space

import (
	"context"
	"slices"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

// Command is the command.
type Command struct {
	Dir  string `arg:"" help:"Directory of the store."`
	JSON bool   `name:"json" help:"Print JSON: one object."`
}

// Help returns the long help text.
func (*Command) Help() string {
	return `Says what takes the space of a store. Of each container: its documents, the bytes of its files, and estimates of what in them is dead: overwritten, deleted and expired versions ("dead"), and parts of files that another physical partition has after a split ("foreign": a compaction gives them back once no other partition has them). Then what is not of a container: replaced files that are there yet, the log, manifests. Last what holds dead versions back: settings of containers. Snapshots and other readers of a running process are in its Stats, its metrics and on its console.

Dead space is given back by compactions as the store is written to; pinspect compact does it at once.

Examples:
  pinspect space DIR
  pinspect space DIR --json | jq .reclaimable_bytes`
}

// Report is what the command prints.
type Report struct {
	command.Header
	Disk        layout.Space    `json:"disk_bytes"`
	Obsolete    int64           `json:"obsolete_bytes"`    // of files that compactions have replaced and that are there yet
	Reclaimable int64           `json:"reclaimable_bytes"` // an estimate: dead and obsolete, and of shared files what no partition has
	Containers  []Container     `json:"containers"`
	Holders     []engine.Holder `json:"holders,omitempty"` // what keeps dead versions
}

// Container is the space of a container.
type Container struct {
	Name     string `json:"name"`
	Versions int64  `json:"versions"`      // documents, older versions and tombstones in files
	Dead     int64  `json:"dead_versions"` // that a compaction would drop; an estimate
	RawBytes int64  `json:"raw_bytes"`
	Files    int64  `json:"file_bytes"`
	DeadPart int64  `json:"dead_bytes"`    // of file_bytes; an estimate
	Foreign  int64  `json:"foreign_bytes"` // of files that several partitions share, outside of the bounds of one of them
}

// Run runs the command.
func (c *Command) Run(ctx context.Context, env *command.Environment) error {
	f, err := layout.Open(c.Dir)
	if err != nil {
		return err
	}
	defer f.Close()
	l, err := f.ReadLayout(ctx, layout.Properties, nil)
	if err != nil {
		return err
	}
	db, err := engine.Open(ctx, c.Dir, &engine.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	report := Report{Header: env.Header("space"), Containers: []Container{}, Obsolete: f.Obsolete(l)}
	if report.Disk, err = f.DiskSpace(ctx); err != nil {
		return err
	}
	stats := db.Stats()
	for i := range stats.Containers {
		report.add(&stats.Containers[i])
	}
	report.Reclaimable += report.Obsolete + unused(l)
	for _, h := range stats.Holders {
		if h.Container != "" { // the others are readers of this process
			report.Holders = append(report.Holders, h)
		}
	}
	if c.JSON {
		return env.Object(report)
	}
	return report.print(env)
}

// add takes the space of a container in.
func (r *Report) add(cs *engine.ContainerStats) {
	c := Container{Name: cs.Name}
	for _, p := range cs.Partitions {
		versions := p.Items + p.Tombstones
		c.Versions += versions
		c.Dead += p.Dead
		c.RawBytes += p.RawBytes
		c.Files += p.FileBytes
		c.Foreign += p.ForeignBytes
		if versions > 0 {
			c.DeadPart += int64(float64(p.FileBytes) * min(1, float64(p.Dead)/float64(versions)))
		}
	}
	r.Reclaimable += c.DeadPart
	r.Containers = append(r.Containers, c)
}

// unused estimates the bytes of shared files that lie outside the bounds of all partitions
// that refer to them: what is foreign to one and another has is written anew, not given back.
func unused(l *layout.Store) (sum int64) {
	type file struct{ inode, number uint64 } // a copy of a file that could not be linked is a file of its own
	left := make(map[file]int64)
	for _, c := range l.Containers {
		for _, p := range c.Partitions {
			for _, s := range slices.Concat(p.Runs...) {
				f := file{s.Inode, s.Ref.Number}
				if _, ok := left[f]; !ok {
					left[f] = s.Ref.Size
				}
				if s.Ref.Part != nil {
					left[f] -= s.Ref.Part.Bytes
				} else {
					left[f] -= s.Ref.Size
				}
			}
		}
	}
	for _, bytes := range left {
		sum += max(0, bytes)
	}
	return sum
}

// print prints the report for people.
func (r *Report) print(env *command.Environment) error {
	t := cli.NewTable("<container", "versions", "dead", "raw", "on disk", "dead", "foreign")
	for _, c := range r.Containers {
		t.Row(command.Printable(c.Name), humanize.Count(c.Versions), humanize.Count(c.Dead), humanize.Bytes(c.RawBytes), humanize.Bytes(c.Files),
			humanize.Bytes(c.DeadPart), humanize.Bytes(c.Foreign))
	}
	t.Print(env.Stdout, "")
	err := env.Printf("\nsegment files  %s, of which %s replaced and not removed yet\nlog            %s\nmanifests      %s\nother          %s\nall            %s\n\n",
		humanize.Bytes(r.Disk.Segments), humanize.Bytes(r.Obsolete), humanize.Bytes(r.Disk.Log), humanize.Bytes(r.Disk.Manifests),
		humanize.Bytes(r.Disk.Other), humanize.Bytes(r.Disk.Total))
	for _, h := range r.Holders {
		if err == nil {
			err = env.Printf("%s\n", command.Printable(h.String()))
		}
	}
	if err != nil {
		return err
	}
	if r.Reclaimable == 0 {
		return env.Printf("Nothing is dead.\n")
	}
	return env.Printf("Some %s can be given back: compactions do it as the store is written to, pinspect compact at once.\n", humanize.Bytes(r.Reclaimable))
}
