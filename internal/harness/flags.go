package harness

import (
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/workload"
)

// GeneratorFlags say which documents to make.
type GeneratorFlags struct {
	Generator         string  `placeholder:"NAME" help:"food (nested documents of 0.8 to 2 KiB), ycsb (1.2 KiB), small (72 bytes) or sized (see --doc-size); default food."`
	Docs              Count   `placeholder:"N" help:"Number of documents, such as 250000 or 1M; default 250k."`
	LogicalPartitions Count   `placeholder:"N" help:"Number of distinct partition key values; default 1000."`
	Skew              float64 `placeholder:"X" help:"Exponent of the sizes of logical partitions; 0: all alike, 1: the largest holds twice as much as the second."`
	DocSize           string  `placeholder:"SIZE" help:"Documents of the generator sized: of a size such as 1KiB, or drawn from uniform:, lognormal: or zipf:MIN..MAX; MIN..MAX is short for uniform. Default lognormal:200..20k."`
	Compressible      float64 `default:"-1" placeholder:"X" help:"Of documents of the generator sized, the part that is the same in all, from 0 to 1; default 0.5."`
	Seed              uint64  `default:"1" placeholder:"N" help:"Seed of documents and operations; default ${default}."`
}

const (
	defaultGenerator         = "food"
	defaultDocs              = 250_000
	defaultCompressible      = 0.5
	noCompressible           = -1 // the flag is not given
	DefaultLogicalPartitions = 1000
)

// Given reports whether a flag was set that has a meaning for a generator only.
func (f *GeneratorFlags) Given() bool {
	return f.Generator != "" || f.LogicalPartitions != 0 || f.Skew != 0 || f.DocSize != "" || f.Compressible > 0
}

// NewGenerator returns the generator that the flags describe, and the number of
// documents.
func (f *GeneratorFlags) NewGenerator() (*workload.Generator, int64, error) {
	if x := f.Compressible; x != noCompressible && !(x >= 0 && x <= 1) { // so NaN is refused
		return nil, 0, cli.Usagef("--compressible %v: want 0 to 1", x)
	}
	p := workload.Params{Shape: f.Generator, Seed: f.Seed, LogicalPartitions: f.LogicalPartitions.Int(), Skew: f.Skew}
	if p.Shape == "" {
		p.Shape = defaultGenerator
		if f.DocSize != "" {
			p.Shape = workload.SizedShape
		}
	}
	p.Sizes, p.Compressible = f.DocSize, max(f.Compressible, 0)
	if p.Shape == workload.SizedShape {
		p.Compressible = defaultCompressible
		if f.Compressible >= 0 {
			p.Compressible = f.Compressible
		}
	}
	if p.LogicalPartitions == 0 {
		p.LogicalPartitions = DefaultLogicalPartitions
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

// EngineFlags say how to open a store.
type EngineFlags struct {
	Durability        Durability `default:"synced" placeholder:"WHEN" help:"When a write is acknowledged: synced, buffered or interval:100ms; default ${default}."`
	MemoryBudget      ByteCount  `default:"256MiB" placeholder:"SIZE" help:"Memory that the engine may use for write buffers and scratch; default ${default}."`
	ScanCache         ByteCount  `placeholder:"SIZE" help:"Memory for documents that stay decoded because scans read them often, beside the budget; default a sixteenth of it."`
	MaxPartitionBytes ByteCount  `placeholder:"SIZE" help:"A physical partition splits by itself when its documents take more, such as 8MiB; default 50GiB."`
	Positioned        bool       `help:"Read files by positioned reads, not through a mapping."`
	Log               bool       `help:"Print the engine's log on standard error."`
}

// Options describes the store to be opened; splits is told of its splits.
func (f *EngineFlags) Options(env *Environment, splits *SplitLog) StoreOptions {
	return StoreOptions{
		MemoryBudget: int64(f.MemoryBudget), ScanCacheBytes: int64(f.ScanCache), durability: f.Durability, positioned: f.Positioned,
		maxPartitionBytes: int64(f.MaxPartitionBytes), Splits: splits, logger: env.logger(f.Log),
	}
}

// NewContainerFlags say what a container is when it is made.
type NewContainerFlags struct {
	Partitions  Count  `placeholder:"N" help:"Physical partitions of a new container; default 4."`
	Compression string `placeholder:"HOW" help:"Compression of a new container: fast, small or none; default fast."`
	Index       bool   `help:"Index all values in a new container, as queries take."`
	NoBurst     bool   `help:"A new container keeps none of the throughput that it does not use; see pbench run --throughput."`
}

const defaultPartitions = 4

// Def returns the definition of a new container with a partition key.
func (f *NewContainerFlags) Def(paths []string) ContainerDef {
	d := ContainerDef{PartitionKey: paths, Compression: f.Compression, Partitions: f.Partitions.Int(), NoBurst: f.NoBurst, Index: f.Index}
	if d.Compression == "" {
		d.Compression = "fast"
	}
	if d.Partitions == 0 {
		d.Partitions = defaultPartitions
	}
	return d
}
