package engine

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestRefreshRestored: where a directory was restored, a container may have the number that another one had. A Refresh does not
// take it for that one. A Refresh of a directory that has another store now is refused.
func TestRefreshRestored(t *testing.T) {
	ctx, key := t.Context(), StringKey("a")
	mem := vfs.NewMem()
	writer, _ := openStore(t, testOptions(mem))
	earlier := mem.Kill()
	made, err := writer.CreateContainer(ctx, "made since", byK)
	must(t, err)
	upsert(t, made, "1", 10)
	db := reader(t, mem)
	gone, err := db.Container("made since")
	must(t, err)

	restored, _ := openStore(t, testOptions(earlier))
	other, err := restored.CreateContainer(ctx, "other", byK)
	must(t, err)
	upsert(t, other, "1", 20)
	if other.id != made.id {
		t.Fatalf("numbers %d and %d: the test shows nothing", other.id, made.id)
	}
	db.opts.fs = earlier
	must(t, db.Refresh(ctx))
	if it, err := gone.Read(ctx, key, "1"); !errors.Is(err, ErrClosed) {
		t.Errorf("of a container that is gone: %s, %v", it.Body, err)
	}
	if _, err := db.Container("made since"); !errors.Is(err, ErrNoContainer) {
		t.Error(err)
	}
	there, err := db.Container("other")
	must(t, err)
	must(t, second(there.Read(ctx, key, "1")))

	until(func() bool { // the former state is closed
		db.renewal.mu.Lock()
		defer db.renewal.mu.Unlock()
		return len(db.renewal.former) == 0
	})
	foreign := vfs.NewMem()
	openStore(t, testOptions(foreign))
	db.opts.fs = foreign
	if err := db.Refresh(ctx); !errors.Is(err, ErrNotStore) {
		t.Errorf("another store: %v", err)
	}
	must(t, second(there.Read(ctx, key, "1")))
}
