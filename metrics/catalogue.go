package metrics

import "slices"

// Catalogue returns the descriptions of all metrics. A store without a container, feed or
// damage has no sample of the metrics that describe those.
func Catalogue() []*Desc { return slices.Clone(catalogue) }

// Find returns the description of a metric, nil if there is none of that name.
func Find(name string) *Desc { return byName[name] }

var byName = func() map[string]*Desc {
	all := make(map[string]*Desc, len(catalogue))
	for _, d := range catalogue {
		all[d.Name] = d
	}
	return all
}()

// The groups, in the order of docs/metrics.md.
const (
	health     = "Health"
	traffic    = "Traffic"
	latencies  = "Latency"
	writePath  = "Write path"
	storage    = "Storage"
	readers    = "Readers that hold space"
	feeds      = "Change feeds"
	jobs       = "Jobs"
	containers = "Containers"
	partitions = "Physical partitions"
)

func of(labels ...string) []string { return labels }

var catalogue = []*Desc{
	{"cleave_failed", Gauge, Flag, "Whether the store takes no writes because a write or sync of its log or a manifest failed", nil, health,
		"Look for the cause in the log and in `Stats.Failed`, and at the device. Then close the store and open it again: see [ErrFailed](crash-safety.md#faults-and-what-the-caller-gets)."},
	{"cleave_read_only", Gauge, Flag, "Whether the store is open read-only", nil, health, ""},
	{"cleave_opened_timestamp_seconds", Gauge, Seconds, "When the store was opened, in Unix time", nil, health, "A rise that nobody planned is a crash."},
	{"cleave_damage", Gauge, "places", "Damaged places: files and partitions that are set aside, and damage that was met since the store was opened", of("container"), health,
		"`pinspect verify` names every damaged place. Restore a backup, or copy what can be read with `pinspect repair`."},
	{"cleave_read_errors_total", Counter, "reads", "Reads and scans that damage or a failed file-system call has ended", nil, health, "As for `cleave_damage`."},
	{"cleave_background_errors_total", Counter, "errors", "Errors of flushes, compactions, splits and other background work, which is tried again", nil, health,
		"The log of the store has each error. A full disk is the most frequent cause."},
	{"cleave_disk_free_bytes", Gauge, Bytes, "Space that the file system of the store has left", nil, health,
		"Leave room for compactions: as much as the three largest partitions have on disk. On a full disk writes fail with `ErrDiskFull`; deletes free space after a compaction."},
	{"cleave_reserve_kept", Gauge, Flag, "Whether the store has its reserve file, with whose space it can be opened on a full disk", nil, health,
		"Free space and open the store again, which makes the file again."},
	{"cleave_clock_set_back_total", Counter, "writes", "Writes that found the clock further behind the newest time stamp than Options.MaxClockSkew", nil, health, "Repair the clock of the machine: expiry and change retention go by it."},
	{"cleave_future_stamp_seconds", Gauge, Seconds, "How far the newest time stamp is ahead of the clock, if that is more than Options.MaxClockSkew; else 0", nil, health, "As for `cleave_clock_set_back_total`."},
	{"cleave_log_dropped_bytes", Gauge, Bytes, "What Open ignored at the end of the log: writes that were not known to be durable", nil, health, "Normal after a power cut or a kill. Without one, examine the device."},
	{"cleave_listener_panics_total", Counter, "panics", "Panics in functions of the event listener", nil, health, "Repair the function. The log of the store has the panic."},
	{"cleave_events_dropped_total", Counter, "events", "Events that were dropped because the listener was too slow", nil, health, "Make the functions of the listener faster."},

	{"cleave_reads_total", Counter, "reads", "Point reads, those of transactions, snapshots and queries included", nil, traffic, ""},
	{"cleave_scans_total", Counter, "scans", "Scans that were begun", nil, traffic, ""},
	{"cleave_queries_total", Counter, "queries", "Queries that were begun", nil, traffic, ""},
	{"cleave_writes_total", Counter, "writes", "Items written; each operation of a batch counts", nil, traffic, ""},
	{"cleave_deletes_total", Counter, "deletes", "Items and logical partitions deleted", nil, traffic, ""},
	{"cleave_written_bytes_total", Counter, Bytes, "Keys, ids and documents that writes carried", nil, traffic, ""},
	{"cleave_throttled_total", Counter, "calls", "Calls that a physical partition refused because it had consumed its share of the throughput", of("container"), traffic,
		"`Container.Hot` names the hot keys. Raise the throughput, split the partition, or choose a key that spreads the load: see [throughput](throughput.md)."},
	{"cleave_key_throttled_total", Counter, "calls", "Calls that were refused because their logical partition had consumed its limit", of("container"), traffic,
		"[The console](console.md) names the keys; `Container.Usage` tells what each has consumed. Raise the limit with `SetKeyLimits`, or let the caller wait as long as the error says."},
	{"cleave_conflicts_total", Counter, "tries", "Tries of transactions that met a conflict and were begun anew", nil, traffic, "Make transactions shorter, or divide what they all write."},
	{"cleave_slow_calls_total", Counter, "calls", "Calls that took longer than Options.SlowCall; 0 if that is not set", of("call"), traffic, "The listener's `SlowCall` tells where the time of each went."},

	{"cleave_call_duration_seconds", Distribution, Seconds, "How long calls took; of scans and queries without the body of the loop, of transactions with their function and reruns", of("call"), latencies,
		"Compare with the write path, the cold reads and the splits of the same time. One read in 32, one scan in 16 and one query in 8 is timed and counted that many times; with Options.SlowCall all are timed."},
	{"cleave_log_sync_duration_seconds", Distribution, Seconds, "How long one sync of the log took", nil, latencies, "Synced writes cannot be faster than this. A rise is the device's, or another user's of the device."},
	{"cleave_flush_duration_seconds", Distribution, Seconds, "How long one flush of a memtable took", nil, latencies, ""},
	{"cleave_compaction_duration_seconds", Distribution, Seconds, "How long one compaction, trim or rewrite for an index took", of("kind"), latencies, ""},
	{"cleave_reshape_pause_seconds", Distribution, Seconds, "How long a split, merge or move made the writes to its partitions wait", of("kind"), latencies, ""},

	{"cleave_stalls_total", Counter, "writes", "Writes that waited a millisecond or more for memory or for compactions", nil, writePath,
		"Flushes or compactions do not keep up with the writes: raise `MemoryBudget`, write less, or take a faster device."},
	{"cleave_stalled_seconds_total", Counter, Seconds, "How long these writes waited altogether", nil, writePath, "As for `cleave_stalls_total`."},
	{"cleave_write_pressure_ratio", Gauge, Ratio, "How far write buffers are filled: 0 up to 80 % of their limit, 1 at the limit", nil, writePath, "As for `cleave_stalls_total`."},
	{"cleave_memory_budget_bytes", Gauge, Bytes, "Options.MemoryBudget", nil, writePath, ""},
	{"cleave_buffer_limit_bytes", Gauge, Bytes, "The part of the memory budget that memtables and their indexes may take", nil, writePath, ""},
	{"cleave_buffer_bytes", Gauge, Bytes, "Memory that memtables and their indexes take", nil, writePath, ""},
	{"cleave_buffer_frozen_bytes", Gauge, Bytes, "The part of it that waits for flushes", nil, writePath, "If it stays near the limit, flushes do not keep up."},
	{"cleave_buffer_index_bytes", Gauge, Bytes, "The part of it in indexes of memtables", nil, writePath, ""},
	{"cleave_buffer_held_bytes", Gauge, Bytes, "Memory taken from the system for memtables", nil, writePath, ""},
	{"cleave_flushes_total", Counter, "flushes", "Memtables that became files", nil, writePath, ""},
	{"cleave_flushed_bytes_total", Counter, Bytes, "What flushes wrote", nil, writePath, ""},
	{"cleave_compactions_total", Counter, "compactions", "Compactions, trims and rewrites for an index", of("kind"), writePath, ""},
	{"cleave_compacted_bytes_total", Counter, Bytes, "What these wrote", of("kind"), writePath, "Divided by `cleave_written_bytes_total`, with flushes and log, it is the write amplification."},
	{"cleave_log_bytes", Gauge, Bytes, "Records that the log must keep", nil, writePath, "Past `LogBytes` partitions are flushed for it. The time to open the store after a crash grows with it."},
	{"cleave_log_files", Gauge, "files", "Log files that are needed", nil, writePath, ""},
	{"cleave_log_spare_files", Gauge, "files", "Log files that are made ahead", nil, writePath, ""},
	{"cleave_log_records_total", Counter, "records", "Records appended to the log", nil, writePath, ""},
	{"cleave_log_written_bytes_total", Counter, Bytes, "Records written to the log", nil, writePath, ""},
	{"cleave_log_writes_total", Counter, "calls", "Calls that wrote records to the log", nil, writePath, ""},
	{"cleave_log_syncs_total", Counter, "syncs", "Syncs of records", nil, writePath, "Synced writes divided by syncs say how many writes share one."},
	{"cleave_log_waits_total", Counter, "calls", "Calls that had to wait for a sync of the log", nil, writePath, ""},
	{"cleave_log_waited_seconds_total", Counter, Seconds, "How long these calls waited altogether", nil, writePath, "See `cleave_log_sync_duration_seconds`."},
	{"cleave_log_rotations_total", Counter, "files", "Log files filled", nil, writePath, ""},
	{"cleave_log_files_made_total", Counter, "files", "Log files made", nil, writePath, ""},
	{"cleave_log_files_recycled_total", Counter, "files", "Log files made out of old ones", nil, writePath, ""},
	{"cleave_log_carried_bytes_total", Counter, Bytes, "Records written to the log again to free its old files", nil, writePath, "If it is a large part of `cleave_log_written_bytes_total`, raise `LogBytes`."},

	{"cleave_obsolete_bytes", Gauge, Bytes, "Files that compactions and drops have replaced and that readers still hold", nil, storage, "`cleave_holder_age_seconds` tells who holds them."},
	{"cleave_open_files", Gauge, "files", "Segment files that are open", nil, storage, ""},
	{"cleave_open_files_limit", Gauge, "files", "Options.MaxOpenFiles", nil, storage, ""},
	{"cleave_reopened_files_total", Counter, "files", "Times that a segment file was opened again, after it was closed in favour of others", nil, storage, "If it rises all the time, raise `MaxOpenFiles` and the limit of the process."},
	{"cleave_mapped_files", Gauge, "files", "Segment files that are mapped", nil, storage, ""},
	{"cleave_mapped_files_limit", Gauge, "files", "Options.MaxMappedFiles", nil, storage, ""},
	{"cleave_remapped_files_total", Counter, "files", "Times that a segment file was mapped again", nil, storage, "If it rises all the time, raise `MaxMappedFiles` and `vm.max_map_count`."},
	{"cleave_cold_reads_total", Counter, "reads", "Reads of segment pages that were not known to be in memory", nil, storage, "If it is a large part of the reads, the store is larger than memory. Where io_uring is forbidden, set `GOMAXPROCS` to four times the number of cores."},
	{"cleave_cold_wait_seconds_total", Counter, Seconds, "How long these reads took altogether", nil, storage, "Divided by `cleave_cold_reads_total` it is the read latency of the device."},
	{"cleave_cached_bytes", Gauge, Bytes, "Documents that are kept decoded because they are read often", nil, storage, ""},
	{"cleave_sequences_total", Counter, "sequences", "Sequences that the store has given to writes since it was opened", nil, storage, ""},

	{"cleave_snapshots", Gauge, "sequences", "Sequences that snapshots, scans and transactions hold", nil, readers, ""},
	{"cleave_oldest_snapshot_seconds", Gauge, Seconds, "Age of the oldest of them, 0 if there is none", nil, readers, "Close snapshots, and end loops that stand still: they keep overwritten versions on the disk."},
	{"cleave_holders", Gauge, "readers", "Readers that keep overwritten versions or files, by what they are; for change retention and expiry grace, containers", of("what"), readers, ""},
	{"cleave_holder_age_seconds", Gauge, Seconds, "Age of the oldest reader of the kind", of("what"), readers, "As for `cleave_oldest_snapshot_seconds`. A long backup holds files until it ends."},

	{"cleave_feeds", Gauge, "loops", "Loops over changes that are under way", of("container"), feeds, ""},
	{"cleave_feed_lag_seconds", Gauge, Seconds, "How long ago the slowest of them had last shown everything, 0 if it has", of("container"), feeds, "The body of the loop is too slow, or stands still. With all versions, changes older than the retention are lost to it."},
	{"cleave_feed_behind_sequences", Gauge, "sequences", "By how many sequences of the store the slowest of them is behind", of("container"), feeds, "As for `cleave_feed_lag_seconds`."},

	{"cleave_reshapes_total", Counter, "reshapes", "Splits, merges, moves of a boundary and installations that have ended, by how", of("kind", "result"), jobs, "The listener's `Reshaped` has the error of those that failed, and why others were refused."},
	{"cleave_reshapes_waiting", Gauge, "reshapes", "Splits, merges and moves that wait for their turn", nil, jobs, ""},
	{"cleave_reshapes_running", Gauge, "reshapes", "Splits, merges and moves under way: 0 or 1", nil, jobs, "1 for long: the listener's `Reshaped` has not come yet; `ReshapeJob.Progress` tells the phase. A partition that is flushed slowly holds it up."},
	{"cleave_index_files_left", Gauge, "files", "Files that still need an index for the policy of their container", of("container"), jobs, "Until it is 0, queries read the documents of these files."},
	{"cleave_copied_documents", Gauge, "documents", "Documents that the copy into the container has written", of("container"), jobs, "Call `Finish` when the job has ended: until then old versions take space in the source."},

	{"cleave_container_partitions", Gauge, "partitions", "Physical partitions", of("container"), containers, ""},
	{"cleave_container_documents", Gauge, "documents", "Documents, at most: overwritten versions count until a compaction drops them", of("container"), containers, ""},
	{"cleave_container_raw_bytes", Gauge, Bytes, "Documents before compression, all versions", of("container"), containers, ""},
	{"cleave_container_file_bytes", Gauge, Bytes, "Segment files; those shared by partitions are divided among them", of("container"), containers, ""},
	{"cleave_container_foreign_bytes", Gauge, Bytes, "Parts of shared files that lie outside the bounds of a partition and wait for a trim", of("container"), containers, ""},
	{"cleave_container_memtable_bytes", Gauge, Bytes, "Memtables", of("container"), containers, ""},
	{"cleave_container_dead_versions", Gauge, "versions", "Versions in files that a compaction would drop if nothing held them", of("container"), containers, "If it grows, a reader holds versions (`cleave_holder_age_seconds`), or compactions do not keep up."},
	{"cleave_container_tombstones", Gauge, "versions", "Versions in files that say that an item is deleted", of("container"), containers, ""},
	{"cleave_container_files", Gauge, "files", "Segment files", of("container"), containers, ""},
	{"cleave_container_runs_most", Gauge, "runs", "The most runs that a physical partition has", of("container"), containers, "Writes are paced to compactions under way, a little from 8 on and in full from 16, and wait at 48: then compactions do not keep up."},
	{"cleave_container_runs_excess", Gauge, "runs", "Runs above the twelve that compactions leave to a partition at most: the work that waits for them", of("container"), containers, "As for `cleave_container_runs_most`."},
	{"cleave_container_load", Gauge, "request units a second", "What operations on single logical partitions consume, a mean in which the last minute counts most", of("container"), containers, ""},
	{"cleave_container_throughput", Gauge, "request units a second", "Provisioned throughput; none: unlimited", of("container"), containers, ""},

	{"cleave_partition_documents", Gauge, "documents", "Documents, at most", of("container", "partition"), partitions, ""},
	{"cleave_partition_file_bytes", Gauge, Bytes, "Segment files", of("container", "partition"), partitions, ""},
	{"cleave_partition_runs", Gauge, "runs", "Runs", of("container", "partition"), partitions, ""},
	{"cleave_partition_load", Gauge, "request units a second", "As cleave_container_load", of("container", "partition"), partitions, "Much more than that of its neighbours: see `Container.Hot`."},
	{"cleave_partition_throughput", Gauge, "request units a second", "Its share of the provisioned throughput; none: unlimited", of("container", "partition"), partitions, ""},
	{"cleave_partition_consumed_total", Counter, "request units", "Request units consumed; only with provisioned throughput", of("container", "partition"), partitions, "Its rate divided by `cleave_partition_throughput` is the normalized consumption."},
	{"cleave_partition_throttled_total", Counter, "calls", "Calls refused; only with provisioned throughput", of("container", "partition"), partitions, "As for `cleave_throttled_total`."},
	{"cleave_partitions_omitted", Gauge, "partitions", "Physical partitions without samples of their own", nil, partitions, ""},
}
