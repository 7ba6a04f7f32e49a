// Package definition has the rules for the definitions of containers: which are valid and
// what their defaults are, how the manifest of the store has them, what the engine makes
// of them, and in what two of them differ.
//
// Invariants:
//
//  1. A definition that Check has accepted shares no memory with the one it was made from.
//  2. FromManifest of Manifest gives an equal definition, but for durations, which the
//     manifest has in milliseconds, and for MinPartitions, which it does not have.
//
// The package keeps no state. Nothing here is for hot paths.
package definition

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/keyscope"
	"github.com/cleavestore/cleave/internal/synthetickey"
	"github.com/cleavestore/cleave/internal/throughput"
	"github.com/cleavestore/cleave/internal/uniquekey"
	"github.com/cleavestore/cleave/segment"
)

// Bounds and defaults.
const (
	DefaultItemBytes        = 2 << 20
	MaxItemBytes            = 3 << 20
	DefaultLogicalBytes     = 20 << 30
	DefaultBatchOperations  = 100
	MaxBatchOperations      = 10_000
	DefaultBatchBytes       = 2 << 20
	maxBatchBytes           = 4 << 20
	defaultPartitionRU      = 10_000
	MaxPartitions           = 1 << 16 // physical partitions of a container
	maxNameBytes            = 255
	maxPatterns             = 10_000 // of an index policy
	maxRate                 = 1e9    // RU/s, of one partition
	NoExpiry                = -1     // as DefaultTTL: only items with a time to live of their own expire
	MaxLogicalBytes         = 1 << 62
	opaqueKey               = "/key" // the path that stands for the key of an opaque container
	leastTTL, leastRetained = time.Millisecond, time.Second
)

// Kind says what a container keeps.
type Kind uint8

// Kinds of containers.
const (
	JSON Kind = iota
	Opaque
)

// String returns "json" or "opaque".
func (k Kind) String() string {
	if k == Opaque {
		return "opaque"
	}
	return "json"
}

// UnmarshalText reads what String returns. The error matches fault.ErrInvalid; k is JSON then.
func (k *Kind) UnmarshalText(text []byte) error {
	switch string(text) {
	case "json":
		*k = JSON
	case "opaque":
		*k = Opaque
	default:
		*k = JSON
		return fmt.Errorf("%w: kind %q: want json or opaque", fault.ErrInvalid, jsondoc.Clip(string(text)))
	}
	return nil
}

// Def is the definition of a container. The fields are those of engine.ContainerDef.
type Def struct {
	PartitionKey    []string
	Synthetic       *synthetickey.Rule // nil: PartitionKey names the members
	HashVersion     int                // of the partition key; 0 and 2 are the same, Check makes it 0
	Kind            Kind
	Compression     segment.Compression
	MinPartitions   int
	DefaultTTL      time.Duration
	MutableTTL      bool
	Throughput      float64
	NoBurst         bool
	Replicated      bool
	Limits          Limits
	ChangeRetention time.Duration
	Index           index.Policy
	UniqueKeys      [][]string
}

// Limits bound what a container takes. The fields are those of engine.ContainerLimits.
type Limits struct {
	ItemBytes                  int64
	LogicalPartitionBytes      int64
	BatchOperations            int
	BatchBytes                 int64
	PartitionThroughput        float64
	LogicalPartitionThroughput float64
}

// Check fills in defaults and validates the definition and the name. It does not look
// into the paths of the partition key: see Compile.
func (d *Def) Check(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if d.Kind > Opaque {
		return fmt.Errorf("container kind %d", d.Kind)
	}
	if d.Compression > segment.None {
		return fmt.Errorf("compression %d", d.Compression)
	}
	if err := d.check(); err != nil {
		return fmt.Errorf("container %q: %w", name, err)
	}
	d.Index, d.UniqueKeys = d.Index.Clone(), uniquekey.Clone(d.UniqueKeys)
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxNameBytes {
		return fmt.Errorf("container name of %d bytes: between 1 and %d", len(name), maxNameBytes)
	}
	for _, r := range name {
		if r < 0x20 || r == '/' || r == '\\' || r == '#' || r == '?' || r == 0xFFFD {
			return fmt.Errorf("container name %q: control characters, / \\ # ? and bad UTF-8 are refused", name)
		}
	}
	return nil
}

func (d *Def) check() error {
	if err := d.checkKey(); err != nil {
		return err
	}
	if err := within("MinPartitions", &d.MinPartitions, 1, 1, MaxPartitions); err != nil {
		return err
	}
	if err := CheckTTL(d.DefaultTTL); err != nil {
		return err
	}
	if d.ChangeRetention != 0 && d.Replicated {
		return errors.New("ChangeRetention of a replicated container: its log has all versions")
	}
	if d.ChangeRetention < 0 || d.ChangeRetention > 0 && d.ChangeRetention < leastRetained {
		return fmt.Errorf("ChangeRetention %v: 0 or at least a second", d.ChangeRetention)
	}
	l := &d.Limits
	if err := within("Limits.ItemBytes", &l.ItemBytes, DefaultItemBytes, 1, MaxItemBytes); err != nil {
		return err
	}
	if err := within("Limits.LogicalPartitionBytes", &l.LogicalPartitionBytes, DefaultLogicalBytes, 1, MaxLogicalBytes); err != nil {
		return err
	}
	if _, err := d.CompileIndex(d.Index); err != nil {
		return err
	}
	if _, err := d.compileUnique(); err != nil {
		return err
	}
	if err := within("Limits.BatchOperations", &l.BatchOperations, DefaultBatchOperations, 1, MaxBatchOperations); err != nil {
		return err
	}
	if err := within("Limits.BatchBytes", &l.BatchBytes, DefaultBatchBytes, 1, maxBatchBytes); err != nil {
		return err
	}
	if err := within("Limits.PartitionThroughput", &l.PartitionThroughput, defaultPartitionRU, 1, maxRate); err != nil {
		return err
	}
	if err := CheckKeyRate(l.LogicalPartitionThroughput); err != nil {
		return fmt.Errorf("Limits.LogicalPartitionThroughput: %w", err)
	}
	return throughput.Check(d.Throughput, l.PartitionThroughput, MaxPartitions)
}

// within sets a field that is 0 to its default, and returns an error if a value lies
// outside of its bounds, or is not a number.
func within[N int | int64 | float64](field string, v *N, otherwise, least, most N) error {
	if *v == 0 {
		*v = otherwise
	}
	if !(*v >= least && *v <= most) {
		return fmt.Errorf("%s %v: between %v and %v", field, *v, least, most)
	}
	return nil
}

// checkKey checks how partition keys are made, except for the paths.
func (d *Def) checkKey() error {
	if d.Kind == Opaque && len(d.PartitionKey) == 0 {
		d.PartitionKey = []string{opaqueKey}
	}
	n := len(d.PartitionKey)
	switch {
	case d.Synthetic == nil && (n == 0 || n > 3):
		return fmt.Errorf("%d partition key paths: between 1 and 3", n)
	case d.Synthetic == nil:
	case d.Kind != JSON:
		return errors.New("field Synthetic: documents of an opaque container are not read")
	case n > 0:
		return errors.New("both PartitionKey and Synthetic are given")
	default:
		if err := d.Synthetic.Check(); err != nil {
			return err
		}
	}
	d.Synthetic, d.PartitionKey = d.Synthetic.Clone(), slices.Clone(d.PartitionKey)
	return d.checkHash()
}

// checkHash checks the version of the hash.
func (d *Def) checkHash() error {
	if d.HashVersion == 2 {
		d.HashVersion = 0
	}
	switch {
	case d.HashVersion == 0:
		return nil
	case d.HashVersion != 1:
		return fmt.Errorf("HashVersion %d: 1 or 2", d.HashVersion)
	case len(d.PartitionKey) != 1:
		return errors.New("HashVersion 1: the partition key has one path, and is not synthetic")
	case d.Replicated:
		return errors.New("HashVersion 1 of a replicated container: its groups route by version 2")
	}
	return nil
}

// CheckTTL returns an error if a container cannot have this DefaultTTL.
func CheckTTL(ttl time.Duration) error {
	if ttl < 0 && ttl != NoExpiry || ttl > 0 && ttl < leastTTL {
		return fmt.Errorf("DefaultTTL %v: 0, NoExpiry or at least a millisecond", ttl)
	}
	return nil
}

// CheckKeyRate returns an error if a logical partition cannot have this throughput.
func CheckKeyRate(perSecond float64) error {
	if perSecond != 0 && !(perSecond >= 1 && perSecond <= maxRate) {
		return fmt.Errorf("throughput of %v RU/s of a logical partition: 0, or between 1 and 1e9", perSecond)
	}
	return nil
}

// KeyText returns the definition of the partition key for people: its paths, or the rule.
func (d *Def) KeyText() string {
	if d.Synthetic != nil {
		return d.Synthetic.String()
	}
	return jsondoc.JoinPaths(d.PartitionKey)
}

// Compiled is what the engine makes of a definition.
type Compiled struct {
	Keys   keyscope.Definition
	Paths  *jsondoc.Paths
	Unique *uniquekey.Keys // nil: there are none
	Index  *index.Compiled // nil: nothing is indexed
}

// Compile makes ready what follows from a definition that Check has accepted.
func (d *Def) Compile() (c Compiled, err error) {
	c.Keys = keyscope.Definition{
		Levels: len(d.PartitionKey), Version1: d.HashVersion == 1, Sources: d.PartitionKey, Rule: d.Synthetic, Text: d.KeyText(),
	}
	if d.Synthetic != nil {
		c.Keys.Levels, c.Keys.Sources = 1, d.Synthetic.Sources()
	}
	if c.Paths, err = jsondoc.Compile(c.Keys.Sources); err != nil {
		return c, err
	}
	if c.Unique, err = d.compileUnique(); err != nil {
		return c, err
	}
	c.Index, err = d.CompileIndex(d.Index)
	return c, err
}

// CompileIndex makes a policy for the container ready; nil: nothing is indexed.
func (d *Def) CompileIndex(p index.Policy) (*index.Compiled, error) {
	c, err := index.Compile(p)
	if err != nil || p.Empty() {
		return nil, err
	}
	if d.Kind == Opaque {
		return nil, errors.New("index policy: documents of an opaque container are not read")
	}
	return c, nil
}

// CheckPatterns returns an error for an index policy with more patterns than one that is set may have. What a store has
// already may have more.
func CheckPatterns(p index.Policy) error {
	if n := len(p.Include) + len(p.Exclude); n > maxPatterns {
		return fmt.Errorf("index policy: it has %d patterns, at most %d are possible", n, maxPatterns)
	}
	return nil
}

// compileUnique makes the unique keys ready; nil: there are none.
func (d *Def) compileUnique() (*uniquekey.Keys, error) {
	if len(d.UniqueKeys) == 0 {
		return nil, nil
	}
	if d.Kind == Opaque {
		return nil, errors.New("unique keys: documents of an opaque container are not read")
	}
	return uniquekey.Compile(d.UniqueKeys)
}
