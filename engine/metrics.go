package engine

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/internal/latency"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/metricset"
	"github.com/cleavestore/cleave/internal/tiers"
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
	set.Fields("metric", &s)
	db.addHealth(set, &s, now)
	db.addWork(set)
	for _, h := range s.Holders {
		metricset.Add(set, "cleave_holders", max(h.Count, 1), h.What)
		if !h.Since.IsZero() {
			metricset.Raise(set, "cleave_holder_age_seconds", now.Sub(h.Since).Seconds(), h.What)
		}
	}
	if db.log != nil {
		set.Fields("metric", &s.Log)
		set.Histogram("cleave_log_sync_duration_seconds", db.log.SyncTimes())
		metricset.Add(set, "cleave_log_carried_bytes_total", s.CarriedBytes)
		metricset.Add(set, "cleave_sequences_total", s.LastSeq-db.foundSeq)
	}
	db.addContainers(set, &s)
	return set.Snapshot(now, db.opened)
}

func (db *DB) addHealth(set *metricset.Set, s *Stats, now time.Time) {
	set.Flag("cleave_failed", s.Failed != nil)
	set.Flag("cleave_read_only", db.opts.ReadOnly)
	metricset.Add(set, "cleave_opened_timestamp_seconds", float64(db.opened.UnixMilli())/1000)
	if free, err := db.env.FS.Free(); err == nil {
		metricset.Add(set, "cleave_disk_free_bytes", free)
	}
	_, err := db.env.FS.Stat(manifest.ReserveName)
	set.Flag("cleave_reserve_kept", err == nil)
	ahead := time.Duration(0)
	if !s.FutureStamp.IsZero() {
		ahead = s.FutureStamp.Sub(now)
	}
	set.Seconds("cleave_future_stamp_seconds", ahead)
	metricset.Add(set, "cleave_log_dropped_bytes", s.Log.Dropped.Bytes)
}

// addWork adds what Stats does not have of calls and of background work.
func (db *DB) addWork(set *metricset.Set) {
	metricset.Add(set, "cleave_scans_total", db.counters.scans.Load())
	metricset.Add(set, "cleave_queries_total", db.counters.queries.Load())
	for _, kind := range latency.AllCalls {
		metricset.Add(set, "cleave_slow_calls_total", db.times.calls.Slows(kind), kind.String())
		set.Histogram("cleave_call_duration_seconds", db.times.calls.Times(kind).Snapshot(), kind.String())
	}
	set.Histogram("cleave_flush_duration_seconds", db.times.flushes.Snapshot())
	for i, kind := range rewriteKinds {
		set.Histogram("cleave_compaction_duration_seconds", db.times.rewrites[i].Snapshot(), kind)
	}
	for _, kind := range []ReshapeKind{ReshapeSplit, ReshapeMerge, ReshapeMove} {
		set.Histogram("cleave_reshape_pause_seconds", db.times.pauses[kind].Snapshot(), kind.String())
	}
	metricset.Add(set, "cleave_write_pressure_ratio", db.gate.Fullness())
	metricset.Add(set, "cleave_buffer_limit_bytes", db.env.Pool.Limit())
	metricset.Add(set, "cleave_buffer_frozen_bytes", db.env.FrozenBytes.Load())
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
			p := &c.Partitions[k]
			set.Fields("metric", p, at)
			metricset.Raise(set, "cleave_container_runs_most", p.Runs, at)
			metricset.Add(set, "cleave_container_runs_excess", max(0, p.Runs-tiers.MaxRuns), at)
			parts = append(parts, labelled{p, at})
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
		id := strconv.FormatUint(uint64(p.ID), 10)
		set.Fields("hot", p.PartitionStats, p.container, id)
		if p.Throughput > 0 {
			set.Fields("metered", p.PartitionStats, p.container, id)
		}
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
	c.db.totals.Count(set, at, &c.counted, "cleave_throttled_total", c.throttled.Load())
	c.db.totals.Count(set, at, &c.counted, "cleave_key_throttled_total", c.limits.Refused())
	metricset.Add(set, "cleave_damage", 0, at)
	c.reindexing.Lock()
	j := c.reindexing.job
	c.reindexing.Unlock()
	if j != nil && !j.ended() {
		files, _, _ := c.stale()
		metricset.Add(set, "cleave_index_files_left", files, at)
	}
	if j := c.copier.Load(); j != nil {
		metricset.Add(set, "cleave_copied_documents", j.Progress().Copied, at)
	}
}
