package replicated

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/protocol"
)

// Changes implements gateway.Items, for the feed of latest versions. Its positions are those of client.Changes. At the
// levels consistent prefix and eventual it asks the nearest replica.
func (c *items) Changes(ctx context.Context, f *gateway.Feed, show func(*engine.Change)) (string, error) {
	if f.AllVersions {
		return "", lacks("feeds of all versions")
	}
	v := c.s.view(ctx)
	o := &client.ChangeOptions{Within: f.Within, Limit: f.Page, Weak: v.Level == protocol.Prefix || v.Level == protocol.Eventual}
	if f.Key.Valid() {
		if f.Key.Len() < len(c.Def().PartitionKey) {
			return "", lacks("feeds of the first levels of a partition key")
		}
		var err error
		if o.Within, err = rangeOf(f.Key); err != nil {
			return "", err
		}
	}
	within, cancel := c.s.bound(ctx)
	defer cancel()
	at := f.From
	for page, err := range v.Changes(within, c.name, f.From, o) {
		if errors.Is(err, client.ErrHistory) {
			return "", &gateway.Fault{Status: http.StatusBadRequest, Message: err.Error() + ": begin at the start"}
		} else if err != nil {
			return "", answer(ctx, err)
		}
		at = page.Position
		shown := false
		for i := range page.Items {
			if !f.Key.Valid() || page.Items[i].Key == f.Key {
				show(&engine.Change{Item: page.Items[i]})
				shown = true
			}
		}
		if shown {
			break
		}
	}
	return at, nil
}

// rangeOf returns the smallest range that has a whole partition key.
func rangeOf(key engine.PartitionKey) (partmap.Range, error) {
	epk := key.EPK()
	end := slices.Clone(epk.Bytes())
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			break
		}
	}
	hi, err := partmap.EPKFromBytes(end)
	return partmap.Range{Min: epk, Max: hi}, err
}
