package replicated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

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
	o := &client.ChangeOptions{Limit: f.Page, Weak: v.Level == protocol.Prefix || v.Level == protocol.Eventual}
	var err error
	if o.Within, err = c.rangeOf(&f.Place); err != nil || o.Within.Empty() {
		return f.From, err // of a range that has none of the keys there is nothing to show
	}
	within, cancel := c.s.bound(ctx)
	defer cancel()
	at := f.From
	for page, err := range v.Changes(within, c.name, f.From, o) {
		if errors.Is(err, client.ErrHistory) {
			return "", &gateway.Fault{Status: http.StatusBadRequest, Message: err.Error() + ": begin at the start"}
		} else if err != nil {
			return "", answer(ctx, err)
		} else if err = answer(ctx, nil); err != nil {
			return "", err // the session is ahead
		}
		at = page.Position
		if f.Charge != nil {
			*f.Charge += page.Charge
		}
		shown := false
		for i := range page.Items {
			if !f.Key.Valid() || bytes.HasPrefix(page.Items[i].Key.Encoded(), f.Key.Encoded()) {
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

// rangeOf returns the part of the key space that a place has.
func (c *items) rangeOf(p *gateway.Place) (partmap.Range, error) {
	if !p.Key.Valid() {
		return p.Within, nil
	}
	if levels := len(c.Def().PartitionKey); p.Key.Len() > levels {
		return partmap.Range{}, fmt.Errorf("%w: the partition key %s has %d levels, those of the container have %d", engine.ErrInvalid, p.Key, p.Key.Len(), levels)
	}
	r, err := p.Key.Range()
	return r.Common(p.Within), err
}
