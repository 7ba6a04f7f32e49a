//go:build amd64 || arm64

package prefetch

import "unsafe"

// line is the size of a cache line, or half of one.
const line = 64

// Lines asks for the cache lines of b.
func Lines(b []byte) {
	if len(b) > 0 {
		lines(&b[0], (len(b)+line-1)/line)
	}
}

// At asks for n cache lines from the one with p on. n is 1 or more.
func At(p unsafe.Pointer, n int) { lines((*byte)(p), n) }

// lines asks for n lines from the one with p on. n is 1 or more.
//
//go:noescape
func lines(p *byte, n int)
