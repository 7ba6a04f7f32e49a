package wal

import (
	"path"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/internal/latency"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/metrics"
)

// Close writes and syncs what was appended, closes the file, and keeps or removes the
// spares. The manifest must note the Closed that it returns: then the log is protected
// to its last byte, and Cut may give back the rest of the file. From then on Append
// returns ErrClosed. Calls of Append and Wait that are under way get their answer.
//
// If the log has failed, Close only closes its files and returns the failure. An error
// of the last clean-up comes with a valid Closed.
func (l *Log) Close() (Closed, error) {
	l.mu.Lock()
	closed := l.mu.closed
	l.mu.closed = true
	f, length := l.mu.file, l.mu.offset
	l.mu.Unlock()
	if closed {
		return Closed{}, ErrClosed
	}
	if err := l.Sync(); err != nil {
		l.abandon()
		return Closed{}, err
	}
	if f := l.failed.Load(); f != nil {
		l.abandon()
		return Closed{}, f.refuse()
	}
	err := f.Close()
	if spareErr := l.maker.close(l.opts.KeepSpareBytes); err == nil {
		err = spareErr
	}
	return Closed{File: f.number, Length: length}, err
}

// Cut truncates a closed file behind its last record, unless the file has another name,
// through which another process may be reading it. The manifest must note c, durably,
// before the call: without that, a file that is shorter than it was made is damaged. Cut
// only saves space, and need not be durable.
func Cut(fs vfs.FS, dir string, c Closed) error {
	f, err := fs.OpenWrite(path.Join(dir, FileName(c.File)))
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Links == 1 && info.Size > c.Length {
		err = f.Truncate(c.Length)
	}
	return finish(f, err)
}

// abandon closes the files of a log that has failed.
func (l *Log) abandon() {
	l.write.Lock() // no goroutine writes to a mapping
	defer l.write.Unlock()
	l.sync.Lock()
	defer l.sync.Unlock()
	l.maker.Lock()
	defer l.maker.Unlock()
	l.live.Lock()
	defer l.live.Unlock()
	for _, f := range l.live.files {
		if f.file != nil {
			f.file.Close()
		}
	}
	l.maker.closed = true
	if next := l.maker.next.Swap(nil); next != nil {
		next.Close()
	}
}

// counters count since Create.
type counters struct {
	records, bytes, writes, syncs, waits, waited, rotations, made, recycled atomic.Int64
	syncTimes                                                               latency.Recorder
}

// Stats describes a log. The counts are since Create.
type Stats struct {
	Files     int           `json:"files" metric:"cleave_log_files"`                       // needed ones
	Bytes     int64         `json:"bytes" metric:"cleave_log_bytes"`                       // in their records
	Spares    int           `json:"spares" metric:"cleave_log_spare_files"`                // files made ahead or waiting for another use
	Records   int64         `json:"records" metric:"cleave_log_records_total"`             // appended, those about the log itself included
	Written   int64         `json:"written_bytes" metric:"cleave_log_written_bytes_total"` // bytes of records written
	Writes    int64         `json:"writes" metric:"cleave_log_writes_total"`               // calls that wrote records
	Waits     int64         `json:"waits" metric:"cleave_log_waits_total"`                 // calls of Wait that had to wait for a sync
	Waited    time.Duration `json:"waited_ns" metric:"cleave_log_waited_seconds_total"`    // how long these calls waited
	Syncs     int64         `json:"syncs" metric:"cleave_log_syncs_total"`                 // syncs of records
	Rotations int64         `json:"rotations" metric:"cleave_log_rotations_total"`         // files filled
	Made      int64         `json:"made" metric:"cleave_log_files_made_total"`             // files made
	Recycled  int64         `json:"recycled" metric:"cleave_log_files_recycled_total"`     // of Made, out of old files
	Dropped   Dropped       `json:"dropped"`                                               // what Recover found before Create and dropped
}

// SyncTimes returns how long the syncs of records took.
func (l *Log) SyncTimes() metrics.Histogram { return l.count.syncTimes.Snapshot() }

// Stats returns the present figures.
func (l *Log) Stats() Stats {
	s := Stats{
		Records: l.count.records.Load(), Written: l.count.bytes.Load(), Writes: l.count.writes.Load(),
		Waits: l.count.waits.Load(), Waited: time.Duration(l.count.waited.Load()), Syncs: l.count.syncs.Load(), Rotations: l.count.rotations.Load(),
		Made: l.count.made.Load(), Recycled: l.count.recycled.Load(),
		Spares: int(l.maker.idle.Load()), Dropped: l.dropped,
	}
	if l.maker.next.Load() != nil {
		s.Spares++
	}
	l.mu.Lock()
	s.Bytes = l.mu.offset
	l.mu.Unlock()
	l.live.Lock()
	defer l.live.Unlock()
	s.Files = len(l.live.files)
	for _, f := range l.live.files {
		s.Bytes += f.length
	}
	return s
}
