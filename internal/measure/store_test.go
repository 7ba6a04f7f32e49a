package measure

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/workload"
	"github.com/cleavestore/cleave/partmap"
)

// memoryStore is a store for tests.
type memoryStore struct {
	mu   sync.Mutex
	docs map[partmap.Key]map[string][]byte
}

func newMemoryStore() *memoryStore {
	return &memoryStore{docs: make(map[partmap.Key]map[string][]byte)}
}

func (s *memoryStore) Upsert(_ context.Context, key partmap.Key, id string, doc []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.docs[key] == nil {
		s.docs[key] = make(map[string][]byte)
	}
	s.docs[key][string([]byte(id))] = bytes.Clone(doc)
	return nil
}

func (s *memoryStore) Read(_ context.Context, key partmap.Key, id string, buf []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	doc, ok := s.docs[key][id]
	if !ok {
		return buf, ErrNotFound
	}
	return append(buf, doc...), nil
}

// Query answers with the text and, in a logical partition, its key.
func (s *memoryStore) Query(_ context.Context, key partmap.Key, text string, visit func([]byte)) error {
	visit([]byte(text))
	if key.Valid() {
		visit([]byte(key.String()))
	}
	return nil
}

func (s *memoryStore) Scan(_ context.Context, key partmap.Key, from string, limit int, visit func([]byte)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, id := range slices.Sorted(maps.Keys(s.docs[key])) {
		if id < from {
			continue
		}
		if n++; limit > 0 && n > limit {
			break
		}
		visit(s.docs[key][id])
	}
	return nil
}

func newLoop(t testing.TB, name string, n int64, s Store) *Loop {
	t.Helper()
	g, err := workload.NewGenerator(workload.Params{Shape: "food", LogicalPartitions: 100})
	if err != nil {
		t.Fatal(err)
	}
	w, err := workload.FindWorkload(name)
	if err != nil {
		t.Fatal(err)
	}
	return &Loop{Workload: w, Documents: NewGenerated(g, n), Store: s, Workers: 1}
}

// fill writes the documents of a loop.
func fill(t testing.TB, l *Loop) {
	t.Helper()
	ctx := t.Context()
	for i := range l.Documents.Count() {
		doc, err := l.Documents.AppendVersion(ctx, nil, i, 0)
		if err == nil {
			err = l.Store.Upsert(ctx, l.Documents.Key(i), string(l.Documents.AppendID(nil, i)), doc)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
