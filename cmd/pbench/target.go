package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// targetFlags say what to run a workload on, and which.
type targetFlags struct {
	DB        string         `name:"db" type:"directory" placeholder:"DIR" help:"Directory of a store that was loaded before. Without it a temporary one is loaded with generated documents."`
	Container string         `placeholder:"NAME" help:"Container; default the only one of the store."`
	Workload  string         `default:"ycsb-b" placeholder:"NAME" help:"ycsb-a to ycsb-f, read, put, insert, scan, absent, partition, moving-hot-spot or tenant-skew; see pbench list; default ${default}."`
	Mix       *workload.Mix  `placeholder:"OP=WEIGHT,..." help:"Operations in place of those of the workload, such as read=95,update=5; it is then called mix."`
	Keys      *workload.Keys `placeholder:"HOW" help:"Key distribution in place of that of the workload: uniform, zipf:0.99, latest, hot:0.01/0.9 or moving:0.05/0.9."`
	generatorFlags
	newContainerFlags
	engineFlags
}

// target is an open store with the documents that take part.
type target struct {
	dir    string
	name   string // of the container
	store  store
	shut   func() error // closes the store, once
	c      container
	docs   documents
	splits *splitLog
	from   *origin // of the documents; nil: unknown, or not to be remembered
}

// workload returns the workload that the flags describe, and makes the
// documents that are generated for it as it wants them.
func (f *targetFlags) workload() (workload.Workload, error) {
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

// check refuses wrong usage before anything is made.
func (f *targetFlags) check() error {
	if f.DB == "" {
		if f.Container != "" {
			return usagef("--container does not go without --db")
		}
		_, _, err := f.generator()
		return err
	}
	if f.given() || f.Docs != 0 || f.newContainerFlags != (newContainerFlags{}) {
		return usagef("--db names a store that was loaded before: flags about documents and partitions belong to pbench load")
	}
	return checkLoaded(f.DB)
}

// checkLoaded refuses a directory in which nothing is.
func checkLoaded(dir string) error {
	if names, err := os.ReadDir(dir); err != nil {
		return err
	} else if len(names) == 0 {
		return fmt.Errorf("%s is empty: load something first", dir)
	}
	return nil
}

// with calls fn with the store, which is closed afterwards. quiet: a load that
// is needed prints no result.
func (f *targetFlags) with(ctx context.Context, env *environment, quiet bool, fn func(t *target) error) error {
	if f.DB == "" {
		return inTemporary(func(dir string) error { return f.withGenerated(ctx, env, dir, quiet, fn) })
	}
	return f.withLoaded(ctx, env, fn)
}

// withLoaded calls fn with a store that was loaded before.
func (f *targetFlags) withLoaded(ctx context.Context, env *environment, fn func(t *target) error) (err error) {
	if err = setProcs(f.DB); err != nil {
		return err
	}
	t := &target{dir: f.DB, splits: new(splitLog)}
	if t.store, err = env.open(ctx, f.DB, f.options(env, t.splits)); err != nil {
		return err
	}
	t.shut = sync.OnceValue(t.store.Close)
	defer func() { err = errors.Join(err, t.shut()) }()
	if err = takeBack(ctx, env, f.DB, t.store); err != nil {
		return err
	}
	if t.name, err = theContainer(t.store, f.Container); err != nil {
		return err
	}
	if t.c, err = t.store.Container(t.name); err != nil {
		return err
	}
	t.docs, t.from, err = findDocuments(ctx, env, f.DB, t.name, t.c)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	err = fn(t)
	if t.from != nil && t.docs.Count() > t.from.Documents {
		t.from.Documents = t.docs.Count()
		err = errors.Join(err, setOrigin(f.DB, t.name, t.from))
	}
	return err
}

// withGenerated loads a new store in dir and calls fn with it.
func (f *targetFlags) withGenerated(ctx context.Context, env *environment, dir string, quiet bool, fn func(t *target) error) (err error) {
	g, n, err := f.generator()
	if err != nil {
		return err
	}
	t := &target{dir: dir, name: "docs", splits: new(splitLog)}
	if t.store, err = env.open(ctx, dir, f.options(env, t.splits)); err != nil {
		return err
	}
	t.shut = sync.OnceValue(t.store.Close)
	defer func() { err = errors.Join(err, t.shut()) }()
	if t.c, err = t.store.CreateContainer(ctx, t.name, f.def([]string{g.KeyPath()})); err != nil {
		return err
	}
	var mem measure.Memory
	in := generatedInput(g, 0, n)
	result, err := load(ctx, env, t.c, in, 0, 0, &mem, t.splits)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err == nil {
		err = result.settle(ctx, env, t.store, &mem, t.splits)
	}
	if err != nil {
		return err
	}
	if !quiet {
		result.print(env.stdout, in.about, t.c.Def().partitions)
	}
	t.docs = measure.NewGenerated(g, n)
	return fn(t)
}

// theContainer returns name, or the only container of a store.
func theContainer(s store, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	switch names := s.Names(); len(names) {
	case 0:
		return "", errors.New("the store has no container: load something first")
	case 1:
		return names[0], nil
	default:
		return "", usagef("which --container? The store has %s", strings.Join(names, ", "))
	}
}

// grown notes that there are more documents now.
func (t *target) grown(n int64) {
	if g, ok := t.docs.(*measure.Generated); ok && n > g.Count() {
		t.docs = measure.NewGenerated(g.Generator(), n)
	}
}

// inTemporary calls fn with a directory that is removed afterwards.
func inTemporary(fn func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "pbench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return fn(dir)
}
