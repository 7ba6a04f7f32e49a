package main

import (
	"fmt"
	"path"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/wal"
)

// log verifies the log as a whole, as recovery reads it. Damage counts when it
// is there twice under the same manifest: a record may be written meanwhile.
func (v *verifier) log() error {
	var last layout.Finding
	var lastGeneration uint64
	for range layout.MaxAttempts {
		state, generation, err := v.files.LoadStore(v.ctx)
		if err != nil {
			return err
		}
		var records, bytes int64
		streams := func(rec *wal.Record) error {
			if records++; records%checkEvery == 0 {
				v.line.Show(time.Now(), func() string { return "log: " + humanize.Plural(records, "record", "records") })
			}
			bytes += int64(len(rec.Payload))
			if uint32(rec.Stream) >= state.NextPartition {
				return &engine.CorruptionError{File: v.files.FS.Path(path.Join(manifest.LogDir, wal.FileName(rec.File))), Offset: rec.Offset,
					Err: fmt.Errorf("record of partition %d, which was never made", rec.Stream)}
			}
			return nil
		}
		recovery, err := wal.Recover(v.ctx, v.files.FS, manifest.LogDir, wal.State{First: state.LogFirst, Closed: state.LogClosed},
			wal.Options{StoreID: state.StoreID}, streams)
		if v.ctx.Err() != nil {
			return v.ctx.Err()
		}
		if err == nil {
			v.sum.LogRecords, v.sum.TornBytes = records, recovery.Dropped.Bytes
			v.sum.Bytes += bytes
			return nil
		}
		if layout.Unreadable(err) {
			return err
		}
		found := v.files.FindingOf(manifest.LogDir, err)
		if found == last && generation == lastGeneration {
			v.report(found)
			return nil
		}
		last, lastGeneration = found, generation
	}
	return layout.ErrRestless
}
