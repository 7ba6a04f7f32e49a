//go:build race

package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/ctxlock"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestLockChecker: the checker panics where such locks are taken the wrong way round,
// where a lock is taken under one that belongs behind it, and where a manifest is
// stored under a commit lock.
func TestLockChecker(t *testing.T) {
	s := newReplicaStore(t, testOptions(vfs.NewMem()))
	watched.ignore(s.db) // a panic amid the store of a manifest leaves its file open
	p := s.docs.routing.Load().parts[0]
	take := func(l *ctxlock.Mutex) {
		must(t, l.Lock(context.Background()))
		l.Unlock()
	}
	for _, tc := range []struct {
		want string
		fn   func()
	}{
		{"partition.compacting (rank 30) is taken under partition.flushing", func() {
			must(t, p.Flushing.Lock(context.Background()))
			defer p.Flushing.Unlock()
			take(&p.Compacting)
		}},
		{"DB.storeManifest (rank 90) is taken under partition.commit", func() {
			p.Commit.Lock()
			defer p.Commit.Unlock()
			s.docs.divide()
		}},
		{"MANIFEST-0000000002.tmp under partition.commit", func() {
			p.Commit.Lock()
			defer p.Commit.Unlock()
			_ = p.StoreFiles(nil, 0, manifest.Applied{}, nil)
		}},
	} {
		got := func() (text string) {
			defer func() { text, _ = recover().(string) }()
			tc.fn()
			return ""
		}()
		if !strings.Contains(got, tc.want) {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
