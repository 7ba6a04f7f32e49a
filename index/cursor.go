package index

import (
	"context"
	"slices"
)

// Cursor moves over the terms of an index in both directions. It begins
// unpositioned, and is so again when a movement has returned false: at an end,
// or on an error, which Err tells. One that a memory fault has interrupted is of no
// use until it is Reset. It serves one goroutine at a time, and its zero value,
// Reset, can be pooled.
type Cursor struct {
	r       *Reader
	block   int   // that entries are of; -1: none
	rest    block // of it: its terms after entries, which are decoded when they are needed
	i       int   // of entries; the cursor is valid while it is one
	passed  bool  // terms of the block before entries were passed over
	keys    []byte
	entries []cursorEntry
	err     error
}

type cursorEntry struct {
	from, to int // in keys
	p        Posting
}

// Cursor returns a cursor over the terms.
func (r *Reader) Cursor() *Cursor {
	c := new(Cursor)
	c.Reset(r)
	return c
}

// Reset makes c an unpositioned cursor over r that keeps its memory.
func (c *Cursor) Reset(r *Reader) {
	clear(c.entries[:cap(c.entries)])
	*c = Cursor{r: r, block: -1, keys: c.keys[:0], entries: c.entries[:0]}
}

// Seek moves to the first term at or after key.
func (c *Cursor) Seek(key []byte) bool {
	if !c.seek(key, true) {
		return false
	}
	if c.i == len(c.entries) {
		return c.loadNext()
	}
	return true
}

// SeekBefore moves to the last term before key.
func (c *Cursor) SeekBefore(key []byte) bool {
	return c.seek(key, false) && c.Prev()
}

// seek opens the block that key would be in, at the first of its terms that is
// not before it, or behind the last. If pass is set it may pass over the terms before it.
func (c *Cursor) seek(key []byte, pass bool) bool {
	c.err = nil
	i, err := c.r.find(key)
	if c.err = err; err == nil && c.passed && i == c.block && (!pass || string(key) < string(c.keys[:c.entries[0].to])) {
		c.block = -1 // the terms that were passed over are needed
	}
	fresh := i != c.block
	if err != nil || i < 0 || !c.load(i) {
		c.at(-1)
		return false
	}
	if fresh && pass && string(c.last()) < string(key) && !c.pass(key) {
		if c.block = -1; !c.load(i) {
			return false
		}
	}
	for string(c.last()) < string(key) && c.grow() {
	}
	if c.err != nil {
		return false
	}
	lo, hi := 0, len(c.entries)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if e := &c.entries[mid]; string(c.keys[e.from:e.to]) < string(key) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	c.i = lo
	return true
}

// First moves to the first term.
func (c *Cursor) First() bool {
	if c.err = nil; c.passed {
		c.block = -1
	}
	return c.load(0) && c.at(0)
}

// Next moves to the next term.
func (c *Cursor) Next() bool {
	if c.i < 0 || c.i >= len(c.entries) {
		return c.at(-1)
	}
	if c.i+1 < len(c.entries) || c.grow() {
		c.i++
		return true
	}
	return c.err == nil && c.loadNext()
}

// Prev moves to the term before.
func (c *Cursor) Prev() bool {
	if c.i < 0 || c.block < 0 {
		return c.at(-1)
	}
	if c.i > 0 {
		c.i--
		return true
	}
	if c.passed {
		key := slices.Clone(c.Key())
		return c.seek(key, false) && c.Prev()
	}
	if c.block == 0 {
		return c.at(-1)
	}
	f, err := c.r.fence(c.block)
	if err != nil {
		return c.fail(err)
	}
	if !c.load(c.block - 1) {
		return false
	}
	for c.grow() {
	}
	if c.err == nil && string(c.last()) >= string(f.key) {
		return c.fail(c.r.corrupt(f.off, errDisorder))
	}
	return c.err == nil && c.at(len(c.entries)-1)
}

func (c *Cursor) at(i int) bool {
	c.i = i
	return i >= 0
}

// fail leaves the cursor unpositioned by an error.
func (c *Cursor) fail(err error) bool {
	c.err, c.i, c.block, c.entries = err, -1, -1, c.entries[:0]
	return false
}

// loadNext moves to the first term of the next block: that is not before the key of its fence, which
// is above all terms of the open block.
func (c *Cursor) loadNext() bool {
	if next := c.block + 1; next < c.r.info.Blocks {
		f, err := c.r.fence(next)
		if err == nil && string(f.key) <= string(c.last()) {
			err = c.r.corrupt(f.off, errDisorder)
		}
		if err != nil {
			return c.fail(err)
		}
	}
	return c.load(c.block+1) && c.at(0)
}

// load opens a block, of which it decodes one term; false leaves the cursor
// unpositioned.
func (c *Cursor) load(i int) bool {
	if i == c.block && i >= 0 {
		return true
	}
	if c.i = -1; i < 0 || i >= c.r.info.Blocks {
		return false
	}
	c.block, c.passed, c.keys, c.entries = i, false, c.keys[:0], c.entries[:0]
	f, err := c.r.fence(i)
	if err == nil {
		c.rest, err = c.r.blockAt(&f)
	}
	if err != nil {
		return c.fail(err)
	}
	if c.grow() && string(c.last()) >= string(f.key) {
		return true
	}
	return c.err == nil && c.fail(c.rest.corrupt())
}

// pass makes the first term of a block that is not before key its only entry, without decoding
// the terms before: the block was just loaded. Terms that differ from the one before behind the
// place where that differs from key are before key too. It returns false if there is no such term,
// or it can't be read: then the block must be loaded again.
func (c *Cursor) pass(key []byte) bool {
	b := &c.rest
	same := sharedPrefix(c.last(), key)
	for {
		b.pass(same)
		if ok, err := b.next(); !ok || err != nil {
			return false
		}
		if b.shared > same {
			continue
		}
		if b.shared < same && !b.after(key[:same]) {
			return false
		}
		if b.shared == same {
			n := sharedPrefix(b.rest, key[same:])
			if n < len(key)-same && (n == len(b.rest) || b.rest[n] < key[same+n]) {
				same += n
				continue
			}
		}
		c.keys = append(append(c.keys[:0], key[:b.shared]...), b.rest...)
		c.entries = append(c.entries[:0], cursorEntry{0, len(c.keys), b.p})
		c.passed = true
		return true
	}
}

// grow decodes the next term of the block; false: there is none, or the cursor
// is left unpositioned by an error.
func (c *Cursor) grow() bool {
	b := &c.rest
	ok, err := b.next()
	if err == nil && ok {
		from, last := len(c.keys), 0
		if n := len(c.entries); n > 0 {
			last = c.entries[n-1].from
		}
		if b.after(c.keys[last:]) {
			c.keys = append(append(c.keys, c.keys[last:last+b.shared]...), b.rest...)
			c.entries = append(c.entries, cursorEntry{from, len(c.keys), b.p})
			return true
		}
		err = b.corrupt()
	}
	return err != nil && c.fail(err)
}

// last returns the last term that is decoded.
func (c *Cursor) last() []byte {
	e := &c.entries[len(c.entries)-1]
	return c.keys[e.from:e.to]
}

// Valid says whether the cursor is at a term.
func (c *Cursor) Valid() bool { return c.i >= 0 && c.i < len(c.entries) && c.err == nil }

// Key returns the term's bytes, valid until the next movement.
func (c *Cursor) Key() []byte {
	e := &c.entries[c.i]
	return c.keys[e.from:e.to:e.to]
}

// Term returns what the term says; false: it says something of versions, or its
// bytes do not decode.
func (c *Cursor) Term() (Term, bool) { return DecodeTerm(c.Key()) }

// Posting returns the ordinals that have the term, valid until the next
// movement.
func (c *Cursor) Posting() *Posting { return &c.entries[c.i].p }

// Err returns the error that ended a movement, nil at an end.
func (c *Cursor) Err() error { return c.err }

// each calls visit with the postings of the terms of a span. It ends with ctx.
func (r *Reader) each(ctx context.Context, s Span, visit func(*Posting) error) error {
	if s.Empty() {
		return nil
	}
	i, err := r.find(s.From)
	if err != nil || i < 0 {
		return err
	}
	var key []byte
	for ; i < r.info.Blocks; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := r.fence(i)
		if err != nil {
			return err
		}
		if string(f.key) >= string(s.To) {
			return nil
		}
		inside := string(f.key) >= string(s.From)
		if inside = inside && i+1 < r.info.Blocks; inside {
			following, fenceErr := r.fence(i + 1)
			if fenceErr != nil {
				return fenceErr
			}
			inside = string(following.key) <= string(s.To)
		}
		b, err := r.blockAt(&f)
		if err != nil {
			return err
		}
		key = key[:0]
		for {
			ok, err := b.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if !inside {
				if b.shared > len(key) {
					return b.corrupt()
				}
				key = append(key[:b.shared], b.rest...)
				if string(key) < string(s.From) {
					continue
				}
				if string(key) >= string(s.To) {
					return nil
				}
			}
			if err := visit(&b.p); err != nil {
				return err
			}
		}
	}
	return nil
}

// Union adds to set the ordinals of all terms of a span that lie in its range. It ends
// with ctx, as do Count and CountIn: a span may have all terms of the index.
func (r *Reader) Union(ctx context.Context, s Span, set *Set) error {
	_, err := r.UnionCount(ctx, s, set)
	return err
}

// UnionCount is Union; it returns how many terms the span has.
func (r *Reader) UnionCount(ctx context.Context, s Span, set *Set) (terms int64, err error) {
	err = r.each(ctx, s, func(p *Posting) error {
		terms++
		return p.AddTo(set)
	})
	return terms, err
}

// Estimate returns about how many terms a span has, without looking at them: what the
// blocks hold that it lies in.
func (r *Reader) Estimate(s Span) (terms int64, err error) {
	if s.Empty() || r.info.Blocks == 0 {
		return 0, nil
	}
	from, err := r.find(s.From)
	if err != nil {
		return 0, err
	}
	to, err := r.find(s.To)
	if err != nil {
		return 0, err
	}
	return int64(to-from+1) * (r.info.Terms / int64(r.info.Blocks)), nil
}

// Count returns how many terms a span has, and how many ordinals they have
// together: that many versions, if none has two of the terms.
func (r *Reader) Count(ctx context.Context, s Span) (terms, postings int64, err error) {
	err = r.each(ctx, s, func(p *Posting) error {
		terms++
		postings += int64(p.n)
		return nil
	})
	return terms, postings, err
}

// CountIn returns how many ordinals of a set the terms of a span have together.
// It is fast if the set has few.
func (r *Reader) CountIn(ctx context.Context, s Span, in *Set) (postings int64, err error) {
	list := in.AppendTo(nil)
	if len(list) == 0 {
		return 0, nil
	}
	err = r.each(ctx, s, func(p *Posting) error {
		n, countErr := p.countOf(list, in)
		postings += int64(n)
		return countErr
	})
	return postings, err
}
