package lsm

import (
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/deletion"
)

// TestTakeBesideQuery: the child of a split takes over what its parent knows of a file, but waits for no query that looks up
// the keys of that file: the split has locked the files of the parent.
func TestTakeBesideQuery(t *testing.T) {
	known := func() *vectorCache {
		return &vectorCache{loaded: true, lists: map[any]*deletion.Vector{uint64(1): new(deletion.Vector)}}
	}
	for _, join := range []bool{false, true} {
		from, to := known(), new(vectorCache)
		if join {
			to = known()
		}
		from.mu.Lock() // the query
		taken := make(chan struct{})
		go func() {
			to.take(from, join)
			close(taken)
		}()
		select {
		case <-taken:
			if to.loaded || len(to.lists) > 0 {
				t.Errorf("join %t: it knows what it has not seen: %v", join, to.lists)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("join %t: it waits for the query", join)
		}
		from.mu.Unlock()
		<-taken
		to.take(from, false)
		if !to.loaded || len(to.lists) != 1 {
			t.Errorf("join %t: afterwards it knows %v", join, to.lists)
		}
	}
}
