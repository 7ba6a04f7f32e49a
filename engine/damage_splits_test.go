package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/segment"
)

// TestSplitsOverDamage: a partition that is too large, and whose table of logical partitions
// is damaged, splits as often as a whole one would, and not at all if it has a single key.
// Damage in the way is met once: Compact ends, and what could be read stays readable.
func TestSplitsOverDamage(t *testing.T) {
	for name, c := range map[string]struct {
		paths       []string
		tenants     int
		users       int
		least, most int // partitions
	}{
		"many keys":  {[]string{"/t"}, 60, 1, 4, 12},
		"one key":    {[]string{"/t"}, 1, 1, 1, 1},
		"one tenant": {[]string{"/t", "/u"}, 1, 60, 4, 12},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			s := newSplitStore(t, ContainerDef{PartitionKey: c.paths}, func(o *Options) { o.MaxPartitionBytes, o.FileBytes = -1, 1<<20 })
			keyOf := func(i int) PartitionKey {
				parts := []PartitionKey{StringKey(fmt.Sprint(i % c.tenants)), StringKey(fmt.Sprint(i % c.users))}
				return JoinKeys(parts[:len(c.paths)]...)
			}
			const documents = 600
			for i := range documents {
				s.upsert(keyOf(i), fmt.Sprintf(`,"t":"%d","u":"%d"`, i%c.tenants, i%c.users), fmt.Sprint(i), strings.Repeat("x", 200))
			}
			must(t, s.db.Compact(ctx))
			w := &damagedWriter{t: t, mem: s.mem, opts: s.opts, db: s.db}
			files := slices.Collect(s.db.partitions()[0].Version.Load().Files())
			if len(files) != 1 {
				t.Fatalf("%d files", len(files))
			}
			s.opts.MaxPartitionBytes = 40 << 10
			w.flip(files[0].Name, segment.SectionPartitions)
			s.db, s.c = w.db, w.container("c")
			unreadable := func() (n int) {
				for i := range documents {
					if _, err := s.c.Read(ctx, keyOf(i), fmt.Sprint(i)); err != nil {
						w.named(err)
						n++
					}
				}
				return n
			}
			before := unreadable()
			for range 6 { // each may double the number of partitions
				s.db.splitLarge(s.db.partitions())
			}
			if n := len(s.ids()); n < c.least || n > c.most {
				t.Errorf("%d partitions", n)
			}
			for _, p := range s.db.partitions() {
				if held := p.Version.Load().LiveBytes(); held > s.opts.MaxPartitionBytes && p.refusedAt.Load() == 0 {
					t.Errorf("partition %d holds %d bytes", p.ID, held)
				}
			}
			if t.Failed() {
				return // Compact would wait for splits without end
			}
			if err := s.db.Compact(ctx); err != nil && !errors.Is(err, ErrCorrupt) {
				t.Error(err)
			}
			if n := len(s.ids()); n > c.most {
				t.Errorf("%d partitions after Compact", n)
			}
			if after := unreadable(); after > before {
				t.Errorf("%d documents cannot be read, %d before", after, before)
			}
		})
	}
}
