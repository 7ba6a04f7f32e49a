package index

import (
	"bytes"
	"fmt"
	"testing"
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
