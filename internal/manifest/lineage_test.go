package manifest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// TestLineage: the ranges of children are those of partitions that there are, or of parents
// in the history of the container; the store does not remember others.
func TestLineage(t *testing.T) {
	lo, mid, hi := Bytes{0}, Bytes{0x80}, Bytes{0xff}
	s := Store{
		Partitions: []Partition{
			{ID: 5, Container: 1, Min: lo, Max: mid}, {ID: 6, Container: 1, Min: mid, Max: hi}, {ID: 8, Container: 2, Min: lo, Max: hi},
		},
		History: []Reshape{
			{Container: 1, Kind: "split", Time: 10, Parents: []Former{{1, lo, hi}}, Children: []uint32{2, 3}},
			{Container: 2, Kind: "split", Time: 11, Parents: []Former{{3, lo, mid}}, Children: []uint32{8}},
			{Container: 1, Kind: "move", Time: 12, Parents: []Former{{2, lo, mid}}, Children: []uint32{5, 6}},
		},
	}
	want := []Lineage{
		{Kind: "split", Time: 10, Parents: []Former{{1, lo, hi}}, Children: []Former{{2, lo, mid}, {ID: 3}}},
		{Kind: "move", Time: 12, Parents: []Former{{2, lo, mid}}, Children: []Former{{5, lo, mid}, {6, mid, hi}}},
	}
	if got := s.Lineage(1); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := s.Lineage(3); got != nil {
		t.Errorf("a container without history: %+v", got)
	}
}

// TestEntries: each container has its partitions, and a range that is none is refused.
func TestEntries(t *testing.T) {
	lo, mid, hi := Bytes{0}, Bytes{0x80}, Bytes{0xff}
	s := Store{Partitions: []Partition{{ID: 5, Container: 1, Min: lo, Max: mid}, {ID: 6, Container: 2, Min: lo, Max: hi}, {ID: 7, Container: 1, Min: mid, Max: hi}}}
	entries, err := s.Entries()
	if err != nil {
		t.Fatal(err)
	}
	for container, ids := range map[uint32][]partmap.PartitionID{1: {5, 7}, 2: {6}} {
		var got []partmap.PartitionID
		for _, e := range entries[container] {
			got = append(got, e.ID)
			if r, _ := rangeOf(s.Partition(uint32(e.ID)).Min, s.Partition(uint32(e.ID)).Max); e.Range != r {
				t.Errorf("partition %d has the range %v, want %v", e.ID, e.Range, r)
			}
		}
		if !reflect.DeepEqual(got, ids) {
			t.Errorf("container %d has partitions %d, want %d", container, got, ids)
		}
	}
	s.Partitions[1].Max = lo
	if _, err = s.Entries(); err == nil || !strings.Contains(err.Error(), "partition 6") {
		t.Errorf("an empty range: %v", err)
	}
}

// TestBeginLog: lengths of files that are not needed any more are dropped, and an edit leaves
// those of its base alone.
func TestBeginLog(t *testing.T) {
	s := Store{Head: Head{LogFirst: 2, LogClosed: []wal.Closed{{File: 2, Length: 20}, {File: 3, Length: 30}, {File: 4, Length: 40}}}}
	e := s.Edit()
	e.BeginLog(3)
	if want := []wal.Closed{{File: 3, Length: 30}, {File: 4, Length: 40}}; e.LogFirst != 3 || !reflect.DeepEqual(e.LogClosed, want) {
		t.Errorf("first %d, %v", e.LogFirst, e.LogClosed)
	}
	e.LogClosed = append(e.NeededLog(), wal.Closed{File: 5, Length: 50})
	if len(e.LogClosed) != 3 || len(s.LogClosed) != 3 || s.LogClosed[0].File != 2 || s.LogFirst != 2 {
		t.Errorf("edit %v, base %v", e.LogClosed, s.LogClosed)
	}
}
