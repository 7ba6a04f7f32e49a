//go:build !race

package arena

import "golang.org/x/sys/unix"

// advise asks for a huge page where a chunk can be one; it is a hint.
func advise(chunk []byte) {
	if len(chunk) >= MaxChunkBytes {
		_ = unix.Madvise(chunk, unix.MADV_HUGEPAGE)
	}
}
