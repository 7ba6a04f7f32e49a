package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

type historyCommand struct {
	target
	Container string `placeholder:"NAME" help:"Only this container."`
	Partition uint32 `placeholder:"ID" help:"Only this physical partition, present or past, with all that it came from and that came of it."`
	Rows      int    `default:"40" placeholder:"N" help:"List at most the newest N changes of each container (${default})."`
}

// Help returns the long help text.
func (*historyCommand) Help() string {
	return fmt.Sprintf(`Tells how the physical partitions of each container came to be: every split, merge of two neighbours and move of a boundary with its time, the partitions whose place was taken (parents) and those that took it (children, with new ids), and the boundary between them. Below stand the partitions that there are now, each with its line of descent.

The store keeps the newest %d changes, those of dropped containers not among them. What is older shows in the parents of the oldest ones only.

Examples:
  pinspect history DIR
  pinspect history DIR --container cities --partition 9
  pinspect history DIR --json | jq 'select(.kind=="split") | .time'`, manifest.MaxHistory)
}

// reshapeRow is a change of the physical partitions of a container.
type reshapeRow struct {
	header
	Container string         `json:"container"`
	Time      string         `json:"time"` // RFC 3339, of the commit
	Kind      string         `json:"kind"` // split, merge or move
	Parents   []historyRange `json:"parents"`
	Children  []historyRange `json:"children"`
}

// historyRange is a physical partition, present or past.
type historyRange struct {
	ID  uint32 `json:"id"`
	Min string `json:"min"` // EPK in hexadecimal digits, inclusive
	Max string `json:"max"` // exclusive
}

// Run runs the command.
func (c *historyCommand) Run(ctx context.Context, out *output) error {
	if c.Rows < 0 {
		return cli.Usagef("--rows %d: must not be negative", c.Rows)
	}
	f, err := layout.Open(c.Dir)
	if err != nil {
		return err
	}
	defer f.Close()
	l, err := f.ReadStructure(ctx)
	if err != nil {
		return err
	}
	containers := l.Containers
	if c.Container != "" {
		containers = slices.DeleteFunc(slices.Clone(containers), func(v *layout.Container) bool { return v.Name != c.Container })
		if len(containers) == 0 {
			return cli.Usagef("container %q: %w", c.Container, engine.ErrNoContainer)
		}
	}
	shown := 0
	for _, view := range containers {
		h, err := newHistory(&l.State, view)
		if err != nil {
			return findingError{err}
		}
		if c.Partition != 0 && !h.only(c.Partition) {
			continue
		}
		if !c.JSON && shown > 0 {
			out.printf("\n")
		}
		shown++
		if err := c.show(out, h); err != nil {
			return err
		}
	}
	if shown == 0 && c.Partition != 0 {
		return cli.Usagef("there is no such physical partition in what the store remembers: %d", c.Partition)
	}
	if shown == 0 && !c.JSON {
		out.printf("no containers\n")
	}
	return nil
}

func (c *historyCommand) show(out *output, h *history) error {
	if !c.JSON {
		h.print(out, c.Rows)
		return nil
	}
	for i := range h.changes {
		if err := out.object(&h.changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// history is what the store manifest remembers of a container.
type history struct {
	container string
	ranges    map[uint32]historyRange
	changes   []reshapeRow // oldest first
	present   []uint32     // in key-space order
	made      map[uint32]*reshapeRow
	parents   map[uint32][]uint32 // as the partitions of today name them
}

func newHistory(state *manifest.Store, view *layout.Container) (*history, error) {
	h := &history{
		container: view.Name, ranges: make(map[uint32]historyRange),
		made: make(map[uint32]*reshapeRow), parents: make(map[uint32][]uint32),
	}
	add := func(id uint32, lo, hi manifest.Bytes) error {
		from, err := partmap.EPKFromBytes(lo)
		if err != nil {
			return fmt.Errorf("partition %d: bad boundary: %w", id, err)
		}
		to, err := partmap.EPKFromBytes(hi)
		if err != nil {
			return fmt.Errorf("partition %d: bad boundary: %w", id, err)
		}
		h.ranges[id] = historyRange{id, from.String(), to.String()}
		return nil
	}
	for _, p := range view.Partitions {
		h.present = append(h.present, p.ID)
	}
	for _, p := range state.Partitions {
		if p.Container != view.ID {
			continue
		}
		if err := add(p.ID, p.Min, p.Max); err != nil {
			return nil, err
		}
		h.parents[p.ID] = p.Parents
	}
	for _, r := range state.History {
		if r.Container != view.ID {
			continue
		}
		row := reshapeRow{header: newHeader("reshape"), Container: view.Name, Kind: r.Kind,
			Time: time.UnixMilli(r.Time).UTC().Format("2006-01-02T15:04:05.000Z07:00")}
		for _, p := range r.Parents {
			if err := add(p.ID, p.Min, p.Max); err != nil {
				return nil, err
			}
			row.Parents = append(row.Parents, h.ranges[p.ID])
		}
		for _, id := range r.Children {
			row.Children = append(row.Children, historyRange{ID: id})
		}
		h.changes = append(h.changes, row)
	}
	for i := range h.changes {
		row := &h.changes[i]
		for k := range row.Children {
			id := row.Children[k].ID
			row.Children[k] = h.ranges[id]
			row.Children[k].ID = id
			h.made[id] = row
		}
	}
	return h, nil
}

// only leaves the changes that a partition came from and that came of it; false
// if nothing is known of it.
func (h *history) only(id uint32) bool {
	if _, ok := h.ranges[id]; !ok {
		return false
	}
	before, after := map[uint32]bool{id: true}, map[uint32]bool{id: true}
	wanted := make([]bool, len(h.changes))
	among := func(list []historyRange, set map[uint32]bool) bool {
		return slices.ContainsFunc(list, func(p historyRange) bool { return set[p.ID] })
	}
	note := func(list []historyRange, set map[uint32]bool) {
		for _, p := range list {
			set[p.ID] = true
		}
	}
	for i := range h.changes {
		if among(h.changes[i].Parents, after) {
			wanted[i] = true
			note(h.changes[i].Children, after)
		}
	}
	for i := len(h.changes) - 1; i >= 0; i-- {
		if among(h.changes[i].Children, before) {
			wanted[i] = true
			note(h.changes[i].Parents, before)
		}
	}
	var kept []reshapeRow
	for i, row := range h.changes {
		if wanted[i] {
			kept = append(kept, row)
		}
	}
	h.changes = kept
	h.present = slices.DeleteFunc(h.present, func(p uint32) bool { return !before[p] && !after[p] })
	return true
}

func (h *history) print(out *output, rows int) {
	out.printf("container %s: %s\n", printable(h.container), humanize.Plural(len(h.changes), "change of its physical partitions", "changes of its physical partitions"))
	if len(h.changes) > 0 {
		first := max(0, len(h.changes)-rows)
		if first > 0 {
			out.printf("  the newest %s of them: --rows\n", humanize.Count(len(h.changes)-first))
		}
		t := cli.NewTable("<when (UTC)", "<what", "<parents", "<", "<children", "<boundary", "<boundary before")
		for i := first; i < len(h.changes); i++ {
			r := &h.changes[i]
			t.Row(strings.Replace(strings.TrimSuffix(r.Time, "Z"), "T", " ", 1), r.Kind, joinIDs(r.Parents), "→", joinIDs(r.Children), cutOf(r.Children), cutOf(r.Parents))
		}
		t.Print(out.w, "  ")
	}
	out.printf("  now\n")
	t := cli.NewTable("id", "<from", "<to", "<came from")
	for _, id := range h.present {
		p := h.ranges[id]
		t.Row(humanize.Count(uint64(id)), shortHex(p.Min), shortHex(p.Max), h.descent(id))
	}
	t.Print(out.w, "  ")
}

// joinIDs lists partitions by their ids.
func joinIDs(list []historyRange) string {
	var ids []string
	for _, p := range list {
		ids = append(ids, fmt.Sprint(p.ID))
	}
	return strings.Join(ids, " + ")
}

// cutOf returns the boundary between two partitions.
func cutOf(list []historyRange) string {
	if len(list) < 2 {
		return "-"
	}
	return shortHex(list[1].Min)
}

// shortHex is shortEPK of hexadecimal digits.
func shortHex(text string) string {
	if text == "" {
		return "-"
	}
	return text[:min(len(text), 12)]
}

// maxDescent is how many generations are printed.
const maxDescent = 8

// descent tells where a partition comes from, from the nearest parents on.
func (h *history) descent(id uint32) string {
	text := ""
	generation := []uint32{id}
	for range maxDescent {
		var parents []uint32
		for _, of := range generation {
			from := h.parents[of]
			if row := h.made[of]; row != nil {
				from = nil
				for _, p := range row.Parents {
					from = append(from, p.ID)
				}
			}
			for _, p := range from {
				if !slices.Contains(parents, p) {
					parents = append(parents, p)
				}
			}
		}
		if len(parents) == 0 {
			break
		}
		slices.Sort(parents)
		var ids []string
		for _, p := range parents {
			ids = append(ids, fmt.Sprint(p))
		}
		text += "← " + strings.Join(ids, " + ") + " "
		generation = parents
	}
	if text == "" {
		return "made with the container"
	}
	return strings.TrimSpace(text)
}
