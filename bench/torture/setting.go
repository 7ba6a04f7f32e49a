package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// setting is a store and what is done to it.
type setting struct {
	name       string
	shape      shape
	options    engine.Options
	def        engine.ContainerDef
	partitions int           // physical ones, at most
	ttl        time.Duration // of items that are written beside the story; 0: none are
}

// documents is the container of documents.
var documents = engine.ContainerDef{PartitionKey: []string{"/k"}, Index: engine.IndexAll(), UniqueKeys: [][]string{{"/u"}}, DefaultTTL: engine.NoExpiry}

func withPartitions(n int) engine.ContainerDef {
	d := documents
	d.MinPartitions = n
	return d
}

// changeRetention is that of the opaque container.
const changeRetention = time.Minute

// keeps is how long a store keeps what was overwritten or has expired, at least.
func (s setting) keeps() time.Duration {
	return max(changeRetention, s.ttl+max(0, s.options.ExpiryGrace))
}

// settings are what -setting names. Limits are so small that flushes, merges,
// rotations and splits come often, and what is kept for a time is kept for a short
// one.
var settings = []setting{
	{
		name:       "small",
		shape:      small,
		options:    engine.Options{MemoryBudget: 16 << 20, LogFileBytes: 256 << 10, LogBytes: 1 << 20, FileBytes: 512 << 10, MaxPartitionBytes: 2 << 20, ExpiryGrace: -1},
		def:        documents,
		partitions: 6,
	},
	{
		name:       "tiny",
		shape:      shape{Lanes: 8, IDs: 1500, Size: 600, Clears: 20_000},
		options:    engine.Options{MemoryBudget: 16 << 20, LogFileBytes: 64 << 10, LogBytes: 1 << 20, FileBytes: 1 << 20, MaxPartitionBytes: 6 << 20, ExpiryGrace: 5 * time.Second},
		def:        documents,
		partitions: 8,
	},
	{
		name:       "many",
		shape:      shape{Lanes: 48, IDs: 200, Size: 600, Clears: 20_000},
		options:    engine.Options{MemoryBudget: 64 << 20, LogFileBytes: 1 << 20, LogBytes: 8 << 20, FileBytes: 4 << 20, MaxPartitionBytes: 1 << 20, ExpiryGrace: 5 * time.Second},
		def:        withPartitions(16),
		partitions: 32,
	},
	{
		name:       "ttl",
		shape:      shape{Lanes: 16, IDs: 600, Size: 600, Clears: 20_000},
		options:    engine.Options{MemoryBudget: 32 << 20, LogFileBytes: 1 << 20, LogBytes: 4 << 20, ExpiryGrace: 5 * time.Second},
		def:        documents,
		partitions: 4,
		ttl:        20 * time.Second,
	},
}

func settingOf(name string) (setting, error) {
	i := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
	if i < 0 {
		var names []string
		for _, s := range settings {
			names = append(names, s.name)
		}
		return setting{}, fmt.Errorf("setting %q: there are %s", name, strings.Join(names, ", "))
	}
	return settings[i], nil
}

func (s setting) opened(buffered bool) engine.Options {
	o := s.options
	if buffered {
		o.Durability = engine.Buffered
	}
	return o
}
