package transfer

import (
	"crypto/sha256"
	"encoding/json"
	"hash"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/logrecord"
)

// Digest sums up the content of a partition. Partitions that have applied the same entries
// have the same sum: it depends on the head and on the items in their order, as a Writer
// gets them, but not on how they are stored or sent. Items that have expired by the time of
// the newest entry do not count, since a compaction may have dropped them.
type Digest struct {
	sum  hash.Hash
	past lifetime.Past
	buf  []byte
}

// NewDigest begins a digest. The format of the head does not count, nor how its paths are written.
func NewDigest(h *Head) (*Digest, error) {
	about := *h
	about.Format = 0
	about.Key, about.Unique = jsondoc.JoinPaths(plain(jsondoc.SplitPaths(h.Key))), nil
	for _, paths := range h.Unique {
		about.Unique = append(about.Unique, plain(paths))
	}
	text, err := json.Marshal(&about)
	if err != nil {
		return nil, err
	}
	d := &Digest{sum: sha256.New(), past: h.Past()}
	d.sum.Write(append(text, '\n'))
	return d, nil
}

// plain returns paths in the form that the same paths have, however they are written.
func plain(paths []string) []string {
	out := slices.Clone(paths)
	for i, text := range paths {
		if p, err := jsondoc.ParsePath(text); err == nil {
			out[i] = p.String()
		}
	}
	return out
}

// Add adds an item or a claim.
func (d *Digest) Add(k *item.Key, v *item.Version) error {
	if !d.past.Gone(v) {
		d.buf = logrecord.AppendCarried(d.buf[:0], k, v)
		d.sum.Write(d.buf)
	}
	return nil
}

// Sum returns the sum.
func (d *Digest) Sum() (sum [sha256.Size]byte) {
	d.sum.Sum(sum[:0])
	return sum
}
