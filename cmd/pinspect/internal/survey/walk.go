package survey

import (
	"context"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/partmap"
)

// walkDocuments reads the documents of a container at one snapshot, in key-space
// order, and shows on line how far it is. visit gets each with the index of its
// physical partition; the item is valid until it returns.
func walkDocuments(ctx context.Context, db *engine.DB, cs *engine.ContainerStats, line *cli.Line, visit func(at int, it *engine.Item)) error {
	c, err := db.Container(cs.Name)
	if err != nil {
		return err
	}
	ends := make([]partmap.EPK, len(cs.Partitions))
	for i := range ends {
		if ends[i], err = partmap.ParseEPK(cs.Partitions[i].Max); err != nil {
			return err
		}
	}
	snapshot, err := c.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snapshot.Close()
	var key partmap.Key // of the logical partition
	at, seen := 0, int64(0)
	for it, err := range snapshot.ScanAll(ctx, &engine.ScanOptions{Borrow: true}) {
		if err != nil {
			return err
		}
		if it.Key != key {
			key = it.Key.Clone()
			epk := key.EPK()
			for at+1 < len(ends) && epk.Compare(&ends[at]) >= 0 {
				at++
			}
		}
		visit(at, &it)
		if seen++; seen%1024 == 0 {
			line.Show(time.Now(), func() string { return cs.Name + ": " + humanize.Count(seen) + " documents read" })
		}
	}
	line.Clear()
	return nil
}
