package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/measure"
)

// limitFlags say what a new container allows.
type limitFlags struct {
	TTL                   ttl               `name:"ttl" placeholder:"TIME" help:"How long documents of a new container live after their last write, such as 24h; own: only those with a ttl of their own expire; default for ever."`
	UniqueKey             []string          `sep:"none" placeholder:"/PATH,..." help:"Paths whose values no two documents of a logical partition of a new container may share; may be repeated."`
	ItemLimit             harness.ByteCount `placeholder:"SIZE" help:"Largest document of a new container, up to 3MiB; default 2MiB."`
	LogicalPartitionLimit harness.ByteCount `placeholder:"SIZE" help:"What a logical partition of a new container may hold; default 20GiB."`
	BatchLimit            harness.ByteCount `placeholder:"SIZE" help:"Largest transaction of a new container, up to 4MiB; default 2MiB."`
}

// ttl is a DefaultTTL as a flag.
type ttl time.Duration

// UnmarshalText reads "own" or a time.
func (d *ttl) UnmarshalText(text []byte) error {
	if string(text) == "own" {
		*d = ttl(harness.NoExpiry)
		return nil
	}
	t, err := time.ParseDuration(string(text))
	if err != nil || t < time.Millisecond {
		return fmt.Errorf("%q: want own, or a time of at least a millisecond, such as 24h", text)
	}
	*d = ttl(t)
	return nil
}

// define adds the flags to a definition.
func (f *limitFlags) define(d *harness.ContainerDef) {
	d.TTL, d.ItemBytes, d.LogicalBytes, d.BatchBytes = time.Duration(f.TTL), int64(f.ItemLimit), int64(f.LogicalPartitionLimit), int64(f.BatchLimit)
	for _, set := range f.UniqueKey {
		d.UniqueKeys = append(d.UniqueKeys, jsondoc.SplitPaths(set))
	}
}

// differ returns the name of a flag that says something else than a container
// that exists has, "" if there is none.
func (f *limitFlags) differ(is harness.ContainerDef) string {
	var want harness.ContainerDef
	f.define(&want)
	switch {
	case want.TTL != 0 && want.TTL != is.TTL:
		return "--ttl"
	case want.UniqueKeys != nil && !slices.EqualFunc(want.UniqueKeys, is.UniqueKeys, jsondoc.SamePaths):
		return "--unique-key"
	case want.ItemBytes != 0 && want.ItemBytes != is.ItemBytes:
		return "--item-limit"
	case want.LogicalBytes != 0 && want.LogicalBytes != is.LogicalBytes:
		return "--logical-partition-limit"
	case want.BatchBytes != 0 && want.BatchBytes != is.BatchBytes:
		return "--batch-limit"
	}
	return ""
}

type loadCommand struct {
	DB           string   `name:"db" required:"" type:"directory" placeholder:"DIR" help:"Directory of the store; made if it is absent."`
	Container    string   `default:"docs" placeholder:"NAME" help:"Container to load into; made if the store has none of this name; default ${default}."`
	Data         *string  `placeholder:"FILE" help:"NDJSON file, plain or compressed with gzip or zstd; - is standard input. Without it documents are generated."`
	PartitionKey []string `sep:"none" placeholder:"/PATH" help:"Partition key of a new container, 1 to 3 paths with commas between them; generated documents know theirs."`
	harness.GeneratorFlags
	harness.NewContainerFlags
	limitFlags
	Throughput harness.Count `placeholder:"RU/S" help:"Provision the container with so many request units a second once it is loaded; default: leave it as it is."`
	harness.EngineFlags
	BatchBytes harness.ByteCount  `default:"1MiB" placeholder:"SIZE" help:"Bytes of documents between two durable points; default ${default}."`
	Skip       harness.Position   `placeholder:"N" help:"Pass over the first documents of the input, to go on with a load that was broken off."`
	MaxErrors  int64              `placeholder:"N" help:"Name refused documents and go on, up to so many; default: stop at the first."`
	NoSettle   bool               `help:"Do not wait for flushes, compactions and splits at the end."`
	JSON       harness.JSONOutput `name:"json" placeholder:"FILE" help:"Write the figures as JSON, in the form of those of pbench run; - is standard output, in place of the text."`
}

// Help returns what follows the short help.
func (*loadCommand) Help() string {
	return `
Documents are upserted in the order of the input, with one durable point a batch. A document that is refused ends the load; the message names its line. Everything before it is in the store.

Examples:

    pbench load --db food --docs 1M --logical-partitions 5000 --skew 0.8
    pbench load --db names --data us-first-names.ndjson.zst --partition-key /year --partitions 1 --max-partition-bytes 4MiB
    pbench load --db cities --container cities --data world-cities.ndjson.zst --partition-key /country_code
    pbench load --db routes --data routes.ndjson.gz --partition-key /from,/airline --partitions 8`
}

// Run loads.
func (l *loadCommand) Run(ctx context.Context, env *harness.Environment) (err error) {
	in, paths, from, err := l.input(env)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := in.Close(); err == nil {
			err = closeErr
		}
	}()
	if err = l.check(paths); err != nil {
		return err
	}
	if err = l.JSON.Open(l.DB); err != nil {
		return err
	}
	defer l.JSON.Discard()
	splits, begun := new(harness.SplitLog), time.Now()
	s, err := env.Open(ctx, l.DB, l.Options(env, splits))
	if err != nil {
		return err
	}
	shut := sync.OnceValue(s.Close)
	defer func() { err = harness.WithClose(err, shut()) }()
	if err = harness.TakeBack(ctx, env, l.DB, s); err != nil {
		return err
	}
	made := !slices.Contains(s.Names(), l.Container)
	c, err := l.container(ctx, s, paths)
	if err != nil {
		return err
	}
	var keys *keyCheck
	if from == nil {
		keys = newKeyCheck(c.Def().PartitionKey)
		in.Docs = keys.docs(in.Docs)
	}
	before := s.Stats()
	var mem measure.Memory
	result, err := harness.Load(ctx, env, c, in, int64(l.BatchBytes), l.MaxErrors, &mem, splits)
	position := int64(l.Skip) + result.Position
	keys.warn(env)
	if ctx.Err() != nil {
		err = harness.ErrInterrupted
	}
	if err != nil {
		closeErr := shut()
		if closeErr != nil && !l.Durability.Synced() {
			return harness.WithClose(err, closeErr) // who knows what is written
		}
		var refused *harness.RefusedError
		if errors.As(err, &refused) {
			env.Notef("%s written; to go on behind the one that was refused: --skip %d; to pass over more such: --max-errors N", harness.WasOrWere(result.Documents), position+1)
		} else {
			env.Notef("%s written; to go on there: --skip %d", harness.WasOrWere(result.Documents), position)
		}
		if errors.Is(err, harness.ErrDiskFull) {
			env.Notef("the disk is full: make room first")
		}
		return harness.WithClose(err, closeErr)
	}
	if !l.NoSettle {
		if err := result.Settle(ctx, env, s, &mem, splits); err != nil {
			return err
		}
	}
	if l.Throughput > 0 {
		if err := c.SetThroughput(ctx, float64(l.Throughput)); err != nil {
			return err
		}
	}
	figures := newEngineFigures(s, before, mem)
	partitions := c.Def().Partitions
	if err := shut(); err != nil {
		return err
	}
	figures.Splits = splits.Summary(begun)
	if l.Skip > 0 && made {
		from = nil // those that were passed over are not there
	}
	if from != nil {
		from.Documents = position
	}
	if err := l.remember(from); err != nil {
		return err
	}
	if err := figures.addDisk(l.DB); err != nil {
		return err
	}
	host := measure.DescribeMachine(l.DB)
	if !l.JSON.ReplacesText() {
		env.PrintMachine(env.Stdout, host)
		result.Print(env.Stdout, in.About, partitions)
		figures.print(env.Stdout)
	}
	figures.From = &host
	figures.Run = &settings{
		Container: l.Container, Documents: result.Documents, Partitions: partitions, Seconds: harness.Round(result.Elapsed.Seconds(), 3),
		Durability: l.Durability.String(), MemoryBudget: int64(l.MemoryBudget), ScanCache: int64(l.ScanCache), Seed: l.Seed,
	}
	return l.JSON.Write(env, newLoadReport(&result, figures))
}

// input opens what is to be loaded, and returns the partition key paths for a
// new container.
func (l *loadCommand) input(env *harness.Environment) (in *harness.Input, paths []string, from *harness.Origin, err error) {
	paths = jsondoc.SplitPaths(l.PartitionKey...)
	if l.Docs > 0 && int64(l.Skip) > int64(l.Docs) {
		return nil, nil, nil, harness.Usagef("--skip %d is more than --docs %d", l.Skip, l.Docs)
	}
	if l.Data != nil {
		if l.Given() {
			return nil, nil, nil, harness.Usagef("--generator, --logical-partitions and --skew do not go with --data")
		}
		in, err = harness.FileInput(*l.Data, env.Stdin, int64(l.Skip), int64(l.Docs))
		return in, paths, nil, err
	}
	g, n, err := l.NewGenerator()
	if err != nil {
		return nil, nil, nil, err
	}
	if len(paths) > 0 && (len(paths) > 1 || paths[0] != g.KeyPath()) {
		return nil, nil, nil, harness.Usagef("--partition-key: that of %s documents is %s", g.Params().Shape, g.KeyPath())
	}
	in = harness.GeneratedInput(g, int64(l.Skip), n)
	return in, []string{g.KeyPath()}, &harness.Origin{Generator: g.Params()}, nil
}

// check refuses wrong usage before a store is made for it.
func (l *loadCommand) check(paths []string) error {
	if l.MaxErrors < 0 {
		return harness.Usagef("--max-errors %d: cannot be negative", l.MaxErrors)
	}
	if l.BatchBytes > maxBatchBytes {
		return harness.Usagef("--batch-bytes: at most %s", humanize.Bytes(int64(maxBatchBytes)))
	}
	if _, err := harness.ReadCatalog(l.DB); err != nil {
		return err
	}
	if len(paths) > 0 {
		return harness.CheckNewContainer(l.Container, l.newDef(paths))
	}
	if harness.Fresh(l.DB) {
		return l.needsPartitionKey()
	}
	return nil
}

// maxBatchBytes is what the engine takes at most.
const maxBatchBytes = 8 << 20

func (l *loadCommand) needsPartitionKey() error {
	return harness.Usagef("container %q is new: it needs --partition-key /PATH[,/PATH]", l.Container)
}

// container returns the container to load into.
func (l *loadCommand) container(ctx context.Context, s harness.Store, paths []string) (harness.Container, error) {
	c, err := s.Container(l.Container)
	if errors.Is(err, harness.ErrNoContainer) {
		if len(paths) == 0 {
			return nil, l.needsPartitionKey()
		}
		if err = harness.SetOrigin(l.DB, l.Container, nil); err != nil { // that of one that was dropped
			return nil, err
		}
		return s.CreateContainer(ctx, l.Container, l.newDef(paths))
	}
	if err != nil {
		return nil, err
	}
	is := c.Def()
	if len(paths) > 0 && !jsondoc.SamePaths(paths, is.PartitionKey) {
		return nil, harness.Usagef("container %q has the partition key %v, not %v", l.Container, is.PartitionKey, paths)
	}
	if l.Partitions != 0 && l.Partitions.Int() != is.Partitions {
		return nil, harness.Usagef("container %q exists with %d partitions; --partitions is for new ones", l.Container, is.Partitions)
	}
	if l.Compression != "" && l.Compression != is.Compression {
		return nil, harness.Usagef("container %q exists with compression %s; --compression is for new ones", l.Container, is.Compression)
	}
	if l.NoBurst && !is.NoBurst {
		return nil, harness.Usagef("container %q exists with bursts; --no-burst is for new ones", l.Container)
	}
	if flag := l.differ(is); flag != "" {
		return nil, harness.Usagef("container %q exists, with something else than %s says; it is for new ones", l.Container, flag)
	}
	return c, nil
}

// newDef returns the definition of a new container.
func (l *loadCommand) newDef(paths []string) harness.ContainerDef {
	d := l.Def(paths)
	l.define(&d)
	return d
}

// remember notes in the catalog what the container holds now.
func (l *loadCommand) remember(from *harness.Origin) error {
	if from == nil {
		return harness.SetOrigin(l.DB, l.Container, nil)
	}
	known, err := harness.ReadCatalog(l.DB)
	if err != nil {
		return err
	}
	if old, ok := known.Containers[l.Container]; ok && old.Generator == from.Generator {
		from.Documents = max(from.Documents, old.Documents)
	}
	return harness.SetOrigin(l.DB, l.Container, from)
}

// loadReport is what a load prints as JSON: that of a run, but that latencies
// are not measured.
type loadReport struct {
	V        int            `json:"v"`
	Workload string         `json:"workload"` // "load"
	All      loadFigures    `json:"all"`
	Engine   *engineFigures `json:"engine"`
}

// loadFigures describe the writing of documents.
type loadFigures struct {
	Ops           int64   `json:"ops"` // documents written
	OpsPerS       float64 `json:"ops_per_s"`
	Errors        int64   `json:"errors"` // documents refused
	Bytes         int64   `json:"bytes"`  // of the documents
	BytesPerS     float64 `json:"bytes_per_s"`
	SettleSeconds float64 `json:"settle_s"` // flushes and compactions afterwards
}

func newLoadReport(r *harness.LoadResult, figures *engineFigures) *loadReport {
	seconds := max(r.Elapsed.Seconds(), 1e-9)
	return &loadReport{V: 1, Workload: "load", Engine: figures, All: loadFigures{
		Ops: r.Documents, OpsPerS: harness.Round(float64(r.Documents)/seconds, 1), Errors: r.Refused,
		Bytes: r.Bytes, BytesPerS: harness.Round(float64(r.Bytes)/seconds, 1), SettleSeconds: harness.Round(r.Settled.Seconds(), 3),
	}}
}
