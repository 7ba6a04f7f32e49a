package manifest

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/wal"
)

func sampleFiles() *Files {
	return &Files{
		Partition: 1, FlushedSeq: 9, Floor: 5, Obsolete: []uint64{3}, Applied: &Applied{Index: 1, Time: 1}, Inherits: []Inherited{{Stream: 2, FlushedSeq: 8}},
		Runs: []Run{
			{Expiring: &Expiring{Items: 1, First: 2, Last: 2}, Aging: &Expiring{Items: 3, First: 1, Last: 4}, Files: []File{
				{Number: 1, Size: 1, Min: Bytes{}, Max: Bytes{1}},
				{Number: 2, Size: 1, Min: Bytes{1}, Max: Bytes{2}, Part: &Part{Items: 1, Bytes: 1}},
			}},
			{Files: []File{{Number: 1, Size: 1, Min: Bytes{1}, Max: Bytes{0xFF}}}},
		},
	}
}

// refused decodes a manifest with a right checksum: nil, or an error that says what
// it is.
func refused(t *testing.T, kind Kind, v, into any) bool {
	t.Helper()
	data, err := Encode(kind, 1, v)
	if err != nil {
		t.Fatal(err)
	}
	err = Decode("f", kind, data, into)
	var corrupt *fault.CorruptionError
	if err != nil && !errors.As(err, &corrupt) {
		t.Errorf("untyped: %v", err)
	}
	return err != nil
}

// TestStoreInvariants breaks each invariant of a store manifest.
func TestStoreInvariants(t *testing.T) {
	whole := func(id, container uint32) Partition {
		return Partition{ID: id, Container: container, Min: Bytes{}, Max: Bytes{0xFF}}
	}
	right := func() *Store {
		s := sample(7)
		s.NextContainer, s.NextPartition = 3, 9
		s.Containers = append(s.Containers, Container{ID: 2, Name: "other", DefaultTTL: -1})
		s.Partitions = []Partition{whole(1, 1), {ID: 2, Container: 2, Min: Bytes{}, Max: Bytes{4}, Parents: []uint32{5}}, {ID: 3, Container: 2, Min: Bytes{4}, Max: Bytes{0xFF}}}
		s.Intents = []Intent{{Container: 1, Kind: "split", Parents: []uint32{1}, Children: []Partition{{ID: 4, Container: 1}}}}
		s.Marks = []Mark{{1, 1}, {2, 2}}
		return s
	}
	for name, change := range map[string]func(*Store){
		"":                                func(*Store) {},
		"limit below the last sequence":   func(s *Store) { s.LastSeq = s.SeqLimit + 1 },
		"limit without room":              func(s *Store) { s.SeqLimit = item.MaxSeq + 2 },
		"the last limit":                  func(s *Store) { s.SeqLimit = math.MaxUint64 },
		"next partition too low":          func(s *Store) { s.NextPartition = 3 },
		"next partition without room":     func(s *Store) { s.NextPartition = math.MaxUint32 },
		"next container too low":          func(s *Store) { s.NextContainer = 2 },
		"next container without room":     func(s *Store) { s.NextContainer = math.MaxUint32 },
		"container 0":                     func(s *Store) { s.Containers[0].ID, s.Partitions[0].Container = 0, 0 },
		"partition 0":                     func(s *Store) { s.Partitions[0].ID = 0 },
		"two containers of one number":    func(s *Store) { s.Containers = append(s.Containers, Container{ID: 2, Name: "third"}) },
		"two containers of one name":      func(s *Store) { s.Containers[1].Name = "orders" },
		"container without a name":        func(s *Store) { s.Containers[1].Name = "" },
		"copy of itself":                  func(s *Store) { s.Containers[1].CopyOf = 2 },
		"lives too long":                  func(s *Store) { s.Containers[1].DefaultTTL = math.MaxInt64 },
		"kept too long":                   func(s *Store) { s.Containers[1].ChangeRetention = math.MaxInt64 },
		"partition of no container":       func(s *Store) { s.Partitions = append(s.Partitions, whole(6, 7)) },
		"container without a partition":   func(s *Store) { s.Partitions = s.Partitions[1:] },
		"partition twice":                 func(s *Store) { s.Partitions[2].ID = 2 },
		"partition of two containers":     func(s *Store) { s.Partitions[0].ID = 2 },
		"gap":                             func(s *Store) { s.Partitions[2].Min = Bytes{5} },
		"gap at the end":                  func(s *Store) { s.Partitions[2].Max = Bytes{0xFE} },
		"overlap":                         func(s *Store) { s.Partitions[2].Min = Bytes{3} },
		"empty range":                     func(s *Store) { s.Partitions[2].Min = Bytes{0xFF} },
		"boundary of no key":              func(s *Store) { s.Partitions[2].Max = Bytes{0xFF, 1} },
		"boundary too long":               func(s *Store) { s.Partitions[1].Max = make(Bytes, 49); s.Partitions[2].Min = make(Bytes, 49) },
		"share":                           func(s *Store) { s.Partitions[0].Share = -1 },
		"parent that was never made":      func(s *Store) { s.Partitions[1].Parents[0] = 9 },
		"child that is there":             func(s *Store) { s.Intents[0].Children[0].ID = 1 },
		"child that was never made":       func(s *Store) { s.Intents[0].Children[0].ID = 9 },
		"year 10,000":                     func(s *Store) { s.TimeHigh = item.MaxTime + 1 },
		"mark of the year 10,000":         func(s *Store) { s.Marks[1].Time = item.MaxTime + 1 },
		"mark without room":               func(s *Store) { s.Marks[1].Seq = item.MaxSeq + 1 },
		"marks out of order":              func(s *Store) { slices.Reverse(s.Marks) },
		"log files out of order":          func(s *Store) { s.LogClosed = append(s.LogClosed, s.LogClosed...) },
		"log file 0":                      func(s *Store) { s.LogClosed[0].File = 0 },
		"log file without room":           func(s *Store) { s.LogClosed = []wal.Closed{{File: math.MaxUint64}} },
		"log file of less than no bytes":  func(s *Store) { s.LogClosed[0].Length = -1 },
		"first log file without room":     func(s *Store) { s.LogFirst = math.MaxUint64 },
		"history that nobody could write": func(s *Store) { s.History = make([]Reshape, MaxHistory+1) },
	} {
		s := right()
		change(s)
		if got := refused(t, StoreKind, s, new(Store)); got != (name != "") {
			t.Errorf("%q: refused: %t", name, got)
		}
	}
}

// TestPartitionInvariants breaks each invariant of a partition's manifest.
func TestPartitionInvariants(t *testing.T) {
	for name, change := range map[string]func(*Files){
		"":                           func(*Files) {},
		"partition 0":                func(f *Files) { f.Partition = 0 },
		"sequence without room":      func(f *Files) { f.FlushedSeq = math.MaxUint64 },
		"floor without room":         func(f *Files) { f.ChangeFloor = math.MaxUint64 },
		"number without room":        func(f *Files) { f.Floor = math.MaxUint64 },
		"entry 0":                    func(f *Files) { f.Applied.Index = 0 },
		"entry without room":         func(f *Files) { f.Applied.Index = math.MaxUint64 },
		"entry before 1970":          func(f *Files) { f.Applied.Time = -1 },
		"entry of the year 10,000":   func(f *Files) { f.Applied.Time = item.MaxTime + 1 },
		"inherits its own stream":    func(f *Files) { f.Inherits[0].Stream = 1 },
		"inherits a stream twice":    func(f *Files) { f.Inherits = append(f.Inherits, f.Inherits...) },
		"inherits without room":      func(f *Files) { f.Inherits[0].FlushedSeq = math.MaxUint64 },
		"obsolete file in a run":     func(f *Files) { f.Obsolete[0] = 2 },
		"files of a run overlap":     func(f *Files) { f.Runs[0].Files[1].Min = Bytes{} },
		"files of a run in disorder": func(f *Files) { slices.Reverse(f.Runs[0].Files) },
		"file twice":                 func(f *Files) { f.Runs[1].Files[0].Min = Bytes{} },
		"file twice, other size":     func(f *Files) { f.Runs[1].Files[0].Size = 2 },
		"file twice, other content":  func(f *Files) { f.Runs[1].Files[0].FooterCRC = 2 },
		"file 0":                     func(f *Files) { f.Runs[1].Files[0].Number = 0 },
		"file without room":          func(f *Files) { f.Runs[1].Files[0].Number = math.MaxUint64 },
		"file of no bytes":           func(f *Files) { f.Runs[0].Files[1].Size = 0 },
		"part of less than nothing":  func(f *Files) { f.Runs[0].Files[1].Part.Bytes = -1 },
		"file of no keys":            func(f *Files) { f.Runs[0].Files[1].Max = Bytes{1} },
		"file of no range":           func(f *Files) { f.Runs[0].Files[1].Max = Bytes{0xFF, 1} },
		"expires before it begins":   func(f *Files) { f.Runs[0].Expiring.Last = 1 },
		"expires beyond time":        func(f *Files) { f.Runs[0].Expiring.Last = math.MaxInt64 },
		"is younger than it is old":  func(f *Files) { f.Runs[0].Aging.Last = 0 },
		"fewer items than none":      func(f *Files) { f.Runs[0].Expiring.Items = -1 },
	} {
		f := sampleFiles()
		change(f)
		if got := refused(t, PartitionKind, f, new(Files)); got != (name != "") {
			t.Errorf("%q: refused: %t", name, got)
		}
	}
}

// TestBombs decodes texts that would take far more memory than they have bytes: they
// are refused before they do, in few words.
func TestBombs(t *testing.T) {
	const n = 256 << 10
	list := func(name, value string) string {
		return `{"` + name + `":[` + strings.Repeat(value+",", n) + value + "]}"
	}
	for name, text := range map[string]string{
		"intents":           list("intents", "{}"),
		"upper case":        list("INTENTS", "{}"),
		"escaped name":      list(`intent\u0073`, "{}"),
		"containers":        list("containers", "{}"),
		"nulls":             list("containers", "null"),
		"blanks":            list("containers", "{ }"),
		"repeated":          "{" + strings.Repeat(`"containers":[{},{},{},{},{},{}],`, n/8) + `"clean":true}`,
		"pointers":          list("containers", `{"index":{}}`),
		"nested":            `{"containers":[{"unique_keys":[` + strings.Repeat("[],", n) + `[]]}]}`,
		"deep":              `{"containers":` + strings.Repeat("[", n),
		"deep unknown":      `{"x":` + strings.Repeat(`{"x":`, n),
		"long number":       `{"clean":` + strings.Repeat("1", n) + `}`,
		"long name":         `{"` + strings.Repeat("x", n) + `":1}`,
		"long hexadecimal":  `{"store_id":"` + strings.Repeat("x", n) + `"}`,
		"long name in Name": `{"containers":[{"name":"` + strings.Repeat("x", n) + `"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := Unmarshal([]byte(text), new(Store), true)
			runtime.ReadMemStats(&after)
			if err == nil || len(err.Error()) > 400 {
				t.Errorf("%.500v", err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 16*uint64(len(text))+4<<20 {
				t.Errorf("%d bytes took %d", len(text), took)
			}
		})
	}
}

// TestLargeManifest decodes what a store with very many partitions has.
func TestLargeManifest(t *testing.T) {
	s := sample(7)
	s.Partitions = nil
	const n = 1 << 16
	for i := range n {
		p := Partition{ID: uint32(i + 1), Container: 1, Min: Bytes{byte(i >> 9), byte(i >> 1), byte(i << 7)}, Max: Bytes{byte((i + 1) >> 9), byte((i + 1) >> 1), byte((i + 1) << 7)}}
		switch i {
		case 0:
			p.Min = Bytes{}
		case n - 1:
			p.Max = Bytes{0xFF}
		}
		s.Partitions = append(s.Partitions, p)
	}
	s.NextPartition = n + 1
	if refused(t, StoreKind, s, new(Store)) {
		t.Error("refused")
	}
}
