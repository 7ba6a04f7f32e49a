package engine

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestBoundaryAtTheEnd: the end of the key space is no boundary to cut at.
func TestBoundaryAtTheEnd(t *testing.T) {
	s := newReplicaStore(t, testOptions(vfs.NewMem()))
	ids := s.plain.Partitions()
	last := ids[len(ids)-1].ID
	job, err := s.plain.Split(t.Context(), last, &SplitOptions{At: "FF"})
	if err == nil {
		err = job.Wait(t.Context())
	}
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("split: %v", err)
	}
	job, err = s.plain.MoveBoundary(t.Context(), ids[len(ids)-2].ID, last, "ff")
	if err == nil {
		err = job.Wait(t.Context())
	}
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("move: %v", err)
	}
}
