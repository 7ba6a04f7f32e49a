package index

// ahead is the Source of a reader whose cursor goes over all terms from the first on. It reads
// pieces of aheadBytes, where each block would take three reads: of what finds it, of the fence's
// key, and of itself, each of whole pages. It holds four pieces, and serves one goroutine.
type ahead struct {
	Source
	keys, table, policy     int64 // of the reader: where its parts end
	blocks, bitmaps         piece
	fenceKeys, fenceEntries piece
}

// piece is what was read at once.
type piece struct {
	off   int64
	bytes []byte
}

const (
	aheadBytes = 64 << 10
	aheadMost  = 4 * aheadBytes // what one holds
)

// ahead returns a reader of the same index that reads ahead.
func (r *Reader) ahead() *Reader {
	return &Reader{
		src:  &ahead{Source: r.src, keys: r.keys, table: r.table, policy: r.policy},
		info: r.info, keys: r.keys, table: r.table, policy: r.policy, notes: r.notes,
	}
}

// View implements Source.
func (a *ahead) View(off, n int64) ([]byte, error) {
	p, end := &a.blocks, a.keys
	switch {
	case off >= a.table:
		p, end = &a.fenceEntries, a.policy
	case off >= a.keys:
		p, end = &a.fenceKeys, a.table
	case off < a.blocks.off: // of the terms of the block, before which they lie
		p, end = &a.bitmaps, a.blocks.off
	}
	if at := off - p.off; at >= 0 && at <= int64(len(p.bytes))-n {
		return p.bytes[at : at+n : at+n], nil
	}
	if size := min(aheadBytes, end-off); n < size {
		// If the piece can't be read, perhaps what is asked for can.
		if b, err := a.Source.View(off, size); err == nil {
			*p = piece{off, b}
			return b[:n:n], nil
		}
	}
	return a.Source.View(off, n)
}
