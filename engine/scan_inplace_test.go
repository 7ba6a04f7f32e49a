package engine

import (
	"bytes"
	"context"
	"fmt"
	"testing"
)

// inPlaceStore is a store of uncompressed documents of 1 KB in files of the disk.
func inPlaceStore(t *testing.T) (*DB, *Container, [][]byte) {
	t.Helper()
	db, c := openStore(t, testOptions(nil), ContainerDef{PartitionKey: []string{"/k"}, Compression: NoCompression})
	var docs [][]byte
	for i := range 50 {
		docs = append(docs, fmt.Appendf(nil, `{"id":"%02d","k":"a","x":"%s"}`, i, bytes.Repeat([]byte{'a' + byte(i%26)}, 1000)))
		must(t, second(c.Upsert(context.Background(), docs[i], nil)))
	}
	must(t, db.Flush(context.Background()))
	return db, c, docs
}

// TestScanInPlaceKeepsFiles: what a scan shows in place stays readable while compactions
// replace the files, and the scan goes on in the new ones.
func TestScanInPlaceKeepsFiles(t *testing.T) {
	ctx := context.Background()
	for _, reverse := range []bool{false, true} {
		db, c, docs := inPlaceStore(t)
		n := 0
		for it, err := range c.Scan(ctx, StringKey("a"), IDRange{}, &ScanOptions{InPlace: true, Reverse: reverse}) {
			must(t, err)
			want := docs[n]
			if reverse {
				want = docs[len(docs)-1-n]
			}
			if n%10 == 3 {
				must(t, second(c.Upsert(ctx, want, nil)))
				must(t, db.Compact(ctx))
			}
			if !bytes.Equal(it.Body, want) {
				t.Fatalf("item %d: %q", n, it.Body)
			}
			n++
		}
		if n != len(docs) {
			t.Fatalf("%d items", n)
		}
	}
}
