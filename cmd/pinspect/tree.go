package main

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

type treeCommand struct {
	target
	layout.Filter
}

// Help returns the long help text.
func (*treeCommand) Help() string {
	return `Shows store > containers > physical partitions > runs > segment files with their sizes. Runs are listed from the newest to the oldest; a bar is the share of the container. Only manifests and the ends of the files are read.

Examples:
  pinspect tree DIR
  pinspect tree DIR --container cities
  pinspect tree DIR --json | jq '.containers[].partitions[].runs | length'`
}

type treeReport struct {
	header
	Directory  string           `json:"directory"`
	Bytes      int64            `json:"bytes"`
	Containers []treeContainer  `json:"containers"`
	Problems   []layout.Finding `json:"problems,omitempty"`
}

type treeContainer struct {
	Name       string          `json:"name"`
	Bytes      int64           `json:"bytes"`
	Partitions []treePartition `json:"partitions"`
}

type treePartition struct {
	ID         uint32           `json:"id"`
	Min        string           `json:"min"`
	Max        string           `json:"max"`
	FlushedSeq uint64           `json:"flushed_seq"`
	Bytes      int64            `json:"bytes"`
	Runs       []treeRun        `json:"runs"`
	Problems   []layout.Finding `json:"problems,omitempty"`
}

type treeRun struct {
	Bytes int64      `json:"bytes"`
	Items uint64     `json:"items"`
	Files []treeFile `json:"files"`
}

type treeFile struct {
	File    string          `json:"file"`
	Bytes   int64           `json:"bytes"`
	Items   uint64          `json:"items"`
	MinSeq  uint64          `json:"min_seq"`
	MaxSeq  uint64          `json:"max_seq"`
	Problem *layout.Finding `json:"problem,omitempty"`
}

// Run runs the command.
func (c *treeCommand) Run(ctx context.Context, out *output) error {
	return c.Within(ctx, c.Dir, func(f *layout.Files, pick layout.Picker) error { return showTree(ctx, f, pick, c.JSON, out) })
}

// showTree prints the tree of the partitions that pick wants; errFound if
// something in it is damaged.
func showTree(ctx context.Context, f *layout.Files, pick layout.Picker, json bool, out *output) error {
	l, err := f.ReadLayout(ctx, layout.Properties, pick)
	if err != nil {
		return err
	}
	report := newTree(f, l, pick)
	if json {
		if err := out.object(report); err != nil {
			return err
		}
	} else {
		report.print(out)
	}
	if len(l.Damage()) > 0 {
		return errFound
	}
	return nil
}

// showDamaged prints what can be seen of a store that cannot be opened, and
// returns err, the reason.
func showDamaged(ctx context.Context, f *layout.Files, pick layout.Picker, json bool, out *output, err error) error {
	if showErr := showTree(ctx, f, pick, json, out); ctx.Err() != nil {
		return showErr
	}
	return err
}

func newTree(f *layout.Files, l *layout.Store, pick layout.Picker) *treeReport {
	report := &treeReport{header: newHeader("tree"), Directory: f.FS.Path("."), Containers: []treeContainer{}, Problems: l.Problems}
	for _, view := range l.Containers {
		tc := treeContainer{Name: view.Name, Partitions: []treePartition{}}
		for _, p := range view.Partitions {
			if !pick.Wants(view, p) {
				continue
			}
			tp := treePartition{
				ID: p.ID, Min: p.Range.Min.String(), Max: p.Range.Max.String(), FlushedSeq: p.Files.FlushedSeq,
				Runs: []treeRun{}, Problems: p.Problems,
			}
			for _, run := range p.Runs {
				tr := treeRun{Files: []treeFile{}}
				for _, s := range run {
					tf := treeFile{File: s.Name, Bytes: s.Ref.Size, Problem: s.Problem}
					if s.Props != nil {
						tf.Items, tf.MinSeq, tf.MaxSeq = s.Props.Items, s.Props.MinSeq, s.Props.MaxSeq
					}
					tr.Files = append(tr.Files, tf)
					tr.Bytes += tf.Bytes
					tr.Items += tf.Items
				}
				tp.Runs = append(tp.Runs, tr)
				tp.Bytes += tr.Bytes
			}
			tc.Partitions = append(tc.Partitions, tp)
			tc.Bytes += tp.Bytes
		}
		if len(tc.Partitions) > 0 || pick == nil {
			report.Containers = append(report.Containers, tc)
			report.Bytes += tc.Bytes
		}
	}
	return report
}

func (r *treeReport) print(out *output) {
	root := &branch{cells: []string{printable(r.Directory), humanize.Bytes(r.Bytes)}}
	for _, problem := range r.Problems {
		root.add("! " + problem.String())
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		node := root.add("container "+printable(c.Name), humanize.Bytes(c.Bytes), humanize.Plural(len(c.Partitions), "partition", "partitions"))
		for j := range c.Partitions {
			c.Partitions[j].addTo(node, c.Bytes)
		}
	}
	t := cli.NewTable("<", "", "<", "<")
	root.appendTo(t, "", "")
	t.Print(out.w, "")
}

func (p *treePartition) addTo(parent *branch, whole int64) {
	lo, hi := p.Min, p.Max
	if lo == "" {
		lo = "-"
	}
	node := parent.add(fmt.Sprintf("partition %d  [%.12s, %.12s)", p.ID, lo, hi), humanize.Bytes(p.Bytes),
		humanize.Plural(len(p.Runs), "run", "runs"), chart.Bar(p.Bytes, whole, treeBar))
	for _, problem := range p.Problems {
		node.add("! " + problem.String())
	}
	for i, run := range p.Runs {
		at := node.add(fmt.Sprintf("run %d", i+1), humanize.Bytes(run.Bytes),
			humanize.Plural(run.Items, "item", "items"), chart.Bar(run.Bytes, whole, treeBar))
		for _, f := range run.Files {
			if f.Problem != nil {
				at.add("! " + f.Problem.String())
				continue
			}
			at.add(f.File, humanize.Bytes(f.Bytes),
				humanize.Plural(f.Items, "item", "items")+", seq "+formatSpan(f.MinSeq, f.MaxSeq), chart.Bar(f.Bytes, whole, treeBar))
		}
	}
}

// treeBar is the width of the bars in cells.
const treeBar = 20

// branch is a line of a tree with those below it.
type branch struct {
	cells    []string
	branches []*branch
}

func (b *branch) add(cells ...string) *branch {
	child := &branch{cells: cells}
	b.branches = append(b.branches, child)
	return child
}

// appendTo adds the branch to a table. first is what its line begins with,
// rest what the lines below it begin with.
func (b *branch) appendTo(t *cli.Table, first, rest string) {
	cells := append([]string{first + b.cells[0]}, b.cells[1:]...)
	t.Row(cells...)
	for i, child := range b.branches {
		if i == len(b.branches)-1 {
			child.appendTo(t, rest+"└─ ", rest+"   ")
		} else {
			child.appendTo(t, rest+"├─ ", rest+"│  ")
		}
	}
}
