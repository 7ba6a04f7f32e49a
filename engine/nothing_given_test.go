package engine

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestNothingGiven: calls that read or write a stream refuse none.
func TestNothingGiven(t *testing.T) {
	ctx := context.Background()
	db, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, Replicated: true})
	for name, call := range map[string]func() error{
		"Backup":           func() error { return second(db.Backup(ctx, nil, nil)) },
		"ExportPartition":  func() error { return second(c.ExportPartition(ctx, c.Partitions()[0].ID, nil)) },
		"InstallPartition": func() error { return second(c.InstallPartition(ctx, nil)) },
		"Restore":          func() error { return Restore(ctx, nil, filepath.Join(t.TempDir(), "new")) },
		"VerifyBackup":     func() error { return second(VerifyBackup(ctx, nil)) },
	} {
		if err := call(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBatchOfNoContainer: a Batch that NewBatch has not made refuses all that is added to it, and is not committed.
func TestBatchOfNoContainer(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	for name, call := range map[string]func(*Batch) error{
		"Commit": func(b *Batch) error { return second(c.Commit(ctx, b)) },
		"Check":  func(b *Batch) error { return b.Check("1", 0) },
		"Create": func(b *Batch) error { return b.Create(doc("1", "a", 1), nil) },
		"Delete": func(b *Batch) error { return b.Delete("1", nil) },
		"Patch":  func(b *Batch) error { return b.Patch("1", new(Patch).Set("/n", 1), nil) },
	} {
		for _, b := range []*Batch{nil, new(Batch)} {
			if b == nil && name != "Commit" {
				continue
			}
			if err := call(b); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
