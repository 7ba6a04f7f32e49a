//go:build !race

package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestTakeFault: another program shortens a file while a cursor takes documents in place. The cursor reports a fault in
// the head of the group at which it stops, and shows that group as it is when the file is whole again.
func TestTakeFault(t *testing.T) {
	dir := t.TempDir()
	fsys, err := vfs.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	var m model
	for i := range 6 { // the partition key is at the beginning of a body, the id behind it
		v := item.Version{Seq: uint64(i + 1), Modified: 1, Body: bytes.Repeat([]byte{byte('0' + i)}, 5000)}
		copy(v.Body, "partition")
		if i == 3 {
			v.Expires = 5 // not to be taken
		}
		m = append(m, entry{newKey(encodeKey("partition"), fmt.Sprintf("id-%05d", i)), v})
	}
	write(t, fsys, "a", m, WriterOptions{Compression: None})
	good := content(t, fsys, "a")
	r := open(t, fsys, "a", Map)
	r.Pin()
	defer r.Unpin()
	c := r.Cursor(math.MaxUint64)
	c.InPlace()
	for ok := c.First(); ok; ok = c.Next() { // so that all are verified
	}
	if !c.SeekOrdinal(3) {
		t.Fatal(c.Err())
	}
	page := int64(os.Getpagesize())
	cut := (c.open.off + page) / page * page // of group 3, the head is in memory and the id is not
	if end := c.open.end(); cut >= end {
		t.Fatalf("group 3 ends at %d, before the page at %d", end, cut)
	}
	if !c.First() || !c.Next() {
		t.Fatal(c.Err())
	}
	name := filepath.Join(dir, "a")
	if err := os.Truncate(name, cut); err != nil {
		t.Fatal(err)
	}
	_, taken := c.Take(&Wanted{Most: 100, Bytes: 1 << 20, InPlace: true}, nil, nil)
	if len(taken) != 2 || !errors.Is(c.Err(), fault.ErrIO) || c.Next() {
		t.Errorf("%d taken, want 2; %v", len(taken), c.Err())
	}
	if err := os.WriteFile(name, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if !c.SeekOrdinal(3) || item.Compare(c.Key(), &m[3].key) != 0 || !sameVersion(c.Version(), &m[3].ver) {
		t.Errorf("after the fault the cursor shows %q; %v", c.Key().ID, c.Err())
	}
}
