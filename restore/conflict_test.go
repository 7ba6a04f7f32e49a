package restore

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

// TestBesideFasterWriter: a restore of several transactions ends also beside a writer who adds more items, behind all
// others, than it deletes.
func TestBesideFasterWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cleavetest.New(t)
		c := notes(t, s.DB(), func(d *engine.ContainerDef) { d.Limits.BatchOperations = 7 })
		for i := range 20 {
			upsert(t, c, "acme", fmt.Sprintf("%02d", i), "backup")
		}
		want, _ := content(t, c, acme)
		backup, _ := backupOf(t, s.DB(), nil)
		for i := range 20 {
			upsert(t, c, "acme", fmt.Sprintf("extra-%02d", i), "present")
		}
		const most = 500
		written := 0
		result, err := run(t, c, backup, Options{Replace: true, Progress: func(p Progress) {
			for n := 0; p.Total > 0 && n < 10 && written < most; n++ {
				upsert(t, c, "acme", fmt.Sprintf("other-%03d", written), "other")
				written++
			}
		}})
		if err != nil || result.Deleted != 20 || written == 0 || written == most {
			t.Errorf("beside %d items: %+v, %v", written, result, err)
		}
		got, _ := content(t, c, acme)
		maps.DeleteFunc(got, func(id, _ string) bool { return strings.HasPrefix(id, "other-") })
		if !maps.Equal(got, want) {
			t.Errorf("%v", got)
		}
	})
}

// TestBesideOtherItems: another writer writes to the same logical partition in each try of each
// transaction. The restore fails only if that is an item which it restores, and names it.
func TestBesideOtherItems(t *testing.T) {
	serial := 0
	for _, test := range []struct {
		what      string
		id        func() string // of what the other one writes
		operation int           // Limits.BatchOperations
		atomic    bool
		want      error
	}{
		{"new items", func() string { serial++; return fmt.Sprintf("00-%02d", serial%50) }, 100, true, nil},
		{"new items, several transactions", func() string { serial++; return fmt.Sprintf("00-%02d", serial%50) }, 7, false, nil},
		{"an item that is not in the backup", func() string { return "10-extra" }, 100, false, nil},
		{"an item that is restored", func() string { return "15" }, 100, false, engine.ErrConflict},
	} {
		t.Run(test.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := cleavetest.New(t)
				c := notes(t, s.DB(), func(d *engine.ContainerDef) { d.DefaultTTL, d.Limits.BatchOperations = 24*time.Hour, test.operation })
				for i := range 20 {
					upsert(t, c, "acme", fmt.Sprintf("%02d", i), "backup")
				}
				want, _ := content(t, c, acme)
				backup, _ := backupOf(t, s.DB(), nil)
				for _, id := range []string{"02", "09", "11", "15", "18", "10-extra"} {
					upsert(t, c, "acme", id, "present")
				}
				writing := false
				now := func() time.Time { // the restore asks for the time in the middle of its transactions
					if writing {
						upsert(t, c, "acme", test.id(), fmt.Sprint("other ", serial))
					}
					return s.Now()
				}
				result, err := run(t, c, backup, Options{Replace: true, Now: now, Progress: func(Progress) { writing = true }})
				if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), `item "15"`) {
					t.Fatalf("%+v, %v", result, err)
				}
				got, _ := content(t, c, acme)
				maps.DeleteFunc(got, func(_, doc string) bool { return strings.Contains(doc, "other") })
				if err == nil && (!maps.Equal(got, want) || result.Atomic != test.atomic) {
					t.Errorf("%+v: %v", result, got)
				}
			})
		})
	}
}
