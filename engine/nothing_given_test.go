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
