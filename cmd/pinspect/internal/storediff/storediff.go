// Package storediff is the command that compares the documents of two stores, and the
// definitions of their containers.
//
// It walks both stores in the order of the key space, each physical partition at a time,
// and holds one document of each in memory. So it compares stores of any size, also if
// they are divided into other physical partitions.
package storediff

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/synthetickey"
)

// Command is the command.
type Command struct {
	A         string `arg:"" help:"Directory of a store."`
	B         string `arg:"" help:"Directory of the other store."`
	Container string `placeholder:"NAME" help:"Compare this container only."`
	Max       int    `default:"20" placeholder:"N" help:"Name at most so many documents that differ; all are counted. 0: none."`
	JSON      bool   `name:"json" help:"Print JSON: one object a line."`
}

// Help returns the long help text.
func (*Command) Help() string {
	return `Compares the documents of two stores: which are only in A, only in B, or not the same bytes in both; also containers, their definitions, and the limits of their logical partitions. How the stores are divided, compressed and indexed does not count, nor do etags and times. Useful after a restore, a repair, a copy or an import. Keys and ids of documents that differ are printed.

Exit status: 0 the same, 1 they differ.

Examples:
  pinspect diff DIR RESTORED
  pinspect diff DIR RESTORED --container cities --max 0 --json`
}

// Difference is a document, or a container, that is not the same in both stores.
type Difference struct {
	command.Header
	Container string `json:"container"`
	Key       string `json:"key,omitempty"` // absent: the container
	ID        string `json:"id,omitempty"`
	What      string `json:"what"` // only in A; only in B; differs
}

// Summary counts what was compared.
type Summary struct {
	command.Header
	Documents   int64 `json:"documents"` // in A or B
	OnlyA       int64 `json:"only_a"`
	OnlyB       int64 `json:"only_b"`
	Differ      int64 `json:"differ"`
	Definitions int64 `json:"definitions"` // containers that only one store has, or that are defined in another way
}

const (
	onlyA   = "only in A"
	onlyB   = "only in B"
	differs = "differs"
)

// hashed says by which version of the hash keys are placed, by whether it is the old one.
var hashed = map[bool]string{true: " (hash version 1)", false: " (hash version 2)"}

// comparison is a run of the command.
type comparison struct {
	*Command
	env *command.Environment
	sum Summary
}

// Run runs the command.
func (c *Command) Run(ctx context.Context, env *command.Environment) error {
	a, err := open(ctx, c.A)
	if err != nil {
		return fmt.Errorf("store A: %w", err)
	}
	defer a.Close()
	b, err := open(ctx, c.B)
	if err != nil {
		return fmt.Errorf("store B: %w", err)
	}
	defer b.Close()
	defer env.Line.Clear()
	run := &comparison{Command: c, env: env, sum: Summary{Header: env.Header("diff")}}
	if err = run.stores(ctx, a, b); err != nil {
		return err
	}
	env.Line.Clear()
	s := &run.sum
	if c.JSON {
		err = env.Object(s)
	} else {
		err = env.Printf("%s compared: %s only in A, %s only in B, %s differ\n", humanize.Plural(s.Documents, "document", "documents"),
			humanize.Count(s.OnlyA), humanize.Count(s.OnlyB), humanize.Count(s.Differ))
	}
	if err == nil && s.OnlyA+s.OnlyB+s.Differ+s.Definitions > 0 {
		err = command.DiffersError{}
	}
	return err
}

// open opens a store for reading.
func open(ctx context.Context, dir string) (*engine.DB, error) {
	f, err := layout.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, _, err = f.LoadStore(ctx); err != nil {
		return nil, err
	}
	return engine.Open(ctx, dir, &engine.Options{ReadOnly: true})
}

// stores compares the containers of two stores, in the order of their names.
func (r *comparison) stores(ctx context.Context, a, b *engine.DB) error {
	names := make(map[string]bool)
	for _, db := range []*engine.DB{a, b} {
		for info := range db.Containers() {
			if r.Container == "" || info.Name == r.Container {
				names[info.Name] = true
			}
		}
	}
	if r.Container != "" && len(names) == 0 {
		return cli.Usagef("neither store has a container %q", r.Container)
	}
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	for _, name := range list {
		inA, errA := a.Container(name)
		inB, errB := b.Container(name)
		var err error
		switch {
		case errors.Is(errA, engine.ErrNoContainer) && errB == nil:
			err = r.oneSided(ctx, inB, onlyB)
		case errors.Is(errB, engine.ErrNoContainer) && errA == nil:
			err = r.oneSided(ctx, inA, onlyA)
		default:
			if err = errors.Join(errA, errB); err == nil {
				err = r.containers(ctx, inA, inB)
			}
		}
		if err != nil {
			return fmt.Errorf("container %q: %w", name, err)
		}
	}
	return nil
}

// oneSided counts a container that one store has.
func (r *comparison) oneSided(ctx context.Context, c *engine.Container, what string) error {
	var n int64
	for _, err := range c.ScanAll(ctx, nil) {
		if err != nil {
			return err
		}
		n++
		r.compared()
	}
	r.sum.Definitions++
	if what == onlyA {
		r.sum.OnlyA += n
	} else {
		r.sum.OnlyB += n
	}
	return r.report(c.Name(), what, nil)
}

// compared counts a document, and shows from time to time how many there were.
func (r *comparison) compared() {
	r.sum.Documents++
	r.env.Line.Show(time.Now(), func() string { return humanize.Count(r.sum.Documents) + " documents compared" })
}

// containers compares the documents of two containers.
func (r *comparison) containers(ctx context.Context, a, b *engine.Container) error {
	defA, defB := a.Def(), b.Def()
	sameKey := jsondoc.SamePaths(defA.PartitionKey, defB.PartitionKey) && (*synthetickey.Rule)(defA.Synthetic).Equal((*synthetickey.Rule)(defB.Synthetic))
	textA, textB := defA.KeyText(), defB.KeyText()
	if oldA, oldB := defA.HashVersion == 1, defB.HashVersion == 1; oldA != oldB {
		sameKey = false // the keys themselves differ
		textA, textB = textA+hashed[oldA], textB+hashed[oldB]
	}
	var unlike []string
	if defA.Kind != defB.Kind || !sameKey {
		unlike = append(unlike, fmt.Sprintf("%v by %s in A, %v by %s in B", defA.Kind, textA, defB.Kind, textB))
	}
	if unlike = append(unlike, definitions(a, b)...); len(unlike) > 0 {
		r.sum.Definitions++
		if err := r.report(a.Name(), differs+": "+strings.Join(unlike, "; "), nil); err != nil {
			return err
		}
	}
	if !sameKey {
		return nil // their orders have nothing to do with each other
	}
	nextA, stopA := iter.Pull2(a.ScanAll(ctx, nil))
	defer stopA()
	nextB, stopB := iter.Pull2(b.ScanAll(ctx, nil))
	defer stopB()
	itemA, inA, err := pull(nextA)
	if err != nil {
		return err
	}
	itemB, inB, err := pull(nextB)
	for inA || inB {
		if err != nil {
			return err
		}
		r.compared()
		order := 0
		switch {
		case !inB:
			order = -1
		case !inA:
			order = 1
		default:
			order = compare(&itemA, &itemB)
		}
		switch {
		case order < 0:
			r.sum.OnlyA++
			err = r.report(a.Name(), onlyA, &itemA)
		case order > 0:
			r.sum.OnlyB++
			err = r.report(a.Name(), onlyB, &itemB)
		case !bytes.Equal(itemA.Body, itemB.Body):
			r.sum.Differ++
			err = r.report(a.Name(), differs, &itemA)
		}
		if err != nil {
			return err
		}
		if order <= 0 {
			if itemA, inA, err = pull(nextA); err != nil {
				return err
			}
		}
		if order >= 0 {
			itemB, inB, err = pull(nextB)
		}
	}
	return err
}

// pull returns the next item; false: there is none.
func pull(next func() (engine.Item, error, bool)) (engine.Item, bool, error) {
	it, err, ok := next()
	return it, ok && err == nil, err
}

// compare orders items as a scan of everything does: by the hash of the key, the key, and
// the id.
func compare(a, b *engine.Item) int {
	return cmp.Or(a.Key.Compare(b.Key), strings.Compare(a.ID, b.ID))
}

// report prints a difference, unless enough were printed. it is nil for a container.
func (r *comparison) report(container, what string, it *engine.Item) error {
	if it != nil && r.sum.OnlyA+r.sum.OnlyB+r.sum.Differ > int64(r.Max) {
		return nil
	}
	d := Difference{Header: r.env.Header("difference"), Container: container, What: what}
	if it != nil {
		d.Key, d.ID = it.Key.String(), it.ID
	}
	r.env.Line.Clear()
	if r.JSON {
		return r.env.Object(d)
	}
	name := command.Printable(container)
	if it != nil {
		name += " " + command.Printable(d.Key+" "+d.ID)
	}
	return r.env.Printf("%s: %s\n", name, what)
}
