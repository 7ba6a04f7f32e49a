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
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/partmap"
)

// fakeStore is a store in memory for tests of the commands alone.
type fakeStore struct {
	mu         sync.Mutex
	containers map[string]*fakeContainer
	stats      storeStats
	closed     bool
	closeErr   error
	splits     *splitLog
	splitErr   error
}

func newFakeStore() *fakeStore { return &fakeStore{containers: make(map[string]*fakeContainer)} }

func (s *fakeStore) Container(name string) (container, error) {
	if c, ok := s.containers[name]; ok {
		return c, nil
	}
	return nil, fmt.Errorf("container %q: %w", name, errNoContainer)
}

func (s *fakeStore) CreateContainer(_ context.Context, name string, def containerDef) (container, error) {
	c := &fakeContainer{s: s, def: def, docs: make(map[documentName][]byte)}
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

func (s *fakeStore) Stats() storeStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

func (s *fakeStore) Checkpoint(context.Context, string) (checkpoint, error) {
	return checkpoint{}, nil
}
func (s *fakeStore) Flush(context.Context) error      { return nil }
func (s *fakeStore) Settle(ctx context.Context) error { return ctx.Err() }
func (s *fakeStore) Close() error                     { s.closed = true; return s.closeErr }

type fakeContainer struct {
	s       *fakeStore
	def     containerDef
	docs    map[documentName][]byte
	readErr error
	loadErr error         // a load ends with it, when it has written everything
	onLoad  func(n int64) // called before each document of a load
	onRead  func()
}

func (c *fakeContainer) Def() containerDef { return c.def }

func (c *fakeContainer) SetThroughput(context.Context, float64) error { return nil }

func (c *fakeContainer) Stats() (s containerStats) {
	for _, doc := range c.docs {
		s.documents++
		s.rawBytes += int64(len(doc))
	}
	return s
}

func (c *fakeContainer) Load(ctx context.Context, docs iter.Seq2[[]byte, error], o loadOptions) (committed, size int64, err error) {
	for doc, err := range docs {
		if err == nil && c.onLoad != nil {
			c.onLoad(committed)
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return committed, size, err
		}
		if err := c.Upsert(ctx, partmap.Key{}, "", doc); err != nil {
			return committed, size, &inputError{index: committed, err: err}
		}
		committed++
		size += int64(len(doc))
		if o.progress != nil {
			o.progress(committed, size)
		}
	}
	return committed, size, c.loadErr
}

func (c *fakeContainer) Upsert(_ context.Context, _ partmap.Key, _ string, doc []byte) error {
	var properties map[string]any
	if err := json.Unmarshal(doc, &properties); err != nil {
		return fmt.Errorf("document: %w", err)
	}
	name := documentName{}
	name.id, _ = properties["id"].(string)
	value, _ := properties[strings.TrimPrefix(c.def.partitionKey[0], "/")].(string)
	name.key = partmap.String(value)
	if name.id == "" {
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
		c.onRead()
	}
	if c.readErr != nil {
		return nil, c.readErr
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	doc, ok := c.docs[documentName{key, id}]
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
		if name.key == key && name.id >= from && (items < limit || limit == 0) {
			items++
			visit(doc)
		}
	}
	return nil
}

func (c *fakeContainer) With(durability) measure.Store { return c }

// Split pretends to have split the first partition.
func (c *fakeContainer) Split(context.Context) error {
	r := reshape{kind: "split", parents: []uint32{1}, err: c.s.splitErr}
	if r.err == nil {
		c.def.partitions++
		r.children, r.swapped, r.pause = []uint32{2, 3}, time.Now(), 7*time.Microsecond
	}
	c.s.splits.note(r)
	return r.err
}

// Merge pretends to have merged the first two partitions.
func (c *fakeContainer) Merge(context.Context) error {
	c.def.partitions--
	c.s.splits.note(reshape{kind: "merge", parents: []uint32{2, 3}, children: []uint32{4}, swapped: time.Now(), pause: 9 * time.Microsecond})
	return nil
}

func (c *fakeContainer) Keys(context.Context) iter.Seq2[documentName, error] {
	return func(yield func(documentName, error) bool) {
		for name := range c.docs {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// session is an environment with a fake store, whatever the directory.
type session struct {
	environment
	store       *fakeStore
	out, errOut bytes.Buffer
}

func newSession(t *testing.T) *session {
	t.Helper()
	s := &session{store: newFakeStore()}
	s.environment = environment{
		stdin: strings.NewReader(""), stdout: &s.out, stderr: &s.errOut,
		trial: trialTimes{calibration: 5 * time.Millisecond, maximum: 20 * time.Millisecond},
		self:  selfInTest,
		open: func(_ context.Context, dir string, o storeOptions) (store, error) {
			s.store.splits = o.splits
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
	if got := execute(ctx, args, &s.environment); got != want {
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
