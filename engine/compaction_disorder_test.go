package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/forge"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/tiers"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// TestCompactionOfDisorder merges files whose checksums are right and whose versions are not
// in order: that is damage of the file.
func TestCompactionOfDisorder(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	db, c := openStore(t, testOptions(mem), ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Hour})
	for n := range 6 {
		upsert(t, c, fmt.Sprint(n%2), 10)
		if n == 4 {
			must(t, db.Flush(ctx))
		}
	}
	must(t, db.Flush(ctx))
	must(t, db.Close())
	name, good := firstSegment(t, mem)
	groups := forge.Sections(good)[0]
	if segment.SectionKind(groups.Kind) != segment.SectionGroups {
		t.Fatal("the file does not begin with groups")
	}
	found := 0
	for at := range min(groups.Len, 100) {
		image := mem.Clone()
		b := slices.Clone(good)
		b[groups.Off+at] ^= 3
		forge.MendSegment(b)
		writeForged(t, image, name, b)
		db, err := Open(ctx, "mem", testOptions(image))
		must(t, err)
		p := db.partitions()[0]
		all := func(runs []*lsm.Run, _ bool) (tiers.Plan, error) {
			return tiers.Plan{First: 0, End: len(runs)}, nil
		}
		if _, err := p.CompactRuns(ctx, all); err != nil {
			if !errors.Is(err, ErrCorrupt) || p.Version.Load().FilesAside() == 0 {
				t.Errorf("byte %d: %v", at, err)
			}
			if strings.Contains(err.Error(), segment.ErrOrder.Error()) {
				found++
			}
		}
		must(t, db.Close())
	}
	if found == 0 {
		t.Error("no byte brings versions out of order")
	}
}
