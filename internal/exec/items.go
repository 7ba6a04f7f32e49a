package exec

import (
	"cmp"
	"context"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
)

// Sink takes items, and claims on unique keys, which have that flag.
type Sink interface {
	Add(*item.Key, *item.Version) error
}

// Items gives a sink the items and claims of a range as of a snapshot, in key-space order.
// isClaim tells which they are. Errors of the sink are returned unchanged.
func Items(ctx context.Context, h Host, rng partmap.Range, s Snapshot, isClaim func(*item.Key) bool, to Sink) error {
	var failure error
	err := ScanRange(ctx, h, rng, &ScanOptions{Snapshot: s, Borrow: true, Claims: true}, func(r *Row) bool {
		ver := item.Version{Seq: r.Seq, Modified: r.Modified, Expires: r.Expires, Body: r.Body}
		key := item.Key{PK: r.Key.Encoded(), ID: []byte(r.ID)}
		if isClaim(&key) {
			ver.Flags = item.Claim
		}
		failure = to.Add(&key, &ver)
		return failure == nil
	})
	return cmp.Or(err, failure)
}
