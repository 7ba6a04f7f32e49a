package segment

import (
	"encoding/binary"
	"math"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/openfile"
)

// contentCheck compares a file's tables with its items.
type contentCheck struct {
	*verifier
	ix       *index
	open     opened
	index    int64 // of the open group
	ordinal  uint64
	key      shownKey
	last     item.KeyCopy // key of the version before
	lastSeq  uint64
	deleted  deletedHere
	followed bool // the version before says that an older one follows
	seen     Properties
	slot     uint64 // next slot of the directory of partitions
	chunk    chunkCheck
	highest  uint64 // sequence so far in the block of offsets that the open group is in
}

// chunkCheck follows the chunk of the locator that the open group belongs to.
type chunkCheck struct {
	n       int // index of the chunk, -1 before the first
	claimed []bool
	keys    uint32
}

// content verifies the items, and the tables and the properties against them.
func (v *verifier) content() error {
	r := v.r
	c := contentCheck{verifier: v}
	c.seen = Properties{MinSeq: math.MaxUint64, MaxModified: math.MinInt64, StoredBytes: uint64(r.groups.Len)}
	c.chunk.n = -1
	var err error
	if c.ix, err = r.index(); err != nil {
		return v.note(err)
	}
	in := stream{r: r}
	var buf []byte
	for off := r.groups.Off; off < r.groups.end(); off = c.open.end() {
		b, err := in.group(off)
		if err == nil {
			buf, err = c.open.decode(r, b, off, buf)
		}
		if err == nil {
			err = c.group()
		}
		if err != nil {
			return v.note(err)
		}
		if c.index++; c.index%256 == 0 && v.ctx.Err() != nil {
			return v.ctx.Err()
		}
	}
	return v.note(c.finish())
}

// group verifies the open group.
func (c *contentCheck) group() (err error) {
	off := c.open.off
	at, ordinal, err := c.groupAt(c.index)
	if err != nil {
		return err
	}
	if at != off || uint64(ordinal) != c.ordinal {
		c.found(off, "offsets: group %d at %d with ordinal %d, not at %d with %d", c.index, off, c.ordinal, at, ordinal)
	}
	if err := c.block(); err != nil {
		return err
	}
	if err := c.nextChunk(); err != nil {
		return err
	}
	for i := range c.open.g.count {
		if err := c.member(i); err != nil {
			return err
		}
		c.highest = max(c.highest, c.open.g.sequence(i))
	}
	if last := c.index+1 == int64(c.r.props.Groups); last || c.index%blockGroups == blockGroups-1 {
		return c.ceiling()
	}
	return nil
}

// ceiling verifies the ceiling of sequences in the block that ends with the open group.
func (c *contentCheck) ceiling() (err error) {
	defer c.r.file.Unguard(openfile.Guard(), &err)
	at := c.r.offsets.Off + c.index/blockGroups*blockLen
	b, err := c.r.table(&c.s, at, blockLen)
	if err != nil {
		return err
	}
	p := &c.r.props
	if c.highest < p.MinSeq || c.highest > p.MaxSeq || binary.LittleEndian.Uint32(b[12:]) != p.ceiling(c.highest) {
		c.found(at, "offsets: block %d does not say how high the sequences of its groups are", c.index/blockGroups)
	}
	c.highest = 0
	return nil
}

// block verifies the length and the number of members of the open group in the
// offsets section.
func (c *contentCheck) block() (err error) {
	defer c.r.file.Unguard(openfile.Guard(), &err)
	i := int(c.index % blockGroups)
	at := c.r.offsets.Off + c.index/blockGroups*blockLen
	b, err := c.r.table(&c.s, at, blockLen)
	if err != nil {
		return err
	}
	_, _, wide := blockEntry(b, i)
	length := int(binary.LittleEndian.Uint16(b[16+2*i:]))
	if wide < 0 && length != c.open.g.size || int(b[48+i])+1 != c.open.g.count {
		c.found(at, "offsets: group %d has another length or number of items", c.index)
	}
	return nil
}

// member verifies a version.
func (c *contentCheck) member(i int) error {
	o := &c.open
	if err := c.key.set(c.r, o, i); err != nil {
		return err
	}
	k := &c.key.Key
	var ver item.Version
	o.version(i, &ver)
	hash := c.r.seed.Hash(k)
	if o.g.hashes[i] != memberHash(hash) {
		c.found(o.off, "group: member %d has the hash of another key", i)
	}
	if ver.Seq == 0 {
		c.found(o.off, "group: member %d has no sequence", i)
	}
	order := 1
	samePK := false
	if c.ordinal > 0 {
		order = item.Compare(k, &c.last.Key)
		samePK = item.ComparePartition(k, &c.last.Key) == 0
	}
	older := o.isOlder(i)
	switch {
	case older != c.followed, older && (order != 0 || ver.Seq >= c.lastSeq), !older && order <= 0:
		c.found(o.off, "group: member %d is out of order", i)
	}
	if !samePK {
		if err := c.partition(k); err != nil {
			return err
		}
	}
	p := &c.seen
	if !older {
		if err := c.locate(k, hash); err != nil {
			return err
		}
		p.Keys++
		if ver.IsDocument() {
			p.Live++
		}
		if p.Keys == 1 {
			p.Min = k.Clone()
		}
		c.last.Set(k)
	}
	if c.deleted.hides(k, &ver, samePK) {
		p.DeletedHere++
	}
	if ver.Deleted() {
		p.Tombstones++
		if k.OfPartition() {
			p.OfPartitions++
		}
	}
	p.Items++
	p.RawBytes += uint64(len(ver.Body))
	p.MinSeq, p.MaxSeq = min(p.MinSeq, ver.Seq), max(p.MaxSeq, ver.Seq)
	p.MaxModified = max(p.MaxModified, ver.Modified)
	c.lastSeq, c.followed = ver.Seq, o.isFollowed(i)
	c.ordinal++
	return nil
}

// partition verifies the entry of the logical partition that begins here.
func (c *contentCheck) partition(k *item.Key) (err error) {
	defer c.r.file.Unguard(openfile.Guard(), &err)
	t := &c.ix.partitions
	i := int(c.seen.LogicalPartitions)
	if i == 0 && t.low != k.Hash {
		c.found(t.dir-partitionsHeader, "partitions: hash of the first entry is %016x, not %016x", t.low, k.Hash)
	}
	c.seen.LogicalPartitions++
	if i >= t.n {
		return nil // finish reports it
	}
	where := t.entries + int64(i)*t.stride()
	b, err := c.r.table(&c.s, where, t.stride())
	if err != nil {
		return err
	}
	e := t.decode(b)
	if string(b[:t.prefix]) != string(k.EPK[:t.prefix]) || uint64(e.ordinal) != c.ordinal || int64(e.group) != c.index || e.rawBefore != c.seen.RawBytes {
		c.found(where, "partitions: entry %d is not what begins at ordinal %d in group %d", i, c.ordinal, c.index)
	}
	end := (k.Hash - t.low) >> t.shift
	if end >= t.slots {
		c.found(t.dir-partitionsHeader, "partitions: no slot for entry %d", i)
	}
	for ; c.slot <= end && c.slot < t.slots; c.slot++ {
		at := t.dir + 4*int64(c.slot)
		if b, err = c.r.table(&c.s, at, 4); err != nil {
			return err
		}
		if got := binary.LittleEndian.Uint32(b); got != uint32(i) {
			c.found(at, "partitions: slot %d leads to entry %d, not %d", c.slot, got, i)
		}
	}
	return nil
}

// nextChunk goes to the next chunk of the locator if it begins at the open
// group.
func (c *contentCheck) nextChunk() error {
	chunks := c.ix.chunks.chunks
	n := c.chunk.n + 1
	if n == len(chunks) || c.open.off < chunks[n].base {
		return nil
	}
	if err := c.finishChunk(); err != nil {
		return err
	}
	next := &chunks[n]
	if c.open.off != next.base || int64(next.firstGroup) != c.index {
		c.found(c.open.off, "locator: chunk %d begins at %d, group %d", n, next.base, next.firstGroup)
	}
	c.chunk = chunkCheck{n: n, claimed: make([]bool, int(next.count)*bucketSlots)}
	for i := range c.open.g.count {
		if c.open.isOlder(i) {
			continue
		}
		if err := c.key.set(c.r, &c.open, i); err != nil {
			return err
		}
		if item.Compare(&c.key.Key, &next.first) != 0 {
			c.found(c.open.off, "locator: chunk %d has another first key", n)
		}
		break
	}
	return nil
}

// finishChunk verifies that every entry of the chunk was found.
func (c *contentCheck) finishChunk() (err error) {
	defer c.r.file.Unguard(openfile.Guard(), &err)
	if c.chunk.n < 0 {
		return nil
	}
	ch := &c.ix.chunks.chunks[c.chunk.n]
	used := uint32(0)
	for i := range int64(ch.count) {
		b, err := c.r.table(&c.s, ch.buckets+i*bucketLen, bucketLen)
		if err != nil {
			return err
		}
		for _, fp := range b[:bucketSlots] {
			if fp != 0 {
				used++
			}
		}
	}
	if used != c.chunk.keys || ch.keys != used {
		c.found(ch.buckets, "locator: chunk %d has %d entries, says %d, for %d keys", c.chunk.n, used, ch.keys, c.chunk.keys)
	}
	return nil
}

// locate verifies that the locator leads from the key to the open group, by an entry
// that no other key has claimed.
func (c *contentCheck) locate(k *item.Key, hash uint64) (err error) {
	defer c.r.file.Unguard(openfile.Guard(), &err)
	c.chunk.keys++
	chunk := c.ix.chunks.find(k)
	if c.chunk.n < 0 || chunk != &c.ix.chunks.chunks[c.chunk.n] {
		c.found(c.open.off, "locator: a key of ordinal %d is sought in another chunk", c.ordinal)
		return nil
	}
	p := probe{r: c.r, chunk: chunk, hash: hash}
	for {
		off, err := p.next(&c.s)
		if err != nil {
			return err
		}
		if off == 0 {
			c.found(c.open.off, "locator: no entry for the key of ordinal %d", c.ordinal)
			return nil
		}
		if at := int(p.bucket)*bucketSlots + p.slot; off == c.open.off && !c.chunk.claimed[at] {
			c.chunk.claimed[at] = true
			return nil
		}
	}
}

// finish compares the properties with what was seen.
func (c *contentCheck) finish() error {
	if err := c.finishChunk(); err != nil {
		return err
	}
	if c.followed {
		c.found(c.open.off, "group: an older version is announced, the file ends")
	}
	if c.chunk.n+1 != len(c.ix.chunks.chunks) || c.slot != c.ix.partitions.slots {
		c.found(c.r.tables.off, "tables: cover more than the groups")
	}
	seen, say := &c.seen, &c.r.props
	seen.Groups = uint64(c.index)
	for _, p := range [...]struct {
		name      string
		seen, say uint64
	}{
		{"items", seen.Items, say.Items}, {"live keys", seen.Live, say.Live}, {"keys", seen.Keys, say.Keys},
		{"tombstones", seen.Tombstones, say.Tombstones},
		{"tombstones of logical partitions", seen.OfPartitions, say.OfPartitions}, {"deleted items", seen.DeletedHere, say.DeletedHere}, {"groups", seen.Groups, say.Groups},
		{"logical partitions", seen.LogicalPartitions, say.LogicalPartitions}, {"raw bytes", seen.RawBytes, say.RawBytes},
		{"stored bytes", seen.StoredBytes, say.StoredBytes}, {"lowest sequence", seen.MinSeq, say.MinSeq},
		{"highest sequence", seen.MaxSeq, say.MaxSeq}, {"newest modification", uint64(seen.MaxModified), uint64(say.MaxModified)},
	} {
		if p.seen != p.say {
			c.found(c.properties(), "properties: %s: %d, counted %d", p.name, p.say, p.seen)
		}
	}
	if item.Compare(&seen.Min, &say.Min) != 0 || item.Compare(&c.last.Key, &say.Max) != 0 {
		c.found(c.properties(), "properties: key range is not that of the items")
	}
	return nil
}

// properties returns the offset of the properties.
func (c *contentCheck) properties() int64 {
	f := Footer{Sections: c.r.props.Sections}
	return f.section(SectionProperties).Off
}
