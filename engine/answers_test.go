package engine

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestAnswersAreOnesOwn: a caller that changes a list of an answer changes no later answer.
func TestAnswersAreOnesOwn(t *testing.T) {
	ctx := t.Context()
	_, c := openStore(t, testOptions(vfs.NewMem()), ContainerDef{PartitionKey: []string{"/k"}, UniqueKeys: [][]string{{"/n"}}, MinPartitions: 1})
	for _, k := range []string{"a", "b", "c", "d"} {
		must(t, second(c.Upsert(ctx, doc("1", k, 1), nil)))
	}
	parent := c.Partitions()[0].ID
	job, err := c.Split(ctx, parent, nil)
	must(t, err)
	must(t, job.Wait(ctx))
	taken := func() []string {
		e, ok := errors.AsType[*UniqueKeyError](second(c.Create(ctx, doc("2", "a", 1), nil)))
		if !ok {
			t.Fatal("the value is not taken")
		}
		return e.Paths
	}
	for range 2 {
		progress, paths := job.Progress(), taken()
		parents := c.Partitions()[0].Parents
		if parents[0] != parent || progress.Parents[0] != parent || progress.Children[0] == parent || paths[0] != "/n" {
			t.Fatalf("parents %v, progress %+v, paths %v", parents, progress, paths)
		}
		parents[0], progress.Parents[0], progress.Children[0], paths[0] = 99, 99, parent, "/x"
	}
}
