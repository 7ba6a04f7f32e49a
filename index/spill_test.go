package index

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
)

// TestSpilledRunsAreJoined: of what a builder has written to its temporary file it reads few runs at a time, however many
// documents do not find place in its memory, and the index is the same.
func TestSpilledRunsAreJoined(t *testing.T) {
	c := mustCompile(t, All())
	var docs []string
	for i := range 15_000 {
		docs = append(docs, fmt.Sprintf(`{"a":%d,"b":"text %d","c":%d}`, i, i%1000, i%3))
	}
	b := NewBuilder(c, 64<<10, newTempFiles().create)
	defer b.Close()
	for o, doc := range docs {
		if err := b.Add(uint32(o), []byte(doc)); err != nil {
			t.Fatal(err)
		}
		if len(b.spilled) > 24 {
			t.Fatalf("%d runs after %d documents", len(b.spilled), o+1)
		}
	}
	if !bytes.Equal(written(t, b, len(docs)), build(t, c, docs, 0, nil)) {
		t.Error("the index is another one")
	}
}

// TestSpilledRunDamaged: what the temporary file has not kept gets into no index.
func TestSpilledRunDamaged(t *testing.T) {
	b := NewBuilder(mustCompile(t, All()), 64<<10, newTempFiles().create)
	defer b.Close()
	const docs = 3000
	for o := range docs {
		if err := b.Add(uint32(o), fmt.Appendf(nil, `{"a":%d,"b":"text %d","c":%d}`, o, o%1000, o%3)); err != nil {
			t.Fatal(err)
		}
	}
	run := b.spilled[0]
	source := &spillSource{b.spill, run}
	whole, err := source.View(0, run.size)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, run.size / 2, run.size - 1} {
		for _, value := range []byte{whole[at] ^ 1, whole[at]} {
			if _, err = b.spill.WriteAt([]byte{value}, run.off+at); err != nil {
				t.Fatal(err)
			}
			got, err := source.View(at, 1)
			if changed := value != whole[at]; errors.Is(err, fault.ErrIO) != changed || !changed && got[0] != value {
				t.Errorf("byte %d, changed %v: %x, %v", at, changed, got, err)
			}
		}
	}
	if _, err = b.spill.WriteAt([]byte{whole[run.size/2] ^ 1}, run.off+run.size/2); err != nil {
		t.Fatal(err)
	}
	if err = b.WriteTo(func([]byte) error { return nil }, docs); !errors.Is(err, fault.ErrIO) {
		t.Errorf("%v, want ErrIO", err)
	}
}
