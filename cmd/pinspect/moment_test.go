package main

import (
	"testing"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/engine"
)

// TestOneMoment: what info says of a container comes from the store as it was
// opened, and not from the files that a writer has left since.
func TestOneMoment(t *testing.T) {
	s := newSample(t)
	db, err := engine.Open(t.Context(), s.dir, &engine.Options{ReadOnly: true})
	check(t, err)
	defer db.Close()
	for _, cs := range db.Stats().Containers {
		if info := describeContainer(&cs, new(layout.Store)); cs.Name == "cities" && (info.Logical < 7 || info.Compression != "fast" || info.Documents == 0) {
			t.Errorf("%+v", info)
		}
	}
}
