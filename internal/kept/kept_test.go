package kept

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/internal/randtest"
)

// version is a version of an item of a partition, or of the whole partition if the id is empty.
type version struct {
	partition byte
	id        string
	item.Version
}

func (v version) key() item.Key {
	epk := make([]byte, 16)
	epk[0] = v.partition
	return item.Key{Hash: item.HashOf(epk), EPK: epk, PK: []byte{v.partition}, ID: []byte(v.id)}
}

// view returns what a reader sees at a sequence, as text by partition and id.
func view(all []version, at uint64, past lifetime.Past) map[string]uint64 {
	seen, deleted := make(map[string]version), make(map[byte]uint64)
	for _, v := range all {
		name := fmt.Sprint(v.partition, v.id)
		switch {
		case v.Seq > at:
		case v.id == "":
			deleted[v.partition] = max(deleted[v.partition], v.Seq)
		case v.Seq > seen[name].Seq:
			seen[name] = v
		}
	}
	shown := make(map[string]uint64)
	for name, v := range seen {
		if v.Seq > deleted[v.partition] && !v.Deleted() && !past.Gone(&v.Version) {
			shown[name] = v.Seq
		}
	}
	return shown
}

// TestRule compares what readers see among the versions that a Rule keeps with what they see among
// all: with older versions elsewhere, in files that are set aside or nowhere, with readers of the
// past, and with changes that are kept.
func TestRule(t *testing.T) {
	rng := randtest.New(t)
	for range 5_000 {
		var versions, older []version
		for seq := range uint64(rng.IntN(24)) {
			v := version{partition: byte(1 + rng.IntN(3)), id: []string{"a", "b", "c"}[rng.IntN(3)]}
			v.Seq, v.Modified = seq+1, int64(rng.IntN(100))
			switch rng.IntN(8) {
			case 0:
				v.id, v.Flags = "", item.Tombstone
			case 1, 2:
				v.Flags = item.Tombstone
			case 3:
				v.Expires = 1 + int64(rng.IntN(100))
			}
			versions = append(versions, v)
		}
		r := Rule{At: []uint64{pins.Newest}, Above: pins.Newest, Oldest: rng.IntN(2) == 0}
		if rng.IntN(2) == 0 {
			r.Purge = lifetime.Past{Expired: 50, Before: int64(rng.IntN(50))}
		}
		if n := len(versions); n > 0 && rng.IntN(2) == 0 {
			n = rng.IntN(n)
			older, versions = versions[:n], versions[n:]
		}
		if r.Oldest && len(older) > 0 {
			first, last := older[0].partition, older[0].partition
			for _, v := range older {
				first, last = min(first, v.partition), max(last, v.partition)
			}
			r.Aside = []*keybounds.Bounds{{Lo: version{partition: first}.bound(), Hi: version{partition: last + 1}.bound()}}
		}
		for range rng.IntN(4) {
			r.At = append(r.At, uint64(rng.IntN(25)))
		}
		if rng.IntN(3) == 0 {
			r.Above = uint64(rng.IntN(25))
			r.At = append(r.At, r.Above)
		}
		slices.SortFunc(r.At, func(a, b uint64) int { return cmp.Compare(b, a) })
		check(t, rng, &r, versions, older)
	}
}

// bound is a key that sorts before those of the partition.
func (v version) bound() item.Key {
	k := v.key()
	return item.Key{Hash: k.Hash, EPK: k.EPK}
}

// check shows the rule the versions, some of them twice.
func check(t *testing.T, rng *rand.Rand, r *Rule, versions, older []version) {
	t.Helper()
	slices.SortFunc(versions, func(a, b version) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.id, b.id), cmp.Compare(b.Seq, a.Seq))
	})
	var kept []version
	dropped, told, expired := int64(0), uint64(0), false
	var last version
	for _, v := range versions {
		k := v.key()
		if v.partition != last.partition || v.id != last.id {
			r.NextKey(&k)
		}
		last = v
		times := 1
		if rng.IntN(8) == 0 {
			times = 2
		}
		for i := range times {
			if r.Wants(&v.Version) {
				if i > 0 {
					t.Fatalf("%+v is kept twice by %+v", v, r)
				}
				kept = append(kept, v)
				continue
			}
			dropped++
			if i == 0 {
				told = max(told, v.Seq)
				expired = expired || !v.Deleted() && r.Purge.Gone(&v.Version)
			}
			if i == 0 && r.Floor() > 0 && v.Seq > r.Floor() {
				t.Fatalf("%+v is above the floor and not kept by %+v", v, r)
			}
		}
	}
	if dropped != r.Dropped {
		t.Fatalf("%d dropped, counted %d", dropped, r.Dropped)
	}
	if r.Told < told || r.Told > r.Above {
		t.Fatalf("a feed needs all up to %d, %d was dropped: %+v of %+v", r.Told, told, r, versions)
	}
	if r.Expired && !expired || !r.Expired && expired && len(r.At) == 1 && noneTwice(versions) {
		t.Fatalf("an expired version was dropped: %t, want %t: %+v of %+v", r.Expired, expired, r, versions)
	}
	for _, at := range r.At {
		want := view(slices.Concat(versions, older), at, r.Purge)
		if got := view(slices.Concat(kept, older), at, r.Purge); !maps.Equal(got, want) {
			t.Fatalf("at %d: %v, want %v: %+v of %+v, older %+v, kept %+v", at, got, want, r, versions, older, kept)
		}
	}
	if r.Oldest && r.Aside == nil && len(r.At) == 1 && len(kept) != len(view(versions, pins.Newest, r.Purge)) {
		t.Fatalf("kept %+v of %+v by %+v", kept, versions, r)
	}
}

// noneTwice says that no item has two versions, and none was deleted.
func noneTwice(versions []version) bool {
	for i, v := range versions {
		if v.Deleted() || i > 0 && v.partition == versions[i-1].partition && v.id == versions[i-1].id {
			return false
		}
	}
	return true
}
