package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestChangesOfBase: a feed of a base value with several suffixes is refused. Its
// position would be taken for one of all partitions.
func TestChangesOfBase(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{Synthetic: &SyntheticKey{Join: []string{"/day"}, Suffixes: 4, SuffixOf: "/id"}})
	for _, doc := range []string{`{"id":"a","day":"mon"}`, `{"id":"b","day":"mon"}`, `{"id":"c","day":"tue"}`} {
		_, err := c.Upsert(ctx, []byte(doc), nil)
		must(t, err)
	}
	ids := func(s Scope) (all []string, failure error) {
		for ch, err := range c.Changes(ctx, s, ChangePosition{}, nil) {
			if err != nil {
				return all, err
			}
			all = append(all, ch.ID)
		}
		return all, nil
	}
	if all, err := ids(OfBase(StringKey("mon"))); !errors.Is(err, ErrInvalid) || len(all) != 0 {
		t.Errorf("of a base value: %q, %v", all, err)
	}
	if all, err := ids(AllPartitions()); err != nil || len(all) != 3 {
		t.Errorf("of all: %q, %v", all, err)
	}
}
