package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

func sample(seq uint64) *Store {
	return &Store{
		Head: Head{StoreID: ID{1, 2, 3, 15: 255}, NextContainer: 2, NextPartition: 2, LastSeq: seq, SeqLimit: seq + 10, TimeHigh: 5, LogFirst: 3,
			LogClosed: []wal.Closed{{File: 3, Length: 4096}}},
		Containers: []Container{{ID: 1, Name: "orders", PartitionKey: []string{"/a", "/b"}, Levels: 2, Kind: "json",
			Compression: "default", MaxItemBytes: 2 << 20, MaxLogicalKey: 20 << 30}},
		Partitions: []Partition{{ID: 1, Container: 1, Min: Bytes{0}, Max: Bytes{0xff}}},
	}
}

func mustStore(t *testing.T, d *Dir, v any) {
	t.Helper()
	if err := d.Store(v); err != nil {
		t.Fatal(err)
	}
}

func TestNames(t *testing.T) {
	for _, n := range []uint64{1, 9_999_999_999, 10_000_000_000} {
		if got, ok := ParseName(Name(n)); !ok || got != n {
			t.Errorf("ParseName(%q) = %d, %t", Name(n), got, ok)
		}
		if got, ok := ParseSegmentName(SegmentName(n)); !ok || got != n {
			t.Errorf("ParseSegmentName(%q) = %d, %t", SegmentName(n), got, ok)
		}
	}
	for _, name := range []string{"", "MANIFEST-", "MANIFEST-1", "MANIFEST-00000000001", "MANIFEST-+000000001", "MANIFEST-0000000001.tmp", "manifest-0000000001"} {
		if n, ok := ParseName(name); ok {
			t.Errorf("ParseName(%q) = %d", name, n)
		}
	}
	for _, name := range []string{"", ".seg", "1.seg", "0000000001", "0000000001.seg.tmp", "+000000001.seg"} {
		if n, ok := ParseSegmentName(name); ok {
			t.Errorf("ParseSegmentName(%q) = %d", name, n)
		}
	}
	if id, ok := ParsePartitionDir("000042"); !ok || id != 42 {
		t.Errorf("ParsePartitionDir = %d, %t", id, ok)
	}
	for _, name := range []string{"42", "0000042", "-00042", "4294967296"} {
		if id, ok := ParsePartitionDir(name); ok {
			t.Errorf("ParsePartitionDir(%q) = %d", name, id)
		}
	}
}

func TestStoreLoad(t *testing.T) {
	m := vfs.NewMem()
	d := NewDir(m, ".", StoreKind)
	var got Store
	if err := d.Load(&got); !errors.Is(err, fault.ErrMissing) {
		t.Fatalf("Load of nothing: %v", err)
	}
	for seq := uint64(1); seq <= 3; seq++ {
		mustStore(t, d, sample(seq))
	}
	again := NewDir(m, ".", StoreKind)
	if err := again.Load(&got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&got, sample(3)) {
		t.Errorf("loaded %+v", got)
	}
	if again.Generation() != 3 {
		t.Errorf("generation %d", again.Generation())
	}
	if names, _ := m.List("."); len(names) != 1 {
		t.Errorf("files left: %v", names)
	}
	if err := NewDir(m, ".", PartitionKind).Load(&got); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a store manifest read as a partition's: %v", err)
	}
}

// TestOlderContent: a generation in the place of a newer one is damage, in every directory.
func TestOlderContent(t *testing.T) {
	for kind, v := range map[Kind]any{StoreKind: sample(1), PartitionKind: sampleFiles()} {
		m := vfs.NewMem()
		d := NewDir(m, ".", kind)
		mustStore(t, d, v)
		older, err := m.ReadFile(Name(1))
		if err != nil {
			t.Fatal(err)
		}
		older = bytes.Clone(older)
		mustStore(t, d, v)
		if err := m.WriteFile(Name(2), older); err != nil {
			t.Fatal(err)
		}
		var damage *fault.CorruptionError
		if err := NewDir(m, ".", kind).Load(v); !errors.As(err, &damage) || damage.File != m.Path(Name(2)) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestPartitionEdit: the manifest of a partition is whole.
func TestPartitionEdit(t *testing.T) {
	m := vfs.NewMem()
	d := NewDir(m, ".", PartitionKind)
	mustStore(t, d, sampleFiles())
	data, _, err := encode(PartitionKind, 2, d.chain[0], sampleFiles())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.WriteFile(Name(2), data); err != nil {
		t.Fatal(err)
	}
	if err := d.Load(new(Files)); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("an edit: %v", err)
	}
}

// TestPartitionFormat1: the manifest of a partition in format 1, which did not say its generation, is read.
func TestPartitionFormat1(t *testing.T) {
	body := `{"store_id":"010203000000000000000000000000ff","partition":1,"flushed_seq":7,"floor":1,"runs":[]}`
	data := fmt.Appendf(nil, "cleave-manifest partition 1 %08x %d\n%s", checksum("cleave-manifest partition 1", []byte(body)), len(body), body)
	m := vfs.NewMem()
	if err := m.WriteFile(Name(9), data); err != nil {
		t.Fatal(err)
	}
	d := NewDir(m, ".", PartitionKind)
	var got Files
	if err := d.Load(&got); err != nil || got.FlushedSeq != 7 {
		t.Fatalf("%+v, %v", got, err)
	}
	mustStore(t, d, &got)
	if data, err := m.ReadFile(Name(10)); err != nil || !bytes.HasPrefix(data, []byte("cleave-manifest partition 2 10 ")) {
		t.Errorf("the next generation: %.40q, %v", data, err)
	}
}

// TestTooLarge: a manifest that could not be read is not written, and edits are folded before they come to that.
func TestTooLarge(t *testing.T) {
	m, s := vfs.NewMem(), sample(7)
	d := NewDir(m, ".", StoreKind)
	mustStore(t, d, s)
	d.FoldFrom(1)
	d.most = 20 * d.Bytes()
	var err error
	for n := 0; err == nil; n++ {
		if n == 1000 {
			t.Fatal("the manifest has no bound")
		}
		e := s.Edit()
		e.Containers = []Container{{ID: e.NextContainer, Name: fmt.Sprintf("c%d", n), Levels: 1}}
		e.Partitions = []Partition{{ID: e.NextPartition, Container: e.NextContainer, Min: Bytes{}, Max: Bytes{0xFF}}}
		e.NextContainer++
		e.NextPartition++
		err = d.Edit(s, e)
		read := NewDir(m, ".", StoreKind)
		read.most = d.most
		var got Store
		if loadErr := read.Load(&got); loadErr != nil || len(got.Containers) != len(s.Containers) {
			t.Fatalf("edit %d: %v; then %v, %d containers of %d", n, err, loadErr, len(got.Containers), len(s.Containers))
		}
	}
	whole, encodeErr := Encode(StoreKind, 1, s)
	if !errors.Is(err, fault.ErrTooLarge) || encodeErr != nil || 10*int64(len(whole)) < 9*d.most {
		t.Errorf("%v, %v with %d bytes of %d", err, encodeErr, len(whole), d.most)
	}
	d.most = int64(len(whole)) * 5 / 4
	for n := range 2 * len(s.Containers) { // changes that add nothing
		e := s.Edit()
		e.Containers = []Container{s.Containers[n%len(s.Containers)]}
		if err := d.Edit(s, e); err != nil {
			t.Fatalf("change %d: %v", n, err)
		}
	}
}

// TestFlippedBits changes each bit of a manifest: no change may go unseen.
func TestFlippedBits(t *testing.T) {
	data, err := Encode(StoreKind, 1, sample(7))
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		for bit := range 8 {
			damaged := append([]byte{}, data...)
			damaged[i] ^= 1 << bit
			var s Store
			err := Decode("f", StoreKind, damaged, &s)
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("byte %d bit %d: %v", i, bit, err)
			}
		}
	}
	for n := range data {
		if err := Decode("f", StoreKind, data[:n], new(Store)); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestTooNew(t *testing.T) {
	data, err := Encode(StoreKind, 1, sample(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := Decode("f", StoreKind, newer(data), new(Store)); !errors.Is(err, fault.ErrTooNew) || !strings.Contains(err.Error(), "format 8") {
		t.Errorf("Decode: %v", err)
	}
}

// TestHashFormat: a store with keys of version 1 has a format of its own, also in an edit.
func TestHashFormat(t *testing.T) {
	s := sample(1)
	before := StoreFormat(s.Containers, s.Partitions)
	s.Containers[0].HashVersion = 1
	if got := StoreFormat(s.Containers, s.Partitions); before >= hashFormat || got != hashFormat || formatOf(&Edit{Containers: s.Containers}) != hashFormat {
		t.Errorf("format %d, without version 1 %d", got, before)
	}
	data, err := Encode(StoreKind, 1, s)
	if err != nil {
		t.Fatal(err)
	}
	var back Store
	if err := Decode("f", StoreKind, data, &back); err != nil || back.Containers[0].HashVersion != 1 {
		t.Errorf("%+v, %v", back.Containers, err)
	}
}

// TestMutableFormat: a store with a default time to live that can be changed has a format of
// its own, also in an edit.
func TestMutableFormat(t *testing.T) {
	s := sample(1)
	s.Containers[0].HashVersion, s.Containers[0].MutableTTL = 1, true
	if got := StoreFormat(s.Containers, s.Partitions); got != mutableFormat || formatOf(&Edit{Containers: s.Containers}) != mutableFormat {
		t.Errorf("format %d", got)
	}
}

// TestCompositeFormat: a store with a composite index has a format of its own, also in an edit.
func TestCompositeFormat(t *testing.T) {
	s := sample(1)
	if len(s.Containers) == 0 {
		t.Fatal("the sample has no container")
	}
	before := StoreFormat(s.Containers, s.Partitions)
	s.Containers[0].Index = &IndexPolicy{Include: []string{"/*"}, Composite: [][]CompositePath{{{Path: "/a"}, {Path: "/b", Descending: true}}}}
	if got := StoreFormat(s.Containers, s.Partitions); before >= compositeFormat || got != compositeFormat || formatOf(&Edit{Containers: s.Containers}) != compositeFormat {
		t.Errorf("format %d, without the index %d", got, before)
	}
	data, err := Encode(StoreKind, 1, s)
	if err != nil {
		t.Fatal(err)
	}
	var back Store
	if err := Decode("f", StoreKind, data, &back); err != nil || !reflect.DeepEqual(back.Containers[0].Index, s.Containers[0].Index) {
		t.Errorf("%+v, %v", back.Containers[0].Index, err)
	}
}

// newer returns a manifest of the store with the next format.
func newer(data []byte) []byte {
	line, body, _ := bytes.Cut(data, []byte("\n"))
	words := strings.Split(strings.Replace(string(line), " store 2 ", fmt.Sprintf(" store %d ", Format+1), 1), " ")
	head := strings.Join(words[:len(words)-2], " ")
	return fmt.Appendf(nil, "%s %08x %d\n%s", head, checksum(head, body), len(body), body)
}

// TestCrash stops the writing of a generation at each file-system call, in
// all three ways of losing what was not synced: the old or the new one is
// there, and the new one if Store had returned.
func TestCrash(t *testing.T) {
	for _, keep := range []vfs.CrashOptions{{Keep: vfs.KeepNone}, {Keep: vfs.KeepAll}, {Keep: vfs.KeepRandom, TornLast: true, Seed: 1}} {
		for n := int64(1); ; n++ {
			m := vfs.NewMem()
			mustStore(t, NewDir(m, ".", StoreKind), sample(1))
			var image *vfs.Mem
			faulty := vfs.NewFaulty(m)
			d := NewDir(faulty, ".", StoreKind)
			if err := d.Load(new(Store)); err != nil {
				t.Fatal(err)
			}
			faulty.StopAt(faulty.Calls()+n, func() { image = m.Clone() })
			err := d.Store(sample(2))
			done := image == nil
			if done {
				image = m.Clone()
			}
			image = image.Crash(keep)
			var got Store
			if loadErr := NewDir(image, ".", StoreKind).Load(&got); loadErr != nil {
				t.Fatalf("call %d, %v: Load: %v", n, keep, loadErr)
			}
			if got.LastSeq != 2 && (done || got.LastSeq != 1) {
				t.Fatalf("call %d, %v: Store %v, found %d", n, keep, err, got.LastSeq)
			}
			if done {
				break
			}
		}
	}
}

// TestFailedCalls fails each file-system call of Store: before the rename a
// second try succeeds, from the rename on the Dir refuses.
func TestFailedCalls(t *testing.T) {
	unknown, retried := 0, 0
	for n := int64(1); ; n++ {
		m := vfs.NewMem()
		faulty := vfs.NewFaulty(m)
		d := NewDir(faulty, ".", StoreKind)
		mustStore(t, d, sample(1))
		calls := faulty.Calls()
		faulty.FailAt(calls+n, errors.New("injected"), false)
		err := d.Store(sample(2))
		if faulty.Calls() < calls+n {
			break
		}
		switch {
		case err == nil: // removal of what is not needed
		case errors.Is(err, fault.ErrOutcomeUnknown):
			unknown++
			if again := d.Store(sample(3)); !errors.Is(again, fault.ErrOutcomeUnknown) || d.Failed() == nil {
				t.Fatalf("call %d: Store after an unknown outcome: %v", n, again)
			}
		default:
			retried++
			var got Store
			if err := NewDir(m, ".", StoreKind).Load(&got); err != nil || got.LastSeq != 1 {
				t.Fatalf("call %d: found %d, %v", n, got.LastSeq, err)
			}
			if err := d.Store(sample(3)); err != nil {
				t.Fatalf("call %d: second try: %v", n, err)
			}
			if err := NewDir(m, ".", StoreKind).Load(&got); err != nil || got.LastSeq != 3 {
				t.Fatalf("call %d: found %d, %v", n, got.LastSeq, err)
			}
		}
	}
	if unknown == 0 || retried == 0 {
		t.Errorf("%d unknown outcomes, %d tried again: the test reached too little", unknown, retried)
	}
}

func TestDisposable(t *testing.T) {
	f := Files{Obsolete: []uint64{3}, Floor: 10, Runs: []Run{{Files: []File{{Number: 4}, {Number: 11}}}}}
	for number, want := range map[uint64]bool{3: true, 4: false, 5: false, 9: false, 10: true, 11: false, 12: true} {
		if got := f.Disposable(number); got != want {
			t.Errorf("Disposable(%d) = %t", number, got)
		}
	}
	for name, want := range map[string]bool{
		Name(2) + TempSuffix: true, SegmentName(7) + TempSuffix: true, SegmentName(7) + IndexSuffix + TempSuffix: true,
		Name(2): false, SegmentName(7): false, TempSuffix: false, "7.seg.tmp": false, Name(2) + IndexSuffix + TempSuffix: false, "photo.tmp": false,
	} {
		if IsTemp(name) != want {
			t.Errorf("%s: a temporary file: %v", name, !want)
		}
	}
	names := []string{SegmentName(3), SegmentName(4), SegmentName(9), SegmentName(12), Name(1), Name(2) + TempSuffix, "photo.jpeg", "photo.tmp"}
	if left, want := f.Leftovers(names), []string{SegmentName(3), SegmentName(12), Name(2) + TempSuffix}; !slices.Equal(left, want) {
		t.Errorf("Leftovers = %q, want %q", left, want)
	}
}

func ExampleName() {
	fmt.Println(Name(1), SegmentName(2), PartitionDir(3))
	// Output: MANIFEST-0000000001 0000000002.seg p/000003
}

func TestHistoryIsBounded(t *testing.T) {
	s := new(Store)
	for i := range uint32(MaxHistory + 10) {
		old := s.History
		s.Apply(&Edit{History: []Reshape{{Container: i % 2, Children: []uint32{i}}}})
		if n := len(old); n > 0 && old[n-1].Children[0] != i-1 {
			t.Fatal("the slice before was changed")
		}
	}
	if n := len(s.History); n != MaxHistory || s.History[0].Children[0] != 10 || s.History[n-1].Children[0] != MaxHistory+9 {
		t.Errorf("%d reshapes, from %v", n, s.History[0])
	}
	all := s.History
	s.Apply(&Edit{DropContainers: []uint32{1}})
	if len(s.History) != MaxHistory/2 || len(all) != MaxHistory || all[1].Container != 1 {
		t.Errorf("%d reshapes left", len(s.History))
	}
}

// A manifest of before there was a history is read as one with none.
func TestWithoutHistory(t *testing.T) {
	data, err := Encode(StoreKind, 1, sample(1))
	if err != nil {
		t.Fatal(err)
	}
	var got Store
	if err := Decode("f", StoreKind, data, &got); err != nil || got.History != nil || strings.Contains(string(data), "history") {
		t.Errorf("%v, %v", got.History, err)
	}
}
