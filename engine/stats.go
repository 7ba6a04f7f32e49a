package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/cleavestore/cleave/internal/census"
	"github.com/cleavestore/cleave/internal/feed"
	"github.com/cleavestore/cleave/splitter"
	"github.com/cleavestore/cleave/wal"
)

// counters count what happened since Open.
type counters struct {
	reads, readErrors             atomic.Int64
	writes, deletes, writtenBytes atomic.Int64
	flushes, flushedBytes         atomic.Int64
	compactions, compactedBytes   atomic.Int64
	trims, trimmedBytes           atomic.Int64
	reindexes, reindexedBytes     atomic.Int64
	stalls, stalledNanos          atomic.Int64
	conflicts                     atomic.Int64
	listenerPanics, eventsDropped atomic.Int64
	clockSetBack                  atomic.Int64
	scans, queries                atomic.Int64
	reshapes                      [splitter.Install + 1][len(reshapeResults)]atomic.Int64
	backgroundErrors              atomic.Int64
}

func (c *counters) written(bytes int, deleted bool) {
	if deleted {
		c.deletes.Add(1)
	} else {
		c.writes.Add(1)
	}
	c.writtenBytes.Add(int64(bytes))
}

func (c *counters) stalled(d time.Duration) {
	c.stalls.Add(1)
	c.stalledNanos.Add(int64(d))
}

// Stats describes a store at one moment. Counts are since Open, sizes in bytes. The tags
// metric, hot and metered name the metrics that DB.Metrics makes of fields; hot and metered
// those that busy and metered physical partitions have of their own.
type Stats struct {
	Containers []ContainerStats `json:"containers"`
	Feeds      []FeedStats      `json:"feeds,omitempty"` // loops over changes that are under way

	Reads            int64         `json:"reads" metric:"cleave_reads_total"`
	ReadErrors       int64         `json:"read_errors" metric:"cleave_read_errors_total"`
	Writes           int64         `json:"writes" metric:"cleave_writes_total"`
	Deletes          int64         `json:"deletes" metric:"cleave_deletes_total"`
	WrittenBytes     int64         `json:"written_bytes" metric:"cleave_written_bytes_total"` // keys, ids and documents that writes carried
	Flushes          int64         `json:"flushes" metric:"cleave_flushes_total"`             // files written from memtables
	FlushedBytes     int64         `json:"flushed_bytes" metric:"cleave_flushed_bytes_total"`
	Compactions      int64         `json:"compactions" metric:"cleave_compactions_total,compaction"` // files written from files
	CompactedBytes   int64         `json:"compacted_bytes" metric:"cleave_compacted_bytes_total,compaction"`
	Trims            int64         `json:"trims" metric:"cleave_compactions_total,trim"` // shared files written anew without the keys of other partitions
	TrimmedBytes     int64         `json:"trimmed_bytes" metric:"cleave_compacted_bytes_total,trim"`
	Reindexes        int64         `json:"reindexes" metric:"cleave_compactions_total,index"` // files written anew for their indexes
	ReindexedBytes   int64         `json:"reindexed_bytes" metric:"cleave_compacted_bytes_total,index"`
	Stalls           int64         `json:"stalls" metric:"cleave_stalls_total"` // writes that waited a millisecond or more for memory
	Stalled          time.Duration `json:"stalled_ns" metric:"cleave_stalled_seconds_total"`
	Conflicts        int64         `json:"conflicts" metric:"cleave_conflicts_total"` // transactions that were refused and begun anew
	CarriedBytes     int64         `json:"carried_bytes"`                             // written to the log again to free its old files
	ListenerPanics   int64         `json:"listener_panics" metric:"cleave_listener_panics_total"`
	EventsDropped    int64         `json:"events_dropped" metric:"cleave_events_dropped_total"`
	ClockSetBack     int64         `json:"clock_set_back" metric:"cleave_clock_set_back_total"` // writes that found the clock more than MaxClockSkew behind the newest time stamp
	FutureStamp      time.Time     `json:"future_stamp,omitzero"`                               // the highest time stamp, if it is more than MaxClockSkew ahead of the clock
	BackgroundErrors int64         `json:"background_errors" metric:"cleave_background_errors_total"`
	MemoryBudget     int64         `json:"memory_budget_bytes" metric:"cleave_memory_budget_bytes"`
	BufferBytes      int64         `json:"buffer_bytes" metric:"cleave_buffer_bytes"`            // lent to memtables and their indexes
	IndexBytes       int64         `json:"index_bytes" metric:"cleave_buffer_index_bytes"`       // the part of BufferBytes in indexes of memtables
	HeldBytes        int64         `json:"held_bytes" metric:"cleave_buffer_held_bytes"`         // taken from the system for memtables
	HotBytes         int64         `json:"hot_bytes" metric:"cleave_cached_bytes"`               // of documents that are kept decoded
	ColdReads        int64         `json:"cold_reads" metric:"cleave_cold_reads_total"`          // reads of segment pages that were not known to be in memory
	ColdWait         time.Duration `json:"cold_wait_ns" metric:"cleave_cold_wait_seconds_total"` // how long these reads took altogether
	ObsoleteBytes    int64         `json:"obsolete_bytes" metric:"cleave_obsolete_bytes"`        // of files that compactions and drops replaced and that readers still have pinned
	OpenFiles        int           `json:"open_files" metric:"cleave_open_files"`                // segment files that are open
	MaxOpenFiles     int           `json:"max_open_files" metric:"cleave_open_files_limit"`      // as Options say
	MappedFiles      int           `json:"mapped_files" metric:"cleave_mapped_files"`            // segment files that are mapped
	MaxMappedFiles   int           `json:"max_mapped_files" metric:"cleave_mapped_files_limit"`  // as Options say
	ReopenedFiles    int64         `json:"reopened_files" metric:"cleave_reopened_files_total"`  // times that a file was opened again, after it was closed in favour of others
	RemappedFiles    int64         `json:"remapped_files" metric:"cleave_remapped_files_total"`  // times that a file was mapped again
	Log              wal.Stats     `json:"log"`
	// Holders lists, the oldest first, what keeps overwritten or deleted versions, and
	// files, on the disk.
	Holders        []Holder      `json:"holders,omitempty"`
	Snapshots      int           `json:"snapshots" metric:"cleave_snapshots"`                                 // sequences held by snapshots and scans
	OldestSnapshot time.Duration `json:"oldest_snapshot_ns,omitzero" metric:"cleave_oldest_snapshot_seconds"` // age, 0 if none
	LastSeq        uint64        `json:"last_seq"`
	Failed         error         `json:"failed"` // why the store takes no writes; nil if it does
	// Damage is what is set aside, and where damage was met since the store was opened.
	Damage []Damage `json:"damage,omitempty"`
}

// ContainerStats describes a container.
type ContainerStats struct {
	ContainerInfo
	Partitions []PartitionStats `json:"partitions"`
}

// PartitionStats describes a physical partition.
type PartitionStats struct {
	ID PartitionID `json:"id"`
	// Min and Max bound its effective partition keys: upper-case hexadecimal
	// digits, Min inclusive, Max exclusive.
	Min string `json:"min"`
	Max string `json:"max"`
	// Items is the number of documents, at most: overwritten versions are counted too
	// until a compaction drops them. Exact says that none are.
	Items      int64 `json:"documents" metric:"cleave_container_documents" hot:"cleave_partition_documents"`
	Exact      bool  `json:"exact"`
	Tombstones int64 `json:"tombstones" metric:"cleave_container_tombstones"`
	// Dead estimates how many versions in files a compaction would drop if nothing held them:
	// overwritten, deleted and expired versions, and tombstones.
	Dead          int64         `json:"dead" metric:"cleave_container_dead_versions"`
	Logical       int64         `json:"logical_partitions"`                                                                // logical partitions in files; one that is in several counts in each
	RawBytes      int64         `json:"raw_bytes" metric:"cleave_container_raw_bytes"`                                     // of all versions' documents
	FileBytes     int64         `json:"file_bytes" metric:"cleave_container_file_bytes" hot:"cleave_partition_file_bytes"` // estimated, where files are shared with other partitions
	ForeignBytes  int64         `json:"foreign_bytes" metric:"cleave_container_foreign_bytes"`                             // of shared files, outside of the bounds of the partition
	Parents       []PartitionID `json:"parents,omitempty"`                                                                 // the partitions that it replaced; none if made with its container
	Inherits      bool          `json:"inherits,omitempty"`                                                                // memtables that its parents left it are not flushed yet
	Absent        bool          `json:"absent,omitempty"`                                                                  // the store does not have this range: see Container.Evict
	MemtableBytes int64         `json:"memtable_bytes" metric:"cleave_container_memtable_bytes"`
	Memtables     int           `json:"memtables"`
	Runs          int           `json:"runs" hot:"cleave_partition_runs"`
	Files         int           `json:"files" metric:"cleave_container_files"`
	Flushed       uint64        `json:"flushed_seq"` // sequence up to which all writes are in files
	Visible       uint64        `json:"visible_seq"` // sequence up to which all writes are shown
	// Load is what operations on single logical partitions consume, in RU/s: a
	// mean in which the last minute counts most, estimated from one in 256.
	Load float64 `json:"load_ru_per_s" metric:"cleave_container_load" hot:"cleave_partition_load"`
	// Of a container with provisioned throughput:
	Throughput float64 `json:"throughput_ru_per_s,omitzero" metered:"cleave_partition_throughput"` // RU/s that the partition may consume; 0: unlimited
	Consumed   float64 `json:"consumed_ru,omitzero" metered:"cleave_partition_consumed_total"`     // RU since the store was opened or the partition made
	Throttled  int64   `json:"throttled,omitzero" metered:"cleave_partition_throttled_total"`      // operations that were refused in that time
}

// FeedStats describes a loop over the changes of a container:
//
//	Container   string        `json:"container"`
//	Scope       string        `json:"scope"`
//	AllVersions bool          `json:"all_versions"`
//	Follow      bool          `json:"follow"`
//	Since       time.Time     `json:"since,omitzero"`   // when the loop began
//	Shown       int64         `json:"shown"`            // changes, also what was read and not yet handed out
//	Behind      uint64        `json:"behind_sequences"` // of the store, up to what is visible: at least the changes that are left
//	Lag         time.Duration `json:"lag_ns,omitzero"`  // since the loop had shown everything; 0: it has
type FeedStats = feed.Stats

// Stats returns a description of the store. It is cheap: nothing is read from
// disk.
func (db *DB) Stats() Stats { return db.statsIn(context.Background()) }

// statsIn is Stats with a context, which tests give.
func (db *DB) statsIn(ctx context.Context) Stats {
	state, call, err := db.enterNewest(ctx)
	if err != nil { // closed: its partitions are gone
		return state.stats(false)
	}
	defer call.Leave()
	return state.stats(true)
}

// stats is Stats of one state. With partitions the caller is inside a call.
func (db *DB) stats(partitions bool) Stats {
	c := &db.counters
	s := Stats{
		Reads: c.reads.Load(), ReadErrors: c.readErrors.Load(),
		Writes: c.writes.Load(), Deletes: c.deletes.Load(), WrittenBytes: c.writtenBytes.Load(),
		Flushes: c.flushes.Load(), FlushedBytes: c.flushedBytes.Load(),
		Compactions: c.compactions.Load(), CompactedBytes: c.compactedBytes.Load(),
		Trims: c.trims.Load(), TrimmedBytes: c.trimmedBytes.Load(),
		Stalls: c.stalls.Load(), Stalled: time.Duration(c.stalledNanos.Load()),
		Reindexes: c.reindexes.Load(), ReindexedBytes: c.reindexedBytes.Load(),
		Conflicts:    c.conflicts.Load(),
		CarriedBytes: db.env.Carried.Load(),
		ClockSetBack: c.clockSetBack.Load(), FutureStamp: db.futureStamp(),
		ListenerPanics: c.listenerPanics.Load(), EventsDropped: c.eventsDropped.Load(), BackgroundErrors: c.backgroundErrors.Load(),
		MemoryBudget: db.opts.MemoryBudget, BufferBytes: db.env.Pool.Used(), HeldBytes: db.env.Pool.Held(),
		IndexBytes: db.env.MemIndexes.Bytes.Load(), HotBytes: db.hot.Bytes() + db.env.Reader.ScanCache.Bytes(),
	}
	if db.log != nil {
		s.Log = db.log.Stats()
		s.LastSeq = db.log.LastSeq()
	} else {
		s.LastSeq = db.storeManifest.state.LastSeq
	}
	s.Log.Dropped = db.dropped
	s.ColdReads, s.ColdWait = db.cold.Stats()
	s.ObsoleteBytes = db.env.Reclaim.WaitingBytes()
	files := db.files.Stats()
	s.OpenFiles, s.MaxOpenFiles, s.ReopenedFiles = files.Files, files.MaxFiles, files.Reopens
	s.MappedFiles, s.MaxMappedFiles, s.RemappedFiles = files.Mappings, files.MaxMappings, files.Remaps
	s.Snapshots, s.OldestSnapshot = db.env.Pins.Age(db.opts.clock())
	if err := db.failure.Load(); err != nil {
		s.Failed = *err
	}
	s.Holders = db.holders()
	for _, c := range byName(db.containers.Load()) {
		s.Feeds = c.appendFeeds(s.Feeds)
		cs := ContainerStats{ContainerInfo: c.info()}
		if partitions {
			for _, p := range c.routing.Load().parts {
				cs.Partitions = append(cs.Partitions, p.stats())
				s.Damage = append(s.Damage, p.damages()...)
			}
		}
		s.Containers = append(s.Containers, cs)
	}
	return s
}

// Partitions describes the physical partitions of the container in key-space
// order.
func (c *Container) Partitions() []PartitionStats {
	var out []PartitionStats
	for _, p := range c.now().routing.Load().parts {
		out = append(out, p.stats())
	}
	return out
}

func (p *partition) stats() PartitionStats {
	guard := p.db.env.Epoch.Enter()
	defer guard.Leave()
	v := p.Version.Load()
	n := census.Of(v, p.Past())
	s := PartitionStats{
		ID: p.ID, Min: p.Range.Min.String(), Max: p.Range.Max.String(), Parents: slices.Clone(p.Parents), Inherits: len(p.Inherited()) > 0, Absent: p.Absent,
		Items: n.Items, Exact: n.Exact && p.c.unique == nil, Tombstones: n.Tombstones, Dead: n.Dead, Logical: n.Logical,
		RawBytes: n.RawBytes, FileBytes: n.FileBytes, ForeignBytes: n.ForeignBytes, MemtableBytes: n.MemBytes,
		Memtables: n.Memtables, Runs: n.Runs, Files: n.Files,
		Flushed: p.Install.FlushedSeq.Load(), Visible: p.Visible.Load(), Load: p.c.loadStats.Load(&p.loadStats, p.db.uptime()),
	}
	if m := p.meter.Load(); m != nil {
		s.Throughput, s.Consumed, s.Throttled = m.Rate(), float64(p.consumed.Load())/1000, p.refused.Load()
	}
	return s
}

// String returns a table for people, fit to be pasted.
func (s Stats) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "container\tpartition\tfrom\tto\titems\truns\tfiles\tfile bytes\traw bytes\tmemtables\tRU/s\tlimit\tthrottled\t")
	for _, c := range s.Containers {
		for _, p := range c.Partitions {
			bound := "<= "
			if p.Exact {
				bound = ""
			}
			limit, throttled := "-", "-" // not metered
			if p.Throughput > 0 {
				limit, throttled = fmt.Sprintf("%.0f", p.Throughput), fmt.Sprint(p.Throttled)
			}
			fmt.Fprintf(w, "%s\t%d\t%.8s\t%.8s\t%s%d\t%d\t%d\t%d\t%d\t%d\t%.0f\t%s\t%s\t\n",
				c.Name, p.ID, p.Min, p.Max, bound, p.Items, p.Runs, p.Files, p.FileBytes, p.RawBytes, p.MemtableBytes, p.Load, limit, throttled)
		}
	}
	w.Flush()
	fmt.Fprintf(&b, "reads %d (%d failed, %d cold), writes %d, deletes %d, bytes written %d\n", s.Reads, s.ReadErrors, s.ColdReads, s.Writes, s.Deletes, s.WrittenBytes)
	fmt.Fprintf(&b, "flushes %d (%d bytes), compactions %d (%d bytes), stalls %d (%v)\n", s.Flushes, s.FlushedBytes, s.Compactions, s.CompactedBytes, s.Stalls, s.Stalled)
	fmt.Fprintf(&b, "memory budget %d, write buffers %d (held %d), hot documents %d, snapshots %d, background errors %d\n", s.MemoryBudget, s.BufferBytes, s.HeldBytes, s.HotBytes, s.Snapshots, s.BackgroundErrors)
	fmt.Fprintf(&b, "segment files open %d of %d (%d opened again), mapped %d of %d (%d again), obsolete bytes %d\n", s.OpenFiles, s.MaxOpenFiles, s.ReopenedFiles, s.MappedFiles, s.MaxMappedFiles, s.RemappedFiles, s.ObsoleteBytes)
	for _, h := range s.Holders {
		fmt.Fprintf(&b, "%v\n", h)
	}
	for _, f := range s.Feeds {
		fmt.Fprintf(&b, "feed of %s, %s: %d changes shown, behind by %d sequences, %v\n", f.Container, f.Scope, f.Shown, f.Behind, f.Lag.Round(time.Millisecond))
	}
	for _, d := range s.Damage {
		fmt.Fprintf(&b, "damaged: %s, partition %d, [%.8s, %.8s): %v\n", d.Container, d.Partition, d.Min, d.Max, d.Err)
	}
	if s.Failed != nil {
		fmt.Fprintf(&b, "the store takes no writes: %v\n", s.Failed)
	}
	return b.String()
}
