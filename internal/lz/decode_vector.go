//go:build amd64 || arm64

package lz

// pairs decodes pairs of b until need bytes are there, or until it meets a pair that
// it leaves to pair: one
//
//   - that has a match from less than 16 bytes before,
//   - that is malformed,
//   - for which there is no room to copy 16 bytes at a time, or less than 21 bytes of
//     b.src's capacity, or than 16 behind its literals.
//
// It writes within b.dst and reads within the capacities of b.src and b.dict. Of a
// truncated block it may read some bytes behind the end: then b.s is beyond len(b.src).
//
//go:noescape
func pairs(b *block, need int)
