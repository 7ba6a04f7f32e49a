package engine

import (
	"context"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestWatch: what a closed store leaves behind is told, each kind of it.
func TestWatch(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	for _, leak := range []struct {
		name, says string
		opts       *Options
		begin      func(db *DB) (end func())
	}{
		{"nothing", "", testOptions(mem), func(*DB) func() { return func() {} }},
		{"file", "open file", testOptions(mem), func(db *DB) func() {
			f, err := db.env.FS.Create("left")
			if err != nil {
				t.Fatal(err)
			}
			return func() { f.Close() }
		}},
		{"memory", "8192 bytes of memory", testOptions(mem), func(db *DB) func() {
			chunk, err := db.env.Pool.Get(1, false)
			if err != nil {
				t.Fatal(err)
			}
			return func() { db.env.Pool.Put(chunk) }
		}},
		{"goroutine", "a goroutine", testOptions(mem), func(db *DB) func() {
			begun, stop, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			s := watched.stores[db]
			s.look, s.turns = true, 10 // it does not end
			id := strconv.Itoa(s.id)
			go pprof.Do(ctx, pprof.Labels(watchLabel, id), func(context.Context) {
				defer close(ended)
				close(begun) // it has the label now
				<-stop
			})
			<-begun
			return func() { close(stop); <-ended }
		}},
	} {
		dir := "watch/" + leak.name
		db, err := Open(ctx, dir, leak.opts)
		if err != nil {
			t.Fatal(err)
		}
		end := leak.begin(db)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		end()
		left := watched.forget(dir)
		if !strings.Contains(left, leak.says) || (left == "") != (leak.says == "") {
			t.Errorf("%s: %q", leak.name, left)
		}
	}
}

// forget returns what a store left behind, as if it had not.
func (w *watcher) forget(dir string) (left string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = slices.DeleteFunc(w.left, func(text string) bool {
		mine := strings.Contains(text, "the store "+dir+":")
		if mine {
			left += text
		}
		return mine
	})
	return left
}
