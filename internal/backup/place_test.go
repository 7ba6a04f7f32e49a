package backup

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

func placeAt(t *testing.T, container string, first byte) Place {
	t.Helper()
	at, err := partmap.EPKFromBytes([]byte{first})
	must(t, err)
	return Place{Container: container, At: at}
}

// TestPlaceFiles: the files of a place are those with bounds around it, of the container with
// that name or of its unfinished copy.
func TestPlaceFiles(t *testing.T) {
	c := catalogOf(1, 5, func(c *Catalog) {
		for id := uint32(2); id <= 4; id++ {
			c.Store.Containers = append(c.Store.Containers, manifest.Container{ID: id, Name: string(rune('b' + id)), Levels: 1, Kind: "json"})
			c.Store.Partitions = append(c.Store.Partitions, manifest.Partition{ID: id + 1, Container: id, Min: manifest.Bytes{}, Max: manifest.Bytes{0xFF}})
			c.Partitions = append(c.Partitions, manifest.Files{Partition: id + 1, Runs: []manifest.Run{{Files: []manifest.File{
				{Number: uint64(10 * id), Min: manifest.Bytes{}, Max: manifest.Bytes{0x10}}, {Number: uint64(10*id + 1), Min: manifest.Bytes{0x10}, Max: manifest.Bytes{0xFF}},
			}}}})
		}
		c.Store.Containers[2].CopyOf = 1 // container 3
	})
	for _, test := range []struct {
		container string
		at        byte
		want      []uint64
	}{
		{"c", 0x00, []uint64{1, 30}},
		{"c", 0x0F, []uint64{1, 30}},
		{"c", 0x10, []uint64{1, 31}},
		{"c", 0x20, []uint64{2, 31}},
		{"c", 0x35, []uint64{2, 31}},
		{"d", 0x05, []uint64{20}},
		{"e", 0x50, []uint64{31}}, // the copy itself
		{"unknown", 0x05, nil},
	} {
		place := placeAt(t, test.container, test.at)
		files := place.files(c)
		if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, test.want) || files == nil {
			t.Errorf("%s at %x: files %v, want %v", test.container, test.at, got, test.want)
		}
	}
	if all := (*Place)(nil).files(c); all != nil {
		t.Errorf("of everything: %v", all)
	}
	place := placeAt(t, "c", 0x25)
	place.prune(c.Partitions, map[uint64]bool{2: true})
	for i, want := range []int{1, 1, 0, 0, 0} {
		if got := len(c.Partitions[i].Runs); got != want || want == 1 && (len(c.Partitions[i].Runs[0].Files) != 1 || c.Partitions[i].Runs[0].Files[0].Number != 2) {
			t.Errorf("partition %d keeps %+v", i, c.Partitions[i].Runs)
		}
	}
}

// TestRestorePlace: files of other places are verified and passed over, whatever is in them;
// a file of the place that an earlier stream did not have there is missed.
func TestRestorePlace(t *testing.T) {
	full, next, _ := fullAndNext(t)
	streams := append(slices.Clone(full), next...)
	mem := vfs.NewMem()
	must(t, RestorePlace(t.Context(), mem, "copy", bytes.NewReader(streams), placeAt(t, "other", 0x50)))
	m, err := manifest.LoadNewest[manifest.Store](mem, "copy", manifest.StoreKind)
	must(t, err)
	if len(m.Partitions) != 2 || len(m.LogClosed) != 1 {
		t.Errorf("the store: %+v", m)
	}
	for _, p := range m.Partitions {
		files, err := manifest.LoadNewest[manifest.Files](mem, "copy/"+manifest.PartitionDir(p.ID), manifest.PartitionKind)
		must(t, err)
		if len(files.Runs) != 0 {
			t.Errorf("partition %d: %+v", p.ID, files.Runs)
		}
	}
	for _, mutable := range []bool{false, true} {
		c, place, ttl := catalogOf(1, 5, nil), placeAt(t, "c", 0x50), int64(77)
		c.Store.Containers = append(c.Store.Containers, manifest.Container{ID: 9, Name: "other", DefaultTTL: 5, MutableTTL: true})
		c.Store.Containers[0].MutableTTL, place.DefaultTTL = mutable, &ttl
		state := c.Store
		place.setTTL(&state)
		if got := state.Containers; (got[0].DefaultTTL == ttl) != mutable || got[len(got)-1].DefaultTTL != 5 || c.Store.Containers[0].DefaultTTL == ttl {
			t.Errorf("mutable %v: defaults %+v", mutable, got)
		}
	}
	for i := len(full) - 1; i < len(streams); i += 7 {
		damaged := slices.Clone(streams)
		damaged[i] ^= 1
		if err := RestorePlace(t.Context(), vfs.NewMem(), "copy", bytes.NewReader(damaged), placeAt(t, "other", 0x50)); err == nil {
			t.Errorf("byte %d is damaged, and nothing was said", i)
		}
	}

	// The same chain, but the container had another name in the first stream.
	first := catalogOf(1, 5, func(c *Catalog) { c.Store.Containers[0].Name = "before" })
	stream, info := streamOf(t, first)
	second := catalogOf(2, 8, nil)
	must(t, second.Follow(&info))
	last, _ := streamOf(t, second)
	err = RestorePlace(t.Context(), vfs.NewMem(), "copy", bytes.NewReader(append(stream, last...)), placeAt(t, "c", 0x50))
	if !errors.Is(err, fault.ErrMissing) {
		t.Errorf("a file that was passed over: %v", err)
	}
}
