package definition

import (
	"fmt"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/synthetickey"
	"github.com/cleavestore/cleave/segment"
)

// Manifest returns a definition that Check has accepted as the manifest of the store has
// it, for a container with this id and name.
func (d *Def) Manifest(id uint32, name string) manifest.Container {
	m := manifest.Container{
		ID: id, Name: name,
		PartitionKey: d.PartitionKey, Synthetic: (*manifest.Synthetic)(d.Synthetic), Levels: len(d.PartitionKey), HashVersion: d.HashVersion,
		Kind: d.Kind.String(), Compression: d.Compression.String(), UniqueKeys: d.UniqueKeys, Index: StoredIndex(d.Index),
		MaxItemBytes: d.Limits.ItemBytes, MaxLogicalKey: d.Limits.LogicalPartitionBytes, MaxLogicalThroughput: d.Limits.LogicalPartitionThroughput,
		MaxBatchOps: d.Limits.BatchOperations, MaxBatchBytes: d.Limits.BatchBytes,
		DefaultTTL: Millis(d.DefaultTTL), MutableTTL: d.MutableTTL, ChangeRetention: d.ChangeRetention.Milliseconds(), Replicated: d.Replicated,
		Throughput: d.Throughput, MaxThroughput: d.Limits.PartitionThroughput, NoBurst: d.NoBurst,
	}
	if d.Synthetic != nil {
		m.Levels = 1
	}
	return m
}

// FromManifest returns the definition of a container that has so many physical
// partitions. fault.ErrTooNew: it uses what this program does not know.
func FromManifest(m *manifest.Container, partitions int) (d Def, err error) {
	d = Def{
		PartitionKey: m.PartitionKey, HashVersion: m.HashVersion, Synthetic: (*synthetickey.Rule)(m.Synthetic), MinPartitions: partitions, UniqueKeys: m.UniqueKeys,
		DefaultTTL: Duration(m.DefaultTTL), MutableTTL: m.MutableTTL, ChangeRetention: time.Duration(m.ChangeRetention) * time.Millisecond, Replicated: m.Replicated,
		Limits: Limits{
			ItemBytes: m.MaxItemBytes, LogicalPartitionBytes: m.MaxLogicalKey, PartitionThroughput: m.MaxThroughput,
			BatchOperations: m.MaxBatchOps, BatchBytes: m.MaxBatchBytes, LogicalPartitionThroughput: m.MaxLogicalThroughput,
		},
		Throughput: m.Throughput, NoBurst: m.NoBurst,
	}
	for d.Kind.String() != m.Kind {
		if d.Kind++; d.Kind > Opaque {
			return d, fmt.Errorf("container %q: kind %q: %w", m.Name, m.Kind, fault.ErrTooNew)
		}
	}
	for d.Compression.String() != m.Compression {
		if d.Compression++; d.Compression > segment.None {
			return d, fmt.Errorf("container %q: compression %q: %w", m.Name, m.Compression, fault.ErrTooNew)
		}
	}
	d.Index = IndexPolicy(m.Index)
	return d, d.Check(m.Name)
}

// StoredIndex returns an index policy as the manifest has it.
func StoredIndex(p index.Policy) *manifest.IndexPolicy {
	if p.Empty() {
		return nil
	}
	p = p.Clone()
	m := &manifest.IndexPolicy{Include: p.Include, Exclude: p.Exclude}
	for _, paths := range p.Composite {
		stored := make([]manifest.CompositePath, len(paths))
		for i, at := range paths {
			stored[i] = manifest.CompositePath(at)
		}
		m.Composite = append(m.Composite, stored)
	}
	return m
}

// IndexPolicy returns an index policy that the manifest has; nil is the empty one.
func IndexPolicy(m *manifest.IndexPolicy) index.Policy {
	if m == nil {
		return index.Policy{}
	}
	p := index.Policy{Include: m.Include, Exclude: m.Exclude}
	for _, stored := range m.Composite {
		paths := make([]index.CompositePath, len(stored))
		for i, at := range stored {
			paths[i] = index.CompositePath(at)
		}
		p.Composite = append(p.Composite, paths)
	}
	return p
}

// Millis returns a time to live as manifests have it: -1 for NoExpiry.
func Millis(ttl time.Duration) int64 {
	if ttl < 0 {
		return -1
	}
	return ttl.Milliseconds()
}

// Duration returns the time to live that manifests have as millis.
func Duration(millis int64) time.Duration {
	if millis < 0 {
		return NoExpiry
	}
	return time.Duration(millis) * time.Millisecond
}
