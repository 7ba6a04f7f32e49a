package segment

import (
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/openfile"
)

// ManyKeys is the most keys that MayHave takes: what is read for them in some ten files stays in
// the cache of a processor.
const ManyKeys = 64

// MayHave returns which of up to ManyKeys keys the file may have: bit i is that of keys[i]. Of
// the keys that the file does not have, its locator rules out some thirteen in fourteen. If the
// locator cannot be read all bits are set: Lookup then meets the error.
//
// What a search reads of a large file is in no cache near the processor. MayHave has it
// fetched for all keys at once, and then what Lookup reads of those that are left.
func (r *Reader) MayHave(keys []item.Lookup) uint64 {
	may, err := r.mayHave(keys)
	if err != nil {
		return 1<<len(keys) - 1
	}
	return may
}

func (r *Reader) mayHave(keys []item.Lookup) (may uint64, err error) {
	defer r.file.Unguard(openfile.Guard(), &err)
	ix, err := r.index()
	if err != nil {
		return 0, err
	}
	view := r.file.View()
	var probes [ManyKeys]probe
	for i := range keys {
		p := &probes[i]
		*p = probe{r: r, chunk: ix.chunks.find(keys[i].Key), hash: keys[i].Hash(&r.seed)}
		if c := p.chunk; c != nil && view != nil {
			view.Expect(c.buckets + int64(bucketOf(p.hash, c.count))*bucketLen)
		}
	}
	s := scratches.Get().(*scratch)
	defer s.free()
	for i := range keys {
		off, err := probes[i].next(s)
		if err != nil {
			return 0, err
		}
		if off != 0 {
			may |= 1 << i
			if view != nil {
				view.Expect(off)
			}
		}
	}
	return may, nil
}
