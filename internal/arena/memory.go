//go:build !race

package arena

import "github.com/edsrzf/mmap-go"

// allocate returns fresh memory outside of the Go heap. It is private to the
// process (COPY): shared memory gets no huge pages and is not counted as the
// process's own.
func allocate(size int) ([]byte, error) {
	m, err := mmap.MapRegion(nil, size, mmap.COPY, mmap.ANON, 0)
	if err != nil {
		return nil, err
	}
	advise(m)
	return m, nil
}

// release unmaps a chunk. The memory is the pool's own, so the call fails only
// if the process is already broken.
func release(chunk []byte) {
	m := mmap.MMap(chunk)
	_ = m.Unmap()
}
