// Package settings describes what a container was made with that is not the default.
package settings

import (
	"strings"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
)

// Settings are what a container was made with that is not the default.
type Settings struct {
	Throughput            float64    `json:"throughput_ru_per_s,omitempty"`
	NoBurst               bool       `json:"no_burst,omitempty"`
	HashVersion           int        `json:"hash_version,omitempty"`  // 1: keys are placed by version 1 of the hash
	TTLSeconds            float64    `json:"default_ttl_s,omitempty"` // -1: items have one of their own
	MutableTTL            bool       `json:"mutable_ttl,omitempty"`   // the default can be changed
	UniqueKeys            [][]string `json:"unique_keys,omitempty"`
	ItemBytes             int64      `json:"item_limit_bytes"`
	LogicalPartitionBytes int64      `json:"logical_partition_limit_bytes"`
	LogicalThroughput     float64    `json:"logical_partition_throughput_ru_per_s,omitempty"`
	LimitedKeys           int        `json:"limited_keys,omitempty"` // logical partitions with limits of their own
	BatchBytes            int64      `json:"batch_limit_bytes"`
}

// Of describes a definition.
func Of(def *engine.ContainerDef) Settings {
	s := Settings{
		Throughput: def.Throughput, NoBurst: def.NoBurst, HashVersion: def.HashVersion, TTLSeconds: def.DefaultTTL.Seconds(), MutableTTL: def.MutableTTL, UniqueKeys: def.UniqueKeys,
		ItemBytes: def.Limits.ItemBytes, LogicalPartitionBytes: def.Limits.LogicalPartitionBytes, LogicalThroughput: def.Limits.LogicalPartitionThroughput, BatchBytes: def.Limits.BatchBytes,
	}
	if def.DefaultTTL < 0 {
		s.TTLSeconds = -1
	}
	return s
}

// Text says what is set, "" if nothing is.
func (s *Settings) Text() string {
	var parts []string
	if s.Throughput > 0 {
		text := humanize.Count(int64(s.Throughput)) + " RU/s"
		if s.NoBurst {
			text += " without bursts"
		}
		parts = append(parts, text)
	}
	if s.HashVersion == 1 {
		parts = append(parts, "keys hashed by version 1")
	}
	if s.LogicalThroughput > 0 {
		parts = append(parts, humanize.Count(int64(s.LogicalThroughput))+" RU/s for each logical partition")
	}
	if s.LimitedKeys > 0 {
		parts = append(parts, humanize.Plural(s.LimitedKeys, "logical partition with limits of its own", "logical partitions with limits of their own"))
	}
	switch {
	case s.TTLSeconds > 0:
		parts = append(parts, "items expire after "+time.Duration(s.TTLSeconds*float64(time.Second)).String())
	case s.TTLSeconds < 0:
		parts = append(parts, "items with a ttl expire")
	}
	if s.MutableTTL {
		parts = append(parts, "the default time to live can be changed")
	}
	for _, paths := range s.UniqueKeys {
		parts = append(parts, "unique "+command.Printable(jsondoc.JoinPaths(paths)))
	}
	for _, limit := range []struct {
		of            string
		bytes, normal int64
	}{
		{"documents", s.ItemBytes, definition.DefaultItemBytes},
		{"logical partitions", s.LogicalPartitionBytes, definition.DefaultLogicalBytes},
		{"batches", s.BatchBytes, definition.DefaultBatchBytes},
	} {
		if limit.bytes != limit.normal {
			parts = append(parts, limit.of+" of at most "+humanize.Bytes(limit.bytes))
		}
	}
	return strings.Join(parts, "; ")
}
