package engine

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/internal/latency"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/metricset"
	"github.com/cleavestore/cleave/metrics"
	"github.com/cleavestore/cleave/splitter"
)

// Metrics returns what the store measures, for programs that export it: see package
// metrics. It makes two system calls and reads no file. Its time grows with the number of
// physical partitions and segment files; call it every few seconds. A store that is closed,
// or is being closed, has no metrics.
func (db *DB) Metrics() metrics.Snapshot { return db.metricsIn(metricset.New()) }

// metricsIn is Metrics, collected in an empty set.
func (db *DB) metricsIn(set *metricset.Set) metrics.Snapshot {
	db, call, err := db.enterNewest(context.Background())
	if err != nil {
		return set.Snapshot(db.opts.clock(), db.opened)
	}
	defer call.Leave()
	s := db.stats(true)
	now := db.opts.clock()
	db.addHealth(set, &s, now)
	db.addTraffic(set, &s)
	db.addWritePath(set, &s)
	addStorage(set, &s)
	addReaders(set, &s, now)
	db.addJobs(set)
	db.addContainers(set, &s)
	return set.Snapshot(now, db.opened)
}

func (db *DB) addHealth(set *metricset.Set, s *Stats, now time.Time) {
	set.Flag("cleave_failed", s.Failed != nil)
	set.Flag("cleave_read_only", db.opts.ReadOnly)
	metricset.Add(set, "cleave_opened_timestamp_seconds", float64(db.opened.UnixMilli())/1000)
	metricset.Add(set, "cleave_read_errors_total", s.ReadErrors)
	metricset.Add(set, "cleave_background_errors_total", s.BackgroundErrors)
	if free, err := db.env.FS.Free(); err == nil {
		metricset.Add(set, "cleave_disk_free_bytes", free)
	}
	_, err := db.env.FS.Stat(manifest.ReserveName)
	set.Flag("cleave_reserve_kept", err == nil)
	metricset.Add(set, "cleave_clock_set_back_total", s.ClockSetBack)
	ahead := time.Duration(0)
	if !s.FutureStamp.IsZero() {
		ahead = s.FutureStamp.Sub(now)
	}
	set.Seconds("cleave_future_stamp_seconds", ahead)
	metricset.Add(set, "cleave_log_dropped_bytes", s.Log.Dropped.Bytes)
	metricset.Add(set, "cleave_listener_panics_total", s.ListenerPanics)
	metricset.Add(set, "cleave_events_dropped_total", s.EventsDropped)
}

func (db *DB) addTraffic(set *metricset.Set, s *Stats) {
	metricset.Add(set, "cleave_reads_total", s.Reads)
	metricset.Add(set, "cleave_scans_total", db.counters.scans.Load())
	metricset.Add(set, "cleave_queries_total", db.counters.queries.Load())
	metricset.Add(set, "cleave_writes_total", s.Writes)
	metricset.Add(set, "cleave_deletes_total", s.Deletes)
	metricset.Add(set, "cleave_written_bytes_total", s.WrittenBytes)
	metricset.Add(set, "cleave_conflicts_total", s.Conflicts)
	t := &db.times
	for _, kind := range latency.AllCalls {
		metricset.Add(set, "cleave_slow_calls_total", t.calls.Slows(kind), kind.String())
		set.Histogram("cleave_call_duration_seconds", t.calls.Times(kind).Snapshot(), kind.String())
	}
	set.Histogram("cleave_flush_duration_seconds", t.flushes.Snapshot())
	for i, kind := range rewriteKinds {
		set.Histogram("cleave_compaction_duration_seconds", t.rewrites[i].Snapshot(), kind)
	}
	for _, kind := range []ReshapeKind{ReshapeSplit, ReshapeMerge, ReshapeMove} {
		set.Histogram("cleave_reshape_pause_seconds", t.pauses[kind].Snapshot(), kind.String())
	}
}

func (db *DB) addWritePath(set *metricset.Set, s *Stats) {
	metricset.Add(set, "cleave_stalls_total", s.Stalls)
	set.Seconds("cleave_stalled_seconds_total", s.Stalled)
	metricset.Add(set, "cleave_write_pressure_ratio", db.gate.Fullness())
	metricset.Add(set, "cleave_memory_budget_bytes", s.MemoryBudget)
	metricset.Add(set, "cleave_buffer_limit_bytes", db.env.Pool.Limit())
	metricset.Add(set, "cleave_buffer_bytes", s.BufferBytes)
	metricset.Add(set, "cleave_buffer_frozen_bytes", db.env.FrozenBytes.Load())
	metricset.Add(set, "cleave_buffer_index_bytes", s.IndexBytes)
	metricset.Add(set, "cleave_buffer_held_bytes", s.HeldBytes)
	metricset.Add(set, "cleave_flushes_total", s.Flushes)
	metricset.Add(set, "cleave_flushed_bytes_total", s.FlushedBytes)
	counts := [...]int64{s.Compactions, s.Trims, s.Reindexes}
	bytes := [...]int64{s.CompactedBytes, s.TrimmedBytes, s.ReindexedBytes}
	for i, kind := range rewriteKinds {
		metricset.Add(set, "cleave_compactions_total", counts[i], kind)
		metricset.Add(set, "cleave_compacted_bytes_total", bytes[i], kind)
	}
	if db.log == nil {
		return
	}
	set.Histogram("cleave_log_sync_duration_seconds", db.log.SyncTimes())
	l := &s.Log
	metricset.Add(set, "cleave_log_bytes", l.Bytes)
	metricset.Add(set, "cleave_log_files", l.Files)
	metricset.Add(set, "cleave_log_spare_files", l.Spares)
	metricset.Add(set, "cleave_log_records_total", l.Records)
	metricset.Add(set, "cleave_log_written_bytes_total", l.Written)
	metricset.Add(set, "cleave_log_writes_total", l.Writes)
	metricset.Add(set, "cleave_log_syncs_total", l.Syncs)
	metricset.Add(set, "cleave_log_waits_total", l.Waits)
	set.Seconds("cleave_log_waited_seconds_total", l.Waited)
	metricset.Add(set, "cleave_log_rotations_total", l.Rotations)
	metricset.Add(set, "cleave_log_files_made_total", l.Made)
	metricset.Add(set, "cleave_log_files_recycled_total", l.Recycled)
	metricset.Add(set, "cleave_log_carried_bytes_total", s.CarriedBytes)
	metricset.Add(set, "cleave_sequences_total", s.LastSeq)
}

func addStorage(set *metricset.Set, s *Stats) {
	metricset.Add(set, "cleave_obsolete_bytes", s.ObsoleteBytes)
	metricset.Add(set, "cleave_open_files", s.OpenFiles)
	metricset.Add(set, "cleave_open_files_limit", s.MaxOpenFiles)
	metricset.Add(set, "cleave_reopened_files_total", s.ReopenedFiles)
	metricset.Add(set, "cleave_mapped_files", s.MappedFiles)
	metricset.Add(set, "cleave_mapped_files_limit", s.MaxMappedFiles)
	metricset.Add(set, "cleave_remapped_files_total", s.RemappedFiles)
	metricset.Add(set, "cleave_cold_reads_total", s.ColdReads)
	set.Seconds("cleave_cold_wait_seconds_total", s.ColdWait)
	metricset.Add(set, "cleave_cached_bytes", s.HotBytes)
}

func addReaders(set *metricset.Set, s *Stats, now time.Time) {
	metricset.Add(set, "cleave_snapshots", s.Snapshots)
	set.Seconds("cleave_oldest_snapshot_seconds", s.OldestSnapshot)
	for _, h := range s.Holders {
		metricset.Add(set, "cleave_holders", max(h.Count, 1), h.What)
		if !h.Since.IsZero() {
			metricset.Raise(set, "cleave_holder_age_seconds", now.Sub(h.Since).Seconds(), h.What)
		}
	}
}

func (db *DB) addJobs(set *metricset.Set) {
	for kind := splitter.Split; kind <= splitter.Install; kind++ {
		for i, result := range reshapeResults {
			metricset.Add(set, "cleave_reshapes_total", db.counters.reshapes[kind][i].Load(), kind.String(), result)
		}
	}
	metricset.Add(set, "cleave_reshapes_waiting", db.jobs.Len())
	metricset.Add(set, "cleave_reshapes_running", int(db.times.reshaping.Load()))
}

// addContainers adds what is told of containers and physical partitions.
func (db *DB) addContainers(set *metricset.Set, s *Stats) {
	type labelled struct {
		*PartitionStats
		container string
	}
	var parts []labelled
	labels := make(map[string]string)
	for i := range s.Containers {
		c := &s.Containers[i]
		at := metricset.Container(i, c.Name)
		labels[c.Name] = at
		metricset.Add(set, "cleave_container_partitions", len(c.Partitions), at)
		for k := range c.Partitions {
			addPartition(set, &c.Partitions[k], at)
			parts = append(parts, labelled{&c.Partitions[k], at})
		}
		if c.Def.Throughput > 0 {
			metricset.Add(set, "cleave_container_throughput", c.Def.Throughput, at)
		}
		if open := db.containers.Load().Get(c.Name); open != nil {
			open.addState(set, at)
		}
	}
	slices.SortStableFunc(parts, func(a, b labelled) int { return cmp.Compare(b.Load, a.Load) })
	for _, p := range parts[:min(len(parts), metrics.MostPartitions)] {
		addHotPartition(set, p.PartitionStats, p.container)
	}
	metricset.Add(set, "cleave_partitions_omitted", max(0, len(parts)-metrics.MostPartitions))
	for _, f := range s.Feeds {
		at := labels[f.Container]
		metricset.Add(set, "cleave_feeds", 1, at)
		metricset.Raise(set, "cleave_feed_lag_seconds", f.Lag.Seconds(), at)
		metricset.Raise(set, "cleave_feed_behind_sequences", f.Behind, at)
	}
	for _, d := range s.Damage {
		metricset.Add(set, "cleave_damage", 1, labels[d.Container])
	}
}

// addState adds what Stats does not have of a container.
func (c *Container) addState(set *metricset.Set, at string) {
	metricset.Add(set, "cleave_throttled_total", c.throttled.Load(), at)
	metricset.Add(set, "cleave_damage", 0, at)
	c.reindexing.Lock()
	j := c.reindexing.job
	c.reindexing.Unlock()
	if j != nil && !j.ended() {
		files, _ := c.stale()
		metricset.Add(set, "cleave_index_files_left", files, at)
	}
	if j := c.copier.Load(); j != nil {
		metricset.Add(set, "cleave_copied_documents", j.Progress().Copied, at)
	}
}

// addPartition adds a physical partition to the samples of its container.
func addPartition(set *metricset.Set, p *PartitionStats, at string) {
	metricset.Add(set, "cleave_container_documents", p.Items, at)
	metricset.Add(set, "cleave_container_raw_bytes", p.RawBytes, at)
	metricset.Add(set, "cleave_container_file_bytes", p.FileBytes, at)
	metricset.Add(set, "cleave_container_foreign_bytes", p.ForeignBytes, at)
	metricset.Add(set, "cleave_container_memtable_bytes", p.MemtableBytes, at)
	metricset.Add(set, "cleave_container_dead_versions", p.Dead, at)
	metricset.Add(set, "cleave_container_tombstones", p.Tombstones, at)
	metricset.Add(set, "cleave_container_files", p.Files, at)
	metricset.Raise(set, "cleave_container_runs_most", p.Runs, at)
	metricset.Add(set, "cleave_container_runs_excess", max(0, p.Runs-lsm.TierRuns), at)
	metricset.Add(set, "cleave_container_load", p.Load, at)
}

// addHotPartition adds the samples that a physical partition has of its own.
func addHotPartition(set *metricset.Set, p *PartitionStats, container string) {
	id := strconv.FormatUint(uint64(p.ID), 10)
	metricset.Add(set, "cleave_partition_documents", p.Items, container, id)
	metricset.Add(set, "cleave_partition_file_bytes", p.FileBytes, container, id)
	metricset.Add(set, "cleave_partition_runs", p.Runs, container, id)
	metricset.Add(set, "cleave_partition_load", p.Load, container, id)
	if p.Throughput > 0 {
		metricset.Add(set, "cleave_partition_throughput", p.Throughput, container, id)
		metricset.Add(set, "cleave_partition_consumed_total", p.Consumed, container, id)
		metricset.Add(set, "cleave_partition_throttled_total", p.Throttled, container, id)
	}
}
