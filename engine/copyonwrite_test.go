package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestFullCopyOnWriteDisk: on a file system where an overwrite needs space, a disk
// that is full refuses writes; of the one that meets it the outcome is unknown. With
// space again the store goes on as it is, the log's file mapped or not.
func TestFullCopyOnWriteDisk(t *testing.T) {
	ctx := context.Background()
	for _, mapped := range []bool{false, true} {
		for _, durability := range []Durability{Synced, Buffered} {
			t.Run(fmt.Sprintf("mapped=%v,%v", mapped, durability), func(t *testing.T) {
				mem := vfs.NewMem()
				mem.SetCopyOnWrite(true)
				mem.SetMapped(mapped)
				opts := testOptions(mem)
				opts.Durability = durability
				db, c := openStore(t, opts)
				want := make(map[string]int)
				unknown := make(map[string]int)
				serial := 0
				write := func() error {
					serial++
					id := fmt.Sprint(serial % 50)
					_, err := c.Upsert(ctx, doc(id, "a", serial), nil)
					switch {
					case err == nil:
						want[id] = serial
						delete(unknown, id)
					case errors.Is(err, ErrOutcomeUnknown):
						unknown[id] = serial
					}
					return err
				}
				check := func(db *DB) {
					t.Helper()
					c, err := db.Container("c")
					must(t, err)
					for id, n := range want {
						item, err := c.Read(ctx, StringKey("a"), id)
						must(t, err)
						if string(item.Body) == string(doc(id, "a", n)) {
							continue
						}
						if u, ok := unknown[id]; !ok || string(item.Body) != string(doc(id, "a", u)) {
							t.Errorf("item %s is %s, want %d", id, item.Body, n)
						}
					}
				}
				for range 200 {
					must(t, write())
				}
				must(t, db.log.Sync())
				for round := range 5 {
					mem.SetCapacity(0)
					refused := 0
					for range 300 {
						if err := write(); err == nil {
							continue // over what was written since the last sync
						} else if refused++; refused == 1 && !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrDiskFull) ||
							refused > 1 && (!errors.Is(err, ErrDiskFull) || errors.Is(err, ErrOutcomeUnknown)) {
							t.Fatalf("round %d, refusal %d: %v", round, refused, err)
						}
						if err := db.writable(); err != nil {
							t.Fatalf("a full disk failed the store: %v", err)
						}
					}
					if refused == 0 {
						t.Fatal("the disk was never full")
					}
					check(db)
					if err := db.Flush(ctx); err == nil || errors.Is(err, ErrFailed) {
						t.Errorf("Flush on a full disk: %v", err)
					}
					mem.SetCapacity(math.MaxInt64)
					for range 60 {
						must(t, write())
					}
					clear(unknown)
					check(db)
					if round%2 == 0 {
						must(t, db.Flush(ctx))
					}
				}
				must(t, db.log.Sync())
				again, err := Open(ctx, "cow", testOptions(mem.Crash(vfs.CrashOptions{})))
				must(t, err)
				defer again.Close()
				check(again)
				checkVerified(t, again)
				must(t, db.Close())
			})
		}
	}
}
