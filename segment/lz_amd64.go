package segment

// lzPairs decodes pairs of b until need bytes are there, or until one comes that
// has over 16 literals, a match of none or over 64 bytes or from less than 16 bytes
// before, that is malformed, or for which there is not room enough to copy 16 bytes
// at a time, or less than 21 bytes of b.src's capacity: pair takes it from there.
// It writes within b.dst and reads within the capacities of b.src and b.dict, some
// bytes behind the end of a truncated block among them: then b.s is beyond
// len(b.src).
//
//go:noescape
func lzPairs(b *lzBlock, need int)
