package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/internal/workload"
)

// generatorFlags say which documents to make.
type generatorFlags struct {
	Generator         string  `placeholder:"NAME" help:"food (nested documents of 0.8 to 2 KiB), ycsb (1.2 KiB) or small (72 bytes); default food."`
	Docs              count   `placeholder:"N" help:"Number of documents, such as 250000 or 1M; default 250k."`
	LogicalPartitions count   `placeholder:"N" help:"Number of distinct partition key values; default 1000."`
	Skew              float64 `placeholder:"X" help:"Exponent of the sizes of logical partitions; 0: all alike, 1: the largest holds twice as much as the second."`
	Seed              uint64  `default:"1" placeholder:"N" help:"Seed of documents and operations; default ${default}."`
}

const (
	defaultGenerator         = "food"
	defaultDocs              = 250_000
	defaultLogicalPartitions = 1000
)

// given reports whether a flag was set that has a meaning for a generator only.
func (f *generatorFlags) given() bool {
	return f.Generator != "" || f.LogicalPartitions != 0 || f.Skew != 0
}

// generator returns the generator that the flags describe, and the number of
// documents.
func (f *generatorFlags) generator() (*workload.Generator, int64, error) {
	p := workload.Params{Shape: f.Generator, Seed: f.Seed, LogicalPartitions: f.LogicalPartitions.int(), Skew: f.Skew}
	if p.Shape == "" {
		p.Shape = defaultGenerator
	}
	if p.LogicalPartitions == 0 {
		p.LogicalPartitions = defaultLogicalPartitions
	}
	g, err := workload.NewGenerator(p)
	if err != nil {
		return nil, 0, cli.Usage(err)
	}
	n := int64(f.Docs)
	if n == 0 {
		n = defaultDocs
	}
	return g, n, nil
}

// engineFlags say how to open a store.
type engineFlags struct {
	Durability        durability `default:"synced" placeholder:"WHEN" help:"When a write is acknowledged: synced, buffered or interval:100ms; default ${default}."`
	MemoryBudget      byteCount  `default:"256MiB" placeholder:"SIZE" help:"Memory that the engine may use for write buffers and scratch; default ${default}."`
	MaxPartitionBytes byteCount  `placeholder:"SIZE" help:"A physical partition splits by itself when its documents take more, such as 8MiB; default 50GiB."`
	Positioned        bool       `help:"Read files by positioned reads, not through a mapping."`
	Log               bool       `help:"Print the engine's log on standard error."`
}

// options describes the store to be opened; splits is told of its splits.
func (f *engineFlags) options(env *environment, splits *splitLog) storeOptions {
	return storeOptions{
		memoryBudget: int64(f.MemoryBudget), durability: f.Durability, positioned: f.Positioned,
		maxPartitionBytes: int64(f.MaxPartitionBytes), splits: splits, logger: env.logger(f.Log),
	}
}

// newContainerFlags say what a container is when it is made.
type newContainerFlags struct {
	Partitions  count  `placeholder:"N" help:"Physical partitions of a new container; default 4."`
	Compression string `placeholder:"HOW" help:"Compression of a new container: fast, small or none; default fast."`
	Index       bool   `help:"Index all values in a new container, as queries take."`
	NoBurst     bool   `help:"A new container keeps none of the throughput that it does not use; see pbench run --throughput."`
}

const defaultPartitions = 4

func (f *newContainerFlags) def(paths []string) containerDef {
	d := containerDef{partitionKey: paths, compression: f.Compression, partitions: f.Partitions.int(), noBurst: f.NoBurst, index: f.Index}
	if d.compression == "" {
		d.compression = "fast"
	}
	if d.partitions == 0 {
		d.partitions = defaultPartitions
	}
	return d
}

// limitFlags say what a new container allows.
type limitFlags struct {
	TTL                   ttl       `name:"ttl" placeholder:"TIME" help:"How long documents of a new container live after their last write, such as 24h; own: only those with a ttl of their own expire; default for ever."`
	UniqueKey             []string  `sep:"none" placeholder:"/PATH,..." help:"Paths whose values no two documents of a logical partition of a new container may share; may be repeated."`
	ItemLimit             byteCount `placeholder:"SIZE" help:"Largest document of a new container, up to 3MiB; default 2MiB."`
	LogicalPartitionLimit byteCount `placeholder:"SIZE" help:"What a logical partition of a new container may hold; default 20GiB."`
	BatchLimit            byteCount `placeholder:"SIZE" help:"Largest transaction of a new container, up to 4MiB; default 2MiB."`
}

// ttl is a DefaultTTL as a flag.
type ttl time.Duration

// UnmarshalText reads "own" or a time.
func (d *ttl) UnmarshalText(text []byte) error {
	if string(text) == "own" {
		*d = ttl(noExpiry)
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
func (f *limitFlags) define(d *containerDef) {
	d.ttl, d.itemBytes, d.logicalBytes, d.batchBytes = time.Duration(f.TTL), int64(f.ItemLimit), int64(f.LogicalPartitionLimit), int64(f.BatchLimit)
	for _, set := range f.UniqueKey {
		d.uniqueKeys = append(d.uniqueKeys, strings.Split(set, ","))
	}
}

// differ returns the name of a flag that says something else than a container
// that exists has, "" if there is none.
func (f *limitFlags) differ(is containerDef) string {
	var want containerDef
	f.define(&want)
	switch {
	case want.ttl != 0 && want.ttl != is.ttl:
		return "--ttl"
	case want.uniqueKeys != nil && !slices.EqualFunc(want.uniqueKeys, is.uniqueKeys, slices.Equal):
		return "--unique-key"
	case want.itemBytes != 0 && want.itemBytes != is.itemBytes:
		return "--item-limit"
	case want.logicalBytes != 0 && want.logicalBytes != is.logicalBytes:
		return "--logical-partition-limit"
	case want.batchBytes != 0 && want.batchBytes != is.batchBytes:
		return "--batch-limit"
	}
	return ""
}

type loadCommand struct {
	DB           string   `name:"db" required:"" type:"directory" placeholder:"DIR" help:"Directory of the store; made if it is absent."`
	Container    string   `default:"docs" placeholder:"NAME" help:"Container to load into; made if the store has none of this name; default ${default}."`
	Data         string   `placeholder:"FILE" help:"NDJSON file, plain or compressed with gzip or zstd; - is standard input. Without it documents are generated."`
	PartitionKey []string `placeholder:"/PATH" help:"Partition key of a new container, 1 to 3 paths; generated documents know theirs."`
	generatorFlags
	newContainerFlags
	limitFlags
	Throughput count `placeholder:"RU/S" help:"Provision the container with so many request units a second once it is loaded; default: leave it as it is."`
	engineFlags
	BatchBytes byteCount  `default:"1MiB" placeholder:"SIZE" help:"Bytes of documents between two durable points; default ${default}."`
	Skip       position   `placeholder:"N" help:"Pass over the first documents of the input, to go on with a load that was broken off."`
	MaxErrors  int64      `placeholder:"N" help:"Name refused documents and go on, up to so many; default: stop at the first."`
	NoSettle   bool       `help:"Do not wait for flushes, merges and splits at the end."`
	JSON       jsonOutput `name:"json" placeholder:"FILE" help:"Write the figures as JSON, in the form of those of pbench run; - is standard output, in place of the text."`
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
func (l *loadCommand) Run(ctx context.Context, env *environment) (err error) {
	in, paths, from, err := l.input(env)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := in.close(); err == nil {
			err = closeErr
		}
	}()
	if err = l.check(paths); err != nil {
		return err
	}
	if err = l.JSON.open(); err != nil {
		return err
	}
	defer l.JSON.discard()
	splits, begun := new(splitLog), time.Now()
	s, err := env.open(ctx, l.DB, l.options(env, splits))
	if err != nil {
		return err
	}
	shut := sync.OnceValue(s.Close)
	defer func() { err = withClose(err, shut()) }()
	if err = takeBack(ctx, env, l.DB, s); err != nil {
		return err
	}
	c, err := l.container(ctx, s, paths)
	if err != nil {
		return err
	}
	var keys *keyCheck
	if from == nil {
		keys = newKeyCheck(c.Def().partitionKey)
		in.docs = keys.docs(in.docs)
	}
	before := s.Stats()
	var mem measure.Memory
	result, err := load(ctx, env, c, in, int64(l.BatchBytes), l.MaxErrors, &mem, splits)
	position := int64(l.Skip) + result.position
	keys.warn(env)
	if ctx.Err() != nil {
		err = errInterrupted
	}
	if err != nil {
		closeErr := shut()
		if closeErr != nil && !l.Durability.synced() {
			return withClose(err, closeErr) // who knows what is written
		}
		var refused *refusedError
		if errors.As(err, &refused) {
			env.notef("%s written; to go on behind the one that was refused: --skip %d; to pass over more such: --max-errors N", wasOrWere(result.documents), position+1)
		} else {
			env.notef("%s written; to go on there: --skip %d", wasOrWere(result.documents), position)
		}
		if errors.Is(err, errDiskFull) {
			env.notef("the disk is full: make room first")
		}
		return withClose(err, closeErr)
	}
	if !l.NoSettle {
		if err := result.settle(ctx, env, s, &mem, splits); err != nil {
			return err
		}
	}
	if l.Throughput > 0 {
		if err := c.SetThroughput(ctx, float64(l.Throughput)); err != nil {
			return err
		}
	}
	figures := newEngineFigures(s, before, mem)
	partitions := c.Def().partitions
	if err := shut(); err != nil {
		return err
	}
	figures.Splits = splits.summary(begun)
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
	if !l.JSON.replacesText() {
		printMachine(env.stdout, env.args, host)
		result.print(env.stdout, in.about, partitions)
		figures.print(env.stdout)
	}
	figures.From = &host
	figures.Run = &settings{
		Container: l.Container, Documents: result.documents, Partitions: partitions, Seconds: round(result.elapsed.Seconds(), 3),
		Durability: l.Durability.String(), MemoryBudget: int64(l.MemoryBudget), Seed: l.Seed,
	}
	return l.JSON.write(env, result.report(figures))
}

// input opens what is to be loaded, and returns the partition key paths for a
// new container.
func (l *loadCommand) input(env *environment) (in *input, paths []string, from *origin, err error) {
	if l.Docs > 0 && int64(l.Skip) > int64(l.Docs) {
		return nil, nil, nil, usagef("--skip %d is more than --docs %d", l.Skip, l.Docs)
	}
	if l.Data != "" {
		if l.given() {
			return nil, nil, nil, usagef("--generator, --logical-partitions and --skew do not go with --data")
		}
		in, err = fileInput(l.Data, env.stdin, int64(l.Skip), int64(l.Docs))
		return in, l.PartitionKey, nil, err
	}
	g, n, err := l.generator()
	if err != nil {
		return nil, nil, nil, err
	}
	if len(l.PartitionKey) > 0 && (len(l.PartitionKey) > 1 || l.PartitionKey[0] != g.KeyPath()) {
		return nil, nil, nil, usagef("--partition-key: that of %s documents is %s", g.Params().Shape, g.KeyPath())
	}
	in = generatedInput(g, int64(l.Skip), n)
	return in, []string{g.KeyPath()}, &origin{Generator: g.Params()}, nil
}

// check refuses wrong usage before a store is made for it.
func (l *loadCommand) check(paths []string) error {
	if l.MaxErrors < 0 {
		return usagef("--max-errors %d: cannot be negative", l.MaxErrors)
	}
	if l.BatchBytes > maxBatchBytes {
		return usagef("--batch-bytes: at most %s", formatBytes(int64(maxBatchBytes)))
	}
	if _, err := readCatalog(l.DB); err != nil {
		return err
	}
	if len(paths) > 0 {
		return checkNewContainer(l.Container, l.newDef(paths))
	}
	if names, err := os.ReadDir(l.DB); errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
		return l.needsPartitionKey()
	}
	return nil
}

// maxBatchBytes is what the engine takes at most.
const maxBatchBytes = 8 << 20

func (l *loadCommand) needsPartitionKey() error {
	return usagef("container %q is new: it needs --partition-key /PATH[,/PATH]", l.Container)
}

// container returns the container to load into.
func (l *loadCommand) container(ctx context.Context, s store, paths []string) (container, error) {
	c, err := s.Container(l.Container)
	if errors.Is(err, errNoContainer) {
		if len(paths) == 0 {
			return nil, l.needsPartitionKey()
		}
		return s.CreateContainer(ctx, l.Container, l.newDef(paths))
	}
	if err != nil {
		return nil, err
	}
	is := c.Def()
	if len(paths) > 0 && !slices.Equal(paths, is.partitionKey) {
		return nil, usagef("container %q has the partition key %v, not %v", l.Container, is.partitionKey, paths)
	}
	if l.Partitions != 0 && l.Partitions.int() != is.partitions {
		return nil, usagef("container %q exists with %d partitions; --partitions is for new ones", l.Container, is.partitions)
	}
	if l.Compression != "" && l.Compression != is.compression {
		return nil, usagef("container %q exists with compression %s; --compression is for new ones", l.Container, is.compression)
	}
	if l.NoBurst && !is.noBurst {
		return nil, usagef("container %q exists with bursts; --no-burst is for new ones", l.Container)
	}
	if flag := l.differ(is); flag != "" {
		return nil, usagef("container %q exists, with something else than %s says; it is for new ones", l.Container, flag)
	}
	return c, nil
}

// newDef returns the definition of a new container.
func (l *loadCommand) newDef(paths []string) containerDef {
	d := l.def(paths)
	l.define(&d)
	return d
}

// remember notes in the catalog what the container holds now.
func (l *loadCommand) remember(from *origin) error {
	if from == nil {
		return setOrigin(l.DB, l.Container, nil)
	}
	known, err := readCatalog(l.DB)
	if err != nil {
		return err
	}
	if old, ok := known.Containers[l.Container]; ok && old.Generator == from.Generator {
		from.Documents = max(from.Documents, old.Documents)
	}
	return setOrigin(l.DB, l.Container, from)
}

// loadResult tells what a load did.
type loadResult struct {
	position  int64 // in the input, behind what was skipped: all before it is durable or refused
	documents int64 // written
	refused   int64
	bytes     int64 // of the documents
	elapsed   time.Duration
	settled   time.Duration
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
	SettleSeconds float64 `json:"settle_s"` // flushes and merges afterwards
}

func (r *loadResult) report(figures *engineFigures) *loadReport {
	seconds := max(r.elapsed.Seconds(), 1e-9)
	return &loadReport{V: 1, Workload: "load", Engine: figures, All: loadFigures{
		Ops: r.documents, OpsPerS: round(float64(r.documents)/seconds, 1), Errors: r.refused,
		Bytes: r.bytes, BytesPerS: round(float64(r.bytes)/seconds, 1), SettleSeconds: round(r.settled.Seconds(), 3),
	}}
}

// load writes an input to a container.
func load(ctx context.Context, env *environment, c container, in *input, batchBytes, maxErrors int64, mem *measure.Memory, splits *splitLog) (r loadResult, err error) {
	start := time.Now()
	bar := newProgress(env, "load", start)
	defer bar.end()
	defer func() { r.elapsed = time.Since(start) }()
	show := func(documents, bytes int64) {
		now := time.Now()
		bar.show(now, in.part(), func() string {
			mem.Sample()
			seconds := now.Sub(start).Seconds()
			n, size := r.documents+documents, r.bytes+bytes
			return fmt.Sprintf("%s  %s  %s/s  %s/s%s", plural(n, "document"), formatBytes(size),
				formatCount(int64(float64(n)/seconds)), formatBytes(float64(size)/seconds), splits.live())
		})
	}
	for {
		n, bytes, err := c.Load(ctx, in.docs, loadOptions{batchBytes: batchBytes, progress: show})
		r.position += n
		r.documents += n
		r.bytes += bytes
		var bad *inputError
		if !errors.As(err, &bad) {
			return r, err
		}
		if r.refused == maxErrors {
			return r, &refusedError{in.refused(bad.err)}
		}
		r.refused++
		r.position++
		bar.end()
		env.notef("refused: %v", in.refused(bad.err))
	}
}

// withClose adds to an error what closing the store said, unless that is nothing
// new.
func withClose(err, closeErr error) error {
	if errors.Is(err, closeErr) || errors.Is(err, errDiskFull) && errors.Is(closeErr, errDiskFull) {
		return err
	}
	return errors.Join(err, closeErr)
}

func wasOrWere(documents int64) string {
	if documents == 1 {
		return "1 document was"
	}
	return formatCount(documents) + " documents were"
}

// refusedError ends a load at a document, which another attempt would meet again.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// settle waits for flushes, merges and splits.
func (r *loadResult) settle(ctx context.Context, env *environment, s store, mem *measure.Memory, splits *splitLog) error {
	start := time.Now()
	bar := newProgress(env, "settle", start)
	defer bar.end()
	err := measure.WhileWaiting(func() error { return s.Settle(ctx) }, func(now time.Time) {
		mem.Sample()
		bar.show(now, -1, func() string { return "flush and merge" + splits.live() })
	})
	r.settled = time.Since(start)
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// print writes the result as lines.
func (r *loadResult) print(w io.Writer, about string, partitions int) {
	seconds := max(r.elapsed.Seconds(), 1e-9)
	fmt.Fprintf(w, "%s into %s\n", about, plural(partitions, "physical partition"))
	fmt.Fprintf(w, "  loaded   %s, %s in %s s: %s, %s/s", plural(r.documents, "document"), formatBytes(r.bytes),
		formatShort(seconds), formatRate(float64(r.documents)/seconds), formatBytes(float64(r.bytes)/seconds))
	if r.settled > 0 {
		fmt.Fprintf(w, "; settled in %s s more", formatShort(r.settled.Seconds()))
	}
	fmt.Fprintln(w)
	if r.refused > 0 {
		fmt.Fprintf(w, "  refused  %s\n", plural(r.refused, "document"))
	}
}
