package main

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/measure"
	"github.com/cleavestore/cleave/partmap"
)

// store is an open store.
type store interface {
	measure.Store
	// Load writes documents in the way that the store advises for many of
	// them: in its own batches of about batchBytes, without a sync for each. A
	// document is valid until the next is asked for.
	Load(ctx context.Context, docs iter.Seq[document]) error
	// Settle makes everything durable and waits until nothing is left to do in
	// the background. quiet is the part of the time that went into seeing that
	// nothing was.
	Settle(ctx context.Context) (quiet time.Duration, err error)
	Close() error
}

// document is what a load writes.
type document struct {
	key  partmap.Key
	id   string
	body []byte
}

// batchBytes is the size of the documents that a load commits together.
const batchBytes = 1 << 20

// mode is how a store is opened.
type mode struct {
	Synced  bool `json:"synced"`  // a write returns when it is durable; else when the store has it
	Workers int  `json:"workers"` // goroutines that will call
	// Memory bounds the process, in bytes; 0: nothing does.
	Memory int64 `json:"memory,omitempty"`
	// KeyPath is the path of the partition key in the documents.
	KeyPath string `json:"key_path,omitempty"`
}

// blockCache is how large the block cache of a store is that has one: 1 GiB, or a third of
// the memory of the process.
func (m mode) blockCache() int64 {
	const usual = 1 << 30
	if m.Memory == 0 {
		return usual
	}
	return min(usual, m.Memory/3)
}

// candidate is a store that can be measured.
type candidate struct {
	name     string
	about    func() string // library and version
	settings string        // what differs from the defaults
	ours     bool
	probe    bool // neither ours nor a peer: a limit, printed beside the synced puts
	// open opens the store in a directory, making it if that is empty.
	open func(ctx context.Context, dir string, m mode) (store, error)
	// writesOnly: for rows about reading alone another candidate stands for it.
	writesOnly bool
	// scansOnly: it takes part in scans alone, and the load for them.
	scansOnly bool
}

// candidates are all stores of this build, Cleave's variants first.
func candidates() []candidate {
	all := append(cleaveVariants(), pebbleStore, badgerStore, bboltStore)
	return append(append(all, cgoStores...), bareLog)
}

// cgoStores are those that need a C compiler: SQLite, and by a build tag those
// that need a library too.
var cgoStores []candidate

// keys lends buffers for the keys of stores that have one key space: the
// encoded partition key, which is free of prefixes, and the id.
var keys = sync.Pool{New: func() any { return &keyBuffer{b: make([]byte, 0, 128)} }}

type keyBuffer struct{ b []byte }

// joinKey returns the key of a document in a buffer that must be released.
func joinKey(key partmap.Key, id string) *keyBuffer {
	k := keys.Get().(*keyBuffer)
	k.b = appendKey(k.b[:0], key, id)
	return k
}

func (k *keyBuffer) release() { keys.Put(k) }

func appendKey(dst []byte, key partmap.Key, id string) []byte {
	return append(append(dst, key.Encoded()...), id...)
}

// afterPrefix returns the first key behind all that begin with prefix, which
// is an encoded partition key.
func afterPrefix(dst, prefix []byte) []byte {
	n := len(prefix)
	for prefix[n-1] == 0xff {
		n--
	}
	dst = append(dst, prefix[:n]...)
	dst[len(dst)-1]++
	return dst
}

// pair is a document under its joined key.
type pair struct{ key, value []byte }

// batches groups documents by batchBytes. A batch and its memory are valid
// until the next is asked for.
func batches(docs iter.Seq[document]) iter.Seq[[]pair] {
	return func(yield func([]pair) bool) {
		var pairs []pair
		memory := make([]byte, 0, batchBytes+batchBytes/8)
		size := 0
		for doc := range docs {
			at := len(memory)
			memory = appendKey(memory, doc.key, doc.id)
			middle := len(memory)
			memory = append(memory, doc.body...) // what moved keeps its old memory
			pairs = append(pairs, pair{memory[at:middle:middle], memory[middle:]})
			if size += len(doc.body); size >= batchBytes {
				if !yield(pairs) {
					return
				}
				pairs, memory, size = pairs[:0], memory[:0], 0
			}
		}
		if len(pairs) > 0 {
			yield(pairs)
		}
	}
}

// takesPart reports whether a step is for a store.
func (c *candidate) takesPart(s step) bool {
	scans := s.kind == loadTask || s.workload == "partition" || s.workload == "ycsb-e"
	return !(s.reads && c.writesOnly) && (s.synced || !c.probe) && (scans || !c.scansOnly)
}

// restInterval is how often atRest looks, restPeriod how long nothing must be
// seen.
const (
	restInterval = 20 * time.Millisecond
	restPeriod   = 300 * time.Millisecond
)

// atRest waits until busy has reported false for restPeriod, which it returns.
func atRest(ctx context.Context, busy func() bool) (quiet time.Duration, err error) {
	ticker := time.NewTicker(restInterval)
	defer ticker.Stop()
	last := time.Now()
	for {
		now := time.Now()
		if busy() {
			last = now
		}
		if quiet = now.Sub(last); quiet >= restPeriod {
			return quiet, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// usesProcessor reports, from its second call on, whether this process used
// more than a twentieth of a processor since the last one.
func usesProcessor() func() bool {
	cpu, at := measure.CPUTime(), time.Now()
	return func() bool {
		nowCPU, now := measure.CPUTime(), time.Now()
		used := nowCPU - cpu
		elapsed := now.Sub(at)
		cpu, at = nowCPU, now
		return used > elapsed/20
	}
}
