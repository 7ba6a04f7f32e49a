package engine

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkBackup makes backups of 100,000 generated documents into memory: all of
// them, and what is new after 10,000 were written again; and restores both. MB/s
// are of the stream; docs/s tells of the documents that the store has.
func BenchmarkBackup(b *testing.B) {
	ctx := context.Background()
	const docs, again = 100_000, 10_000
	s := newBenchStore(b, docs, Buffered)
	s.settle(b)
	var all, more, now bytes.Buffer
	full, err := s.db.Backup(ctx, &all, nil)
	must(b, err)
	for i := range int64(again) {
		_, err := s.c.Upsert(ctx, s.g.Append(nil, i, 2), nil)
		must(b, err)
	}
	must(b, s.db.Flush(ctx))
	_, err = s.db.Backup(ctx, &more, &BackupOptions{Since: &full})
	must(b, err)
	_, err = s.db.Backup(ctx, &now, nil)
	must(b, err)

	run := func(name string, size, documents int, op func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				must(b, op())
			}
			b.ReportMetric(float64(documents)*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
		})
	}
	run("full", now.Len(), docs, func() error {
		_, err := s.db.Backup(ctx, io.Discard, nil)
		return err
	})
	run("incremental", more.Len(), again, func() error {
		_, err := s.db.Backup(ctx, io.Discard, &BackupOptions{Since: &full})
		return err
	})
	run("verify", all.Len()+more.Len(), docs, func() error {
		_, err := VerifyBackup(ctx, io.MultiReader(bytes.NewReader(all.Bytes()), bytes.NewReader(more.Bytes())))
		return err
	})
	dir := b.TempDir()
	run("restore", all.Len()+more.Len(), docs, func() error {
		to := filepath.Join(dir, "copy")
		if err := Restore(ctx, io.MultiReader(bytes.NewReader(all.Bytes()), bytes.NewReader(more.Bytes())), to); err != nil {
			return err
		}
		return os.RemoveAll(to)
	})
}
