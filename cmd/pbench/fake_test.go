package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/partmap"
)

// fakeStore is a store in memory for tests of the commands alone.
type fakeStore struct {
	mu         sync.Mutex
	containers map[string]*fakeContainer
	stats      harness.StoreStats
	closed     bool
	closeErr   error
	splits     *harness.SplitLog
	splitErr   error
	fails      int64        // reads that fail after each Settle but the first
	settled    int          // times
	failing    atomic.Int64 // reads that are to fail
}

func newFakeStore() *fakeStore { return &fakeStore{containers: make(map[string]*fakeContainer)} }

func (s *fakeStore) Container(name string) (harness.Container, error) {
	if c, ok := s.containers[name]; ok {
		return c, nil
	}
	return nil, fmt.Errorf("container %q: %w", name, harness.ErrNoContainer)
}

func (s *fakeStore) CreateContainer(_ context.Context, name string, def harness.ContainerDef) (harness.Container, error) {
	c := &fakeContainer{s: s, def: def, docs: make(map[harness.DocumentName][]byte)}
	s.containers[name] = c
	return c, nil
}

func (s *fakeStore) Names() (names []string) {
	for name := range s.containers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (s *fakeStore) Stats() harness.StoreStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

func (s *fakeStore) Checkpoint(context.Context, string) (harness.Checkpoint, error) {
	return harness.Checkpoint{}, nil
}
func (s *fakeStore) Flush(context.Context) error { return nil }
func (s *fakeStore) Settle(ctx context.Context) error {
	if s.settled++; s.settled > 1 {
		s.failing.Store(s.fails)
	}
	return ctx.Err()
}
func (s *fakeStore) Close() error { s.closed = true; return s.closeErr }

type fakeContainer struct {
	s       *fakeStore
	def     harness.ContainerDef
	docs    map[harness.DocumentName][]byte
	readErr error
	loadErr error         // a load ends with it, when it has written everything
	onLoad  func(n int64) // called before each document of a load
	onRead  func(id string)
}

func (c *fakeContainer) Def() harness.ContainerDef { return c.def }

func (c *fakeContainer) SetThroughput(context.Context, float64) error { return nil }

func (c *fakeContainer) Stats() (s harness.ContainerStats) {
	for _, doc := range c.docs {
		s.Documents++
		s.RawBytes += int64(len(doc))
	}
	return s
}

func (c *fakeContainer) Load(ctx context.Context, docs iter.Seq2[[]byte, error], o harness.LoadOptions) (committed, size int64, err error) {
	for doc, err := range docs {
		if err == nil && c.onLoad != nil {
			c.onLoad(committed)
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return committed, size, err
		}
		if err := c.Upsert(ctx, partmap.Key{}, "", doc); err != nil {
			return committed, size, &harness.InputError{Index: committed, Err: err}
		}
		committed++
		size += int64(len(doc))
		if o.Progress != nil {
			o.Progress(committed, size)
		}
	}
	return committed, size, c.loadErr
}

func (c *fakeContainer) Upsert(_ context.Context, _ partmap.Key, _ string, doc []byte) error {
	var properties map[string]any
	if err := json.Unmarshal(doc, &properties); err != nil {
		return fmt.Errorf("document: %w", err)
	}
	name := harness.DocumentName{}
	name.ID, _ = properties["id"].(string)
	value, _ := properties[strings.TrimPrefix(c.def.PartitionKey[0], "/")].(string)
	name.Key = partmap.String(value)
	if name.ID == "" {
		return errors.New("document without id")
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.docs[name] = bytes.Clone(doc)
	c.s.stats.Writes++
	c.s.stats.WrittenBytes += int64(len(doc))
	c.s.stats.LogBytes += 2 * int64(len(doc))
	return nil
}

func (c *fakeContainer) Read(_ context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	if c.onRead != nil {
		c.onRead(id)
	}
	if c.readErr != nil {
		return nil, c.readErr
	}
	if c.s.failing.Load() > 0 && c.s.failing.Add(-1) >= 0 {
		return nil, errors.New("a read that failed")
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	doc, ok := c.docs[harness.DocumentName{Key: key, ID: id}]
	if !ok {
		return nil, measure.ErrNotFound
	}
	return append(buf, doc...), nil
}

func (c *fakeContainer) Scan(_ context.Context, key partmap.Key, from string, limit int, visit func(doc []byte)) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	items := 0
	for name, doc := range c.docs {
		if name.Key == key && name.ID >= from && (items < limit || limit == 0) {
			items++
			visit(doc)
		}
	}
	return nil
}

func (c *fakeContainer) With(harness.Durability) measure.Store { return c }
func (c *fakeContainer) Expiring(time.Duration) measure.Store  { return c }

// Split pretends to have split the first partition.
func (c *fakeContainer) Split(context.Context) error {
	r := harness.Reshape{Kind: "split", Parents: []uint32{1}, Err: c.s.splitErr}
	if r.Err == nil {
		c.def.Partitions++
		r.Children, r.Swapped, r.Pause = []uint32{2, 3}, time.Now(), 7*time.Microsecond
	}
	c.s.splits.Note(r)
	return r.Err
}

// Merge pretends to have merged the first two partitions.
func (c *fakeContainer) Merge(context.Context) error {
	c.def.Partitions--
	c.s.splits.Note(harness.Reshape{Kind: "merge", Parents: []uint32{2, 3}, Children: []uint32{4}, Swapped: time.Now(), Pause: 9 * time.Microsecond})
	return nil
}

func (c *fakeContainer) Keys(context.Context) iter.Seq2[harness.DocumentName, error] {
	return func(yield func(harness.DocumentName, error) bool) {
		for name := range c.docs {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// session is an environment with a fake store, whatever the directory.
type session struct {
	harness.Environment
	store       *fakeStore
	out, errOut bytes.Buffer
}

func newSession(t *testing.T) *session {
	t.Helper()
	s := &session{store: newFakeStore()}
	s.Environment = harness.Environment{
		Stdin: strings.NewReader(""), Stdout: &s.out, Stderr: &s.errOut,
		Trial: harness.TrialTimes{Calibration: 5 * time.Millisecond, Maximum: 20 * time.Millisecond},
		Open: func(_ context.Context, dir string, o harness.StoreOptions) (harness.Store, error) {
			s.store.splits = o.Splits
			return s.store, os.WriteFile(filepath.Join(dir, "fake"), []byte("a store"), 0o600)
		},
	}
	return s
}

// do runs a command line with fresh output and checks the exit status.
func (s *session) do(t *testing.T, want int, args ...string) {
	t.Helper()
	s.doContext(t, t.Context(), want, args...)
}

func (s *session) doContext(t *testing.T, ctx context.Context, want int, args ...string) {
	t.Helper()
	s.out.Reset()
	s.errOut.Reset()
	if got := execute(ctx, args, &s.Environment); got != want {
		t.Fatalf("pbench %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), got, want, &s.out, &s.errOut)
	}
}

// wants checks that a text holds others.
func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("want %q in\n%s", part, text)
		}
	}
}
