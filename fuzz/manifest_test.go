package fuzz

import (
	"errors"
	"reflect"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
)

// FuzzManifest decodes arbitrary bytes as either manifest: a typed error, or
// something that is the same after another round.
func FuzzManifest(f *testing.F) {
	store := manifest.Store{StoreID: manifest.ID{1}, Containers: []manifest.Container{{ID: 1, Name: "c", Levels: 1}}, LastSeq: 9, SeqLimit: 10, NextContainer: 2, NextPartition: 6}
	store.Partitions = []manifest.Partition{{ID: 4, Container: 1, Max: manifest.Bytes{0xFF}, Parents: []uint32{2, 3}}}
	store.Intents = []manifest.Intent{{Container: 1, Kind: "split", Parents: []uint32{4}, Children: []manifest.Partition{{ID: 5, Container: 1}}}}
	files := manifest.Files{Partition: 3, Inherits: []manifest.Inherited{{Stream: 2, FlushedSeq: 8}}, Runs: []manifest.Run{{Files: []manifest.File{{Number: 1, Size: 2, Min: manifest.Bytes{1}, Max: manifest.Bytes{2}, Part: &manifest.Part{Items: 1, RawBytes: 1, Bytes: 1}}}}}}
	for kind, v := range map[manifest.Kind]any{manifest.StoreKind: &store, manifest.PartitionKind: &files} {
		data, err := manifest.Encode(kind, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)-1])
	}
	f.Add([]byte("cleave-manifest store 2 00000000 0\n"))
	f.Add([]byte("cleave-manifest store 1 00000000 18446744073709551615\n{}"))
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
	again, err := manifest.Encode(kind, first)
	if err != nil {
		t.Fatal(err)
	}
	if err := manifest.Decode("f", kind, again, second); err != nil {
		t.Fatal(err)
	}
	third, err := manifest.Encode(kind, second)
	if err != nil || !reflect.DeepEqual(again, third) {
		t.Fatalf("%q became %q, %v", again, third, err)
	}
}
