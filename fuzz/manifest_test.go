package fuzz

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

func fuzzedStore() manifest.Store {
	return manifest.Store{
		Head:       manifest.Head{StoreID: manifest.ID{1}, LastSeq: 9, SeqLimit: 10, NextContainer: 2, NextPartition: 6},
		Containers: []manifest.Container{{ID: 1, Name: "c", Levels: 1}},
		Partitions: []manifest.Partition{{ID: 4, Container: 1, Min: manifest.Bytes{}, Max: manifest.Bytes{0xFF}, Parents: []uint32{2, 3}}},
	}
}

// FuzzEdit reads arbitrary bytes as the edit of a store manifest, and goes on with what comes of it: the
// next program reads the same.
func FuzzEdit(f *testing.F) {
	made := vfs.NewMem()
	d := manifest.NewDir(made, ".", manifest.StoreKind)
	d.FoldFrom(1)
	s := fuzzedStore()
	s.Containers[0].Name = strings.Repeat("c", 2000) // so that the edit is not folded
	first := d.Store(&s)
	base, err := made.ReadFile(manifest.Name(1))
	if err = errors.Join(first, err); err != nil {
		f.Fatal(err)
	}
	e := s.Edit()
	e.NextContainer, e.NextPartition = 3, 7
	e.Containers = []manifest.Container{{ID: 2, Name: "d"}}
	e.Partitions = []manifest.Partition{{ID: 6, Container: 2, Min: manifest.Bytes{}, Max: manifest.Bytes{0xFF}}}
	e.DropPartitions, e.DropContainers = []uint32{9}, []uint32{9}
	e.History, e.Marks = []manifest.Reshape{{Container: 2}}, []manifest.Mark{{Time: 1, Seq: 1}}
	if err := d.Edit(&s, e); err != nil {
		f.Fatal(err)
	}
	edit, err := made.ReadFile(manifest.Name(2))
	if err != nil {
		f.Fatal(err)
	}
	line, body, _ := bytes.Cut(edit, []byte("\n"))
	words := bytes.Split(line, []byte(" "))
	head := bytes.Join(words[:len(words)-2], []byte(" "))
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		m := vfs.NewMem()
		sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body)
		data := append(fmt.Appendf(nil, "%s %08x %d\n", head, sum, len(body)), body...)
		if err := errors.Join(m.WriteFile(manifest.Name(1), base), m.WriteFile(manifest.Name(2), data)); err != nil {
			t.Fatal(err)
		}
		d := manifest.NewDir(m, ".", manifest.StoreKind)
		d.FoldFrom(1)
		var s manifest.Store
		if err := d.Load(&s); err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("untyped: %v", err)
			}
			return
		}
		if err := d.Edit(&s, s.Edit()); err != nil {
			t.Fatal(err)
		}
		var again manifest.Store
		if err := manifest.NewDir(m, ".", manifest.StoreKind).Load(&again); err != nil {
			t.Fatal(err)
		}
		one, oneErr := manifest.Encode(manifest.StoreKind, 1, &s)
		two, twoErr := manifest.Encode(manifest.StoreKind, 1, &again)
		if oneErr != nil || twoErr != nil || !bytes.Equal(one, two) {
			t.Fatalf("%s\n%s, %v, %v", one, two, oneErr, twoErr)
		}
	})
}

// FuzzManifest decodes arbitrary bytes as either manifest: a typed error, or
// something that is the same after another round.
func FuzzManifest(f *testing.F) {
	store := fuzzedStore()
	store.Intents = []manifest.Intent{{Container: 1, Kind: "split", Parents: []uint32{4}, Children: []manifest.Partition{{ID: 5, Container: 1}}}}
	files := manifest.Files{Partition: 3, Inherits: []manifest.Inherited{{Stream: 2, FlushedSeq: 8}}, Runs: []manifest.Run{{Files: []manifest.File{{Number: 1, Size: 2, Min: manifest.Bytes{1}, Max: manifest.Bytes{2}, Part: &manifest.Part{Items: 1, RawBytes: 1, Bytes: 1}}}}}}
	for kind, v := range map[manifest.Kind]any{manifest.StoreKind: &store, manifest.PartitionKind: &files} {
		data, err := manifest.Encode(kind, 1, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)-1])
	}
	f.Add([]byte("cleave-manifest store 2 00000000 0\n"))
	f.Add([]byte("cleave-manifest store 1 00000000 18446744073709551615\n{}"))
	f.Add([]byte("cleave-manifest store 2 1 0 00000000 00000000 18446744073709551615\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		roundTrip(t, manifest.StoreKind, data, new(manifest.Store), new(manifest.Store))
		roundTrip(t, manifest.PartitionKind, data, new(manifest.Files), new(manifest.Files))
	})
}

func roundTrip(t *testing.T, kind manifest.Kind, data []byte, first, second any) {
	if err := manifest.Decode("f", kind, data, first); err != nil {
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrTooNew) {
			t.Fatalf("untyped error: %v", err)
		}
		return
	}
	again, err := manifest.Encode(kind, 1, first)
	if err != nil {
		t.Fatal(err)
	}
	if err := manifest.Decode("f", kind, again, second); err != nil {
		t.Fatal(err)
	}
	third, err := manifest.Encode(kind, 1, second)
	if err != nil || !reflect.DeepEqual(again, third) {
		t.Fatalf("%q became %q, %v", again, third, err)
	}
}
