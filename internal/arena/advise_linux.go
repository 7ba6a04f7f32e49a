//go:build !race

package arena

import "golang.org/x/sys/unix"

// fence makes a chunk one that nobody can touch.
func fence(chunk []byte) {
	if unix.Mprotect(chunk, unix.PROT_NONE) != nil {
		spoil(chunk)
	}
}

// advise asks for a huge page where a chunk can be one; it is a hint.
func advise(chunk []byte) {
	if len(chunk) >= MaxChunkBytes {
		_ = unix.Madvise(chunk, unix.MADV_HUGEPAGE)
	}
}
