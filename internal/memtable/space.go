package memtable

import (
	"sync/atomic"
	"unsafe"

	"github.com/cleavestore/cleave/internal/arena"
)

const (
	unitBytes  = 8  // alignment, and what the offset of a link counts
	offsetBits = 18 // low bits of a link: offset in the chunk, in units
	maxChunks  = 1 << (32 - offsetBits)
	reachBytes = unitBytes << offsetBits // part of a chunk that links reach: 2 MiB
	lineBytes  = 64                      // of the processor's cache
	blockBytes = 4 << 10
	firstBlock = 1 << 10 // bytes of a table's first block
)

// space is the memory of one table: chunks filled from the front, given back
// all at once. Only the writer allocates.
type space struct {
	bases atomic.Pointer[[]unsafe.Pointer] // start of each chunk
	_     [64]byte                         // what readers load | what the writer changes

	pool       *arena.Pool
	chunks     [][]byte // what the pool gets back
	filling    int      // chunk that allocations come from
	used, size int      // bytes of it: handed out, usable

	block     unsafe.Pointer // rest of the block that take hands out
	blockLink uint32
	blockLeft int // bytes of it

	bytes    atomic.Int64 // handed out
	reserved atomic.Int64 // sum of the chunks
}

// at returns the memory at a link. The caller has loaded the link atomically,
// so that the list of bases loaded here covers it.
func (s *space) at(link uint32) unsafe.Pointer {
	bases := *s.bases.Load()
	return unsafe.Add(bases[link>>offsetBits], uintptr(link%(1<<offsetBits))*unitBytes)
}

// alloc returns n bytes, aligned to a unit and not zeroed, and their link. An
// error is that of the pool, with nothing changed.
func (s *space) alloc(n int, force bool) (uint32, unsafe.Pointer, error) {
	n = roundUp(n)
	chunk, offset := s.filling, s.used
	if n <= s.size-s.used {
		s.used += n
	} else {
		size, err := s.addChunk(n, force)
		if err != nil {
			return 0, nil, err
		}
		// Go on with the chunk that has more left.
		chunk, offset = len(s.chunks)-1, 0
		if size-n > s.size-s.used {
			s.filling, s.used, s.size = chunk, n, size
		}
	}
	s.bytes.Add(int64(n))
	link := uint32(chunk)<<offsetBits | uint32(offset/unitBytes)
	return link, unsafe.Pointer(&s.chunks[chunk][offset]), nil
}

// reserve makes sure that the next calls of take can hand out n bytes, at most
// firstBlock.
func (s *space) reserve(n int, force bool) error {
	if n <= s.blockLeft {
		return nil
	}
	size := blockBytes
	if s.block == nil {
		size = firstBlock
	}
	link, mem, err := s.alloc(size+lineBytes-unitBytes, force)
	if err != nil {
		return err
	}
	skip := int(-uintptr(mem) % lineBytes)
	s.block, s.blockLink, s.blockLeft = unsafe.Add(mem, skip), link+uint32(skip/unitBytes), size
	return nil
}

// take returns n reserved bytes, whole lines and not zeroed, and their link.
// What is taken lies together, apart from the entries: searches in it then need
// few lines and pages.
func (s *space) take(n int) (uint32, unsafe.Pointer) {
	link, mem := s.blockLink, s.block
	if s.blockLeft -= n; s.blockLeft > 0 { // the end may be that of the chunk
		s.block = unsafe.Add(mem, n)
	}
	s.blockLink += uint32(n / unitBytes)
	return link, mem
}

// addChunk takes a chunk of at least n bytes from the pool and returns how many
// of its bytes links can reach.
func (s *space) addChunk(n int, force bool) (int, error) {
	if len(s.chunks) == maxChunks {
		return 0, arena.ErrFull
	}
	want := min(arena.MinChunkBytes<<min(len(s.chunks), 16), arena.MaxChunkBytes)
	chunk, err := s.pool.Get(max(want, n), force)
	if err != nil {
		return 0, err
	}
	s.chunks = append(s.chunks, chunk)
	s.reserved.Add(int64(len(chunk)))
	var bases []unsafe.Pointer
	if old := s.bases.Load(); old != nil {
		bases = *old
	}
	// Readers hold shorter slices of the same array at most.
	bases = append(bases, unsafe.Pointer(&chunk[0]))
	s.bases.Store(&bases)
	return min(len(chunk), reachBytes), nil
}

// release gives all chunks back.
func (s *space) release() {
	s.bases.Store(nil)
	for _, chunk := range s.chunks {
		s.pool.Put(chunk)
	}
	s.chunks = nil
	s.filling, s.used, s.size = 0, 0, 0
	s.block, s.blockLink, s.blockLeft = nil, 0, 0
	s.bytes.Store(0)
	s.reserved.Store(0)
}

func roundUp(n int) int { return (n + unitBytes - 1) &^ (unitBytes - 1) }
