package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/internal/workload"
)

// TargetFlags say what to run a workload on, and which.
type TargetFlags struct {
	DB        string         `name:"db" type:"directory" placeholder:"DIR" help:"Directory of a store that was loaded before. Without it a temporary one is loaded with generated documents."`
	Container string         `placeholder:"NAME" help:"Container; default the only one of the store."`
	Workload  string         `default:"ycsb-b" placeholder:"NAME" help:"ycsb-a to ycsb-f, read, put, insert, scan, absent, partition, moving-hot-spot, tenant-skew, the queries of pbench list, query-cliffs or stalls; default ${default}."`
	Mix       *workload.Mix  `placeholder:"OP=WEIGHT,..." help:"Operations in place of those of the workload, such as read=95,update=5; it is then called mix."`
	Keys      *workload.Keys `placeholder:"HOW" help:"Key distribution in place of that of the workload: uniform, zipf:0.99, latest, hot:0.01/0.9 or moving:0.05/0.9."`
	GeneratorFlags
	NewContainerFlags
	EngineFlags
	// Expiring says that writes of the workload have a time to live: a container that is made
	// for it allows that.
	Expiring bool `kong:"-"`
}

// Target is an open store with the documents that take part.
type Target struct {
	Dir       string
	Name      string // of the container
	Store     Store
	Shut      func() error // closes the store, once
	Container Container
	Docs      Documents
	Splits    *SplitLog
	Work      *WorkLog
	Opened    time.Time // when it was open
	from      *Origin   // of the documents; nil: unknown, or not to be remembered
}

// FindWorkload returns the workload that the flags describe, and makes the
// documents that are generated for it as it wants them.
func (f *TargetFlags) FindWorkload() (workload.Workload, error) {
	w, err := workload.FindWorkload(f.Workload)
	if err != nil {
		return w, cli.Usage(err)
	}
	if f.DB == "" && f.Skew == 0 {
		f.Skew = w.Skew
	}
	if f.Mix != nil {
		w.Name, w.Mix = "mix", *f.Mix
	}
	if f.Keys != nil {
		w.Keys = *f.Keys
	}
	return w, nil
}

// Check refuses wrong usage before anything is made.
func (f *TargetFlags) Check() error {
	if f.DB == "" {
		if f.Container != "" {
			return Usagef("--container does not go without --db")
		}
		_, _, err := f.NewGenerator()
		return err
	}
	if f.Given() || f.Docs != 0 || f.NewContainerFlags != (NewContainerFlags{}) {
		return Usagef("--db names a store that was loaded before: flags about documents and partitions belong to pbench load")
	}
	return CheckLoaded(f.DB)
}

// CheckLoaded refuses a directory in which nothing is.
func CheckLoaded(dir string) error {
	if _, err := os.ReadDir(dir); err != nil {
		return err
	}
	if Fresh(dir) {
		return fmt.Errorf("%s is empty: load something first", dir)
	}
	return nil
}

// Fresh says whether an open makes a store in a directory: it is absent, or storedir.Fresh.
func Fresh(dir string) bool {
	root, err := vfs.OpenRoot(dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	if c, ok := root.(io.Closer); ok {
		defer c.Close() // nothing is written through it
	}
	return storedir.Fresh(root)
}

// With calls fn with the store, which is closed afterwards. quiet: a load that
// is needed prints no result.
func (f *TargetFlags) With(ctx context.Context, env *Environment, quiet bool, fn func(t *Target) error) error {
	if f.DB == "" {
		return InTemporary(func(dir string) error { return f.withGenerated(ctx, env, dir, quiet, fn) })
	}
	return f.WithLoaded(ctx, env, fn)
}

// WithLoaded calls fn with a store that was loaded before.
func (f *TargetFlags) WithLoaded(ctx context.Context, env *Environment, fn func(t *Target) error) (err error) {
	if err = setProcs(f.DB); err != nil {
		return err
	}
	t := &Target{Dir: f.DB, Splits: new(SplitLog), Work: new(WorkLog)}
	if t.Store, err = env.Open(ctx, f.DB, f.options(env, t)); err != nil {
		return err
	}
	t.Opened = time.Now()
	t.Shut = sync.OnceValue(t.Store.Close)
	defer func() { err = errors.Join(err, t.Shut()) }()
	if err = TakeBack(ctx, env, f.DB, t.Store); err != nil {
		return err
	}
	if t.Name, err = theContainer(t.Store, f.Container); err != nil {
		return err
	}
	if t.Container, err = t.Store.Container(t.Name); err != nil {
		return err
	}
	t.Docs, t.from, err = findDocuments(ctx, env, f.DB, t.Name, t.Container)
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	if err != nil {
		return err
	}
	err = fn(t)
	if t.from != nil && t.Docs.Count() > t.from.Documents {
		t.from.Documents = t.Docs.Count()
		err = errors.Join(err, SetOrigin(f.DB, t.Name, t.from))
	}
	return err
}

// options describes the store of a target, which is told what the store does.
func (f *TargetFlags) options(env *Environment, t *Target) StoreOptions {
	o := f.Options(env, t.Splits)
	o.Work = t.Work
	return o
}

func (f *TargetFlags) newDef(g *workload.Generator) ContainerDef {
	d := f.Def([]string{g.KeyPath()})
	if f.Expiring {
		d.TTL = NoExpiry // what is loaded stays
	}
	return d
}

// withGenerated loads a new store in dir and calls fn with it.
func (f *TargetFlags) withGenerated(ctx context.Context, env *Environment, dir string, quiet bool, fn func(t *Target) error) (err error) {
	g, n, err := f.NewGenerator()
	if err != nil {
		return err
	}
	t := &Target{Dir: dir, Name: "docs", Splits: new(SplitLog), Work: new(WorkLog)}
	if t.Store, err = env.Open(ctx, dir, f.options(env, t)); err != nil {
		return err
	}
	t.Shut = sync.OnceValue(t.Store.Close)
	defer func() { err = errors.Join(err, t.Shut()) }()
	if t.Container, err = t.Store.CreateContainer(ctx, t.Name, f.newDef(g)); err != nil {
		return err
	}
	var mem measure.Memory
	in := GeneratedInput(g, 0, n)
	result, err := Load(ctx, env, t.Container, in, 0, 0, &mem, t.Splits)
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	if err == nil {
		err = result.Settle(ctx, env, t.Store, &mem, t.Splits)
	}
	if err != nil {
		return err
	}
	if !quiet {
		result.Print(env.Stdout, in.About, t.Container.Def().Partitions)
	}
	t.Docs = measure.NewGenerated(g, n)
	return fn(t)
}

// theContainer returns name, or the only container of a store.
func theContainer(s Store, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	switch names := s.Names(); len(names) {
	case 0:
		return "", errors.New("the store has no container: load something first")
	case 1:
		return names[0], nil
	default:
		return "", Usagef("which --container? The store has %s", strings.Join(names, ", "))
	}
}

// Grown notes that there are more documents now.
func (t *Target) Grown(n int64) {
	if g, ok := t.Docs.(*measure.Generated); ok && n > g.Count() {
		t.Docs = measure.NewGenerated(g.Generator(), n)
	}
}

// InTemporary calls fn with a directory that is removed afterwards.
func InTemporary(fn func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "cleave-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return fn(dir)
}

// ContainerOf returns the name that a flag gives, or, if it gives none, that of
// the only container but one, which --to names.
func ContainerOf(db *engine.DB, flag, but string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	name, left := "", false
	for info := range db.Containers() {
		if info.Name == but {
			left = true
			continue
		}
		if name != "" {
			return "", Usagef("which --container? The store has %s and %s", name, info.Name)
		}
		name = info.Name
	}
	switch {
	case name == "" && left:
		return "", Usagef("the store has no container but %s, which --to names", but)
	case name == "":
		return "", errors.New("the store has no container")
	}
	return name, nil
}
