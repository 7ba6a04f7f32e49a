// Package arena lends chunks of memory outside of the Go heap, for memtables.
//
// Chunks have sizes of 8 KiB to 2 MiB, each twice the one before. Larger chunks are multiples
// of 2 MiB. No chunk is smaller than a page of the system, which is 64 KiB on some systems.
// Chunks are reused, because the first access to fresh memory costs a page fault; on a virtual
// machine this takes longer than all other work of a memtable. The garbage collector sees
// nothing in a chunk.
//
// Invariants:
//
//  1. Used exceeds Limit only by memory that was taken with force, or reserved beyond it.
//  2. Held, which includes free chunks, exceeds Limit only by the same amount: free chunks
//     of other sizes are returned to the system first.
//  3. Chunks are made ahead only within Limit.
//
// The race detector does not see memory outside of the Go heap. In a program built with it,
// chunks are ordinary slices.
package arena

import (
	"errors"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
)

// Sizes of chunks, in bytes.
const (
	MinChunkBytes = 8 << 10
	MaxChunkBytes = 2 << 20
	classes       = 9

	touchEvery = 4 << 10 // page, the smallest there are
)

// ErrFull says that the pool has lent as much as it may.
var ErrFull = errors.New("arena: memory limit reached")

// Pool lends chunks up to a limit. It is safe for concurrent use.
type Pool struct {
	limit  int64
	least  int          // size of the smallest chunk
	used   atomic.Int64 // lent
	makers sync.WaitGroup
	mu     struct {
		sync.Mutex
		held   int64 // lent and free
		free   [classes][][]byte
		closed bool
		ahead  int      // largest chunks to have ready
		ready  [][]byte // those, touched and never lent
		making bool     // a goroutine makes more
		guard  bool     // see Guard
		fenced [][]byte // what came back last, oldest first
	}
}

// NewPool returns a pool that lends at most limit bytes. It holds nothing yet.
func NewPool(limit int64) *Pool { return newPool(limit, os.Getpagesize()) }

func newPool(limit int64, page int) *Pool {
	return &Pool{limit: limit, least: max(MinChunkBytes, page)}
}

// Limit returns the bytes that the pool lends at most.
func (p *Pool) Limit() int64 { return p.limit }

// Used returns the bytes lent now.
func (p *Pool) Used() int64 { return p.used.Load() }

// Held returns the bytes taken from the system: lent and free.
func (p *Pool) Held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.held
}

// Get lends a chunk of at least size bytes, aligned to a page and not zeroed.
// It returns ErrFull if that would pass the limit, unless force is set, and an
// error of the system if there is no memory.
func (p *Pool) Get(size int, force bool) ([]byte, error) {
	size = max(chunkSize(size), p.least)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !force && p.used.Load()+int64(size) > p.limit {
		return nil, ErrFull
	}
	if class, ok := classOf(size); ok {
		if chunk := pop(&p.mu.free[class]); chunk != nil {
			p.used.Add(int64(size))
			return chunk, nil
		}
		if size == MaxChunkBytes {
			p.makeLocked()
			if chunk := pop(&p.mu.ready); chunk != nil {
				p.used.Add(int64(size))
				return chunk, nil
			}
		}
	}
	p.trimLocked(p.limit - int64(size))
	chunk, err := allocate(size)
	if err != nil {
		return nil, err
	}
	p.mu.held += int64(size)
	p.used.Add(int64(size))
	return chunk, nil
}

// MakeAhead has n of the largest chunks made, and touched, before they are asked
// for, from the first time on that one is and as long as the limit leaves room: the
// page faults of fresh memory are then not the caller's.
func (p *Pool) MakeAhead(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.ahead = n
}

// makeLocked has chunks made, if some are wanted.
func (p *Pool) makeLocked() {
	if p.mu.making || !p.wantedLocked() {
		return
	}
	p.mu.making = true
	p.makers.Go(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for p.wantedLocked() {
			p.mu.held += MaxChunkBytes
			p.mu.Unlock()
			chunk, err := allocate(MaxChunkBytes)
			for i := 0; i < len(chunk); i += touchEvery {
				chunk[i] = 0
			}
			p.mu.Lock()
			if err != nil { // who asks next is told
				p.mu.held -= MaxChunkBytes
				break
			}
			keep := p.limit // others may have taken the room
			if p.mu.closed {
				keep = 0
			}
			p.mu.ready = append(p.mu.ready, chunk)
			p.trimLocked(keep)
		}
		p.mu.making = false
	})
}

func (p *Pool) wantedLocked() bool {
	return !p.mu.closed && len(p.mu.ready) < p.mu.ahead && p.mu.held+MaxChunkBytes <= p.limit
}

// Reserve counts size bytes, which the caller holds elsewhere, as lent. It returns
// false, and counts nothing, if more than beyond bytes past the limit would be lent.
// Unreserve ends it.
func (p *Pool) Reserve(size, beyond int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used.Load()+size > p.limit+beyond {
		return false
	}
	p.trimLocked(p.limit - size)
	p.mu.held += size
	p.used.Add(size)
	return true
}

// Unreserve ends what Reserve began, for all or a part of its bytes.
func (p *Pool) Unreserve(size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.held -= size
	p.used.Add(-size)
}

// Put takes back a chunk that Get lent. Nobody may touch it afterwards.
func (p *Pool) Put(chunk []byte) {
	if len(chunk) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used.Add(-int64(len(chunk)))
	class, ok := classOf(len(chunk))
	if p.mu.guard && !p.mu.closed {
		p.mu.held -= int64(len(chunk))
		fence(chunk)
		if p.mu.fenced = append(p.mu.fenced, chunk); len(p.mu.fenced) > maxFenced {
			release(p.mu.fenced[0])
			p.mu.fenced = p.mu.fenced[1:]
		}
		return
	}
	if !ok || p.mu.closed || p.mu.held > p.limit {
		p.releaseLocked(chunk)
		return
	}
	p.mu.free[class] = append(p.mu.free[class], chunk)
}

// Guard is for tests: chunks that come back are not lent again, and who touches one of
// the last of them does not find what was in it. On Linux the memory fault ends the
// process; with the race detector, which sees it, and elsewhere there is garbage.
func (p *Pool) Guard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.guard = true
}

const maxFenced = 32 // chunks

// spoil overwrites a chunk.
func spoil(chunk []byte) {
	for i := range chunk {
		chunk[i] = 0xDB
	}
}

// Trim gives free chunks back to the system until at most keep bytes are held
// or none is free.
func (p *Pool) Trim(keep int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trimLocked(keep)
}

// Close gives all free chunks back, and waits for those being made; those lent
// follow as they come in.
func (p *Pool) Close() {
	p.mu.Lock()
	p.mu.closed = true
	p.trimLocked(0)
	for _, chunk := range p.mu.fenced {
		release(chunk)
	}
	p.mu.fenced = nil
	p.mu.Unlock()
	p.makers.Wait()
}

func (p *Pool) trimLocked(keep int64) {
	p.trimListLocked(&p.mu.ready, keep)
	for class := range p.mu.free {
		p.trimListLocked(&p.mu.free[class], keep)
	}
}

func (p *Pool) trimListLocked(list *[][]byte, keep int64) {
	for len(*list) > 0 && p.mu.held > keep {
		p.releaseLocked(pop(list))
	}
}

// pop takes the last chunk of a list, nil if there is none.
func pop(list *[][]byte) []byte {
	last := len(*list) - 1
	if last < 0 {
		return nil
	}
	chunk := (*list)[last]
	(*list)[last] = nil
	*list = (*list)[:last]
	return chunk
}

func (p *Pool) releaseLocked(chunk []byte) {
	p.mu.held -= int64(len(chunk))
	release(chunk)
}

// chunkSize rounds a size up to that of a chunk, where pages are small.
func chunkSize(size int) int {
	if size <= MinChunkBytes {
		return MinChunkBytes
	}
	if size >= MaxChunkBytes {
		return (size + MaxChunkBytes - 1) / MaxChunkBytes * MaxChunkBytes
	}
	return 1 << bits.Len(uint(size-1))
}

// classOf returns the class of a chunk size; the one-off sizes have none.
func classOf(size int) (class int, ok bool) {
	if size > MaxChunkBytes {
		return 0, false
	}
	return bits.TrailingZeros(uint(size / MinChunkBytes)), true
}
