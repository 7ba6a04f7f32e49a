package segment

import (
	"bytes"
	"encoding/binary"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/openfile"
)

// The index section is a table like the others: its pages have checksums. It begins with
// zeros up to the next page, so that no page with damage in it belongs to another table
// too. Package index defines what it holds.

// SetIndex makes Finish write an index section. Finish calls write when all versions are
// added. write passes the bytes of the section to emit, in pieces.
func (w *Writer) SetIndex(write func(emit func([]byte) error) error) { w.index = write }

// Items returns the number of versions added so far, which is the ordinal of
// the next.
func (w *Writer) Items() uint32 { return uint32(w.props.Items) }

// LastOlder says whether the version added last follows a newer one of its key.
func (w *Writer) LastOlder() bool { return w.lastOlder }

// writeIndex writes the index section.
func (w *Writer) writeIndex(t *tableWriter) {
	if w.index == nil || w.err != nil {
		return
	}
	t.begin(SectionIndex)
	if t.page > 0 {
		t.write(make([]byte, pageLen-t.page))
	}
	err := w.index(func(b []byte) error {
		t.write(b)
		return w.err
	})
	if err != nil {
		w.fail(err)
	}
}

// IndexBytes are the bytes of the index section of a file. They are safe for
// concurrent use.
type IndexBytes struct {
	r    *Reader
	s    Section
	read bool
}

// Index returns the index section; false: the file has none. If the file is mapped, View
// gives slices of the mapping: call it, and use what it gives, within Guard only. With
// read, View gives copies that are read past the mapping.
func (r *Reader) Index(read bool) (IndexBytes, bool) {
	f := Footer{Sections: r.props.Sections}
	s := f.section(SectionIndex)
	pad := min(-(s.Off-r.tables.off)&(pageLen-1), s.Len)
	s.Off, s.Len = s.Off+pad, s.Len-pad
	return IndexBytes{r: r, s: s, read: read}, s.Kind != 0
}

// Size returns the length of the section.
func (x IndexBytes) Size() int64 { return x.s.Len }

// View returns n bytes at off of the section, verified.
func (x IndexBytes) View(off, n int64) ([]byte, error) {
	at := x.s.Off + off
	if off < 0 || n < 1 || n > x.s.Len-off {
		return nil, x.r.corrupt(at, errRange)
	}
	var m *openfile.View
	if !x.read {
		m = x.r.file.View()
	}
	if m == nil {
		return x.r.readTable(at, n)
	}
	t := &x.r.tables
	first, last := (at-t.off)/pageLen, (at+n-1-t.off)/pageLen
	for page := first; page <= last; page++ {
		if t.isChecked(page) {
			continue
		}
		s := scratches.Get().(*scratch)
		err := x.r.checkPage(s, page)
		s.free()
		if err != nil {
			return nil, err
		}
	}
	return m.Data[at : at+n : at+n], nil
}

// Corrupt returns the error for damage at off of the section.
func (x IndexBytes) Corrupt(off int64, cause error) error { return x.r.corrupt(x.s.Off+off, cause) }

// Guard calls fn, which may use the bytes that IndexBytes.View gives. A memory fault in
// the mapping ends fn and becomes an error. fn must hold no lock and must not change
// shared state.
func (r *Reader) Guard(fn func() error) (err error) {
	defer r.file.Unguard(openfile.Guard(), &err)
	return fn()
}

// SeekOrdinal moves to the version with an ordinal, whatever its sequence. The
// keys around it are then those that Next and Prev move to.
func (c *Cursor) SeekOrdinal(ordinal uint32) bool {
	if !c.begin() || uint64(ordinal) >= c.r.props.Items {
		return false
	}
	if c.ordinalOf != 0 && c.ordinalOf == c.open.off && ordinal-c.ordinal == uint32(c.open.g.count) && c.group >= 0 {
		// The first of the group that follows.
		c.ordinalOf = 0
		if !c.load(c.open.end(), c.group+1, false) {
			return false
		}
		c.ordinal, c.ordinalOf = ordinal, c.open.off
	}
	if c.ordinalOf == 0 || c.ordinalOf != c.open.off || ordinal < c.ordinal || ordinal-c.ordinal >= uint32(c.open.g.count) {
		c.ordinalOf = 0
		var at uint32
		var off int64
		c.err = c.r.Guard(func() (err error) {
			at, off, c.ordinal, err = c.r.groupOf(&c.s, ordinal)
			return err
		})
		if c.err != nil || !c.load(off, int64(at), false) {
			return false
		}
		c.ordinalOf = c.open.off
	}
	i := int(ordinal - c.ordinal)
	if i >= c.open.g.count {
		c.err = c.r.corrupt(c.open.off, errOrdinal)
		return false
	}
	return c.show(i)
}

// Show sets k and v to the key and the version with an ordinal, valid until the cursor
// moves. If the row cache holds the version, since it is shown repeatedly, no group
// is decoded and the cursor does not move. Otherwise Show is SeekOrdinal.
func (c *Cursor) Show(ordinal uint32, k *item.Key, v *item.Version) bool {
	hot := c.r.opts.RowCache
	if hot != nil {
		if key, version := hot.FindOrdinal(c.r.number, ordinal); key != nil {
			*k, *v = *key, *version
			return true
		}
	}
	if !c.SeekOrdinal(ordinal) {
		return false
	}
	*k, *v = c.key.Key, c.ver
	if c.s.decoded++; hot != nil && c.s.decoded%decodesPerNote == 0 && c.open.g.coding&codingCodec != codecRaw {
		hot.NoteOrdinal(c.r.number, ordinal, k, v)
	}
	return true
}

// Ordinal returns the ordinal of the version at the cursor. Call it only when
// Valid.
func (c *Cursor) Ordinal() (uint32, error) {
	if c.group < 0 && !c.findIndex() {
		return 0, c.err
	}
	_, first, err := c.locate(c.group)
	if err != nil {
		return 0, err
	}
	ordinal := first + uint32(c.i)
	if ordinal < first || uint64(ordinal) >= c.r.props.Items {
		return 0, c.r.corrupt(c.open.off, errOrdinal)
	}
	return ordinal, nil
}

// Older says whether the version at the cursor follows a newer one of its key in
// the file.
func (c *Cursor) Older() bool { return c.open.isOlder(c.i) }

// Followed says whether an older version of the key follows in the file.
func (c *Cursor) Followed() bool { return c.open.isFollowed(c.i) }

// groupOf returns the group that holds an ordinal: its index, its offset and the ordinal
// of its first member. Groups have about equally many members, so the search for the
// block interpolates.
func (r *Reader) groupOf(s *scratch, ordinal uint32) (index uint32, off int64, first uint32, err error) {
	groups := uint32(r.props.Groups)
	lo, hi := uint32(0), (groups-1)/blockGroups+1 // block lo begins at or before it, hi behind
	from, to := uint64(0), r.props.Items          // the ordinals with which they begin
	for i := 0; hi-lo > 1; i++ {
		mid := lo + (hi-lo)/2
		if i < interpolations {
			mid = lo + max(1, uint32((uint64(ordinal)-from)*uint64(hi-lo)/(to-from)))
		}
		block, readErr := r.table(s, r.offsets.Off+int64(mid)*blockLen, blockLen)
		if readErr != nil {
			return 0, 0, 0, readErr
		}
		if at := binary.LittleEndian.Uint32(block[8:]); at <= ordinal {
			lo, from = mid, uint64(at)
		} else {
			hi, to = mid, uint64(at)
		}
	}
	b, err := r.table(s, r.offsets.Off+int64(lo)*blockLen, blockLen)
	if err != nil {
		return 0, 0, 0, err
	}
	index, first = lo*blockGroups, binary.LittleEndian.Uint32(b[8:])
	for _, last := range b[48 : 48+min(blockGroups, groups-index)-1] {
		next := first + uint32(last) + 1
		if next > ordinal {
			break
		}
		index, first = index+1, next
	}
	off, _, err = r.groupAt(s, index)
	return index, off, first, err
}

// interpolations is after how many steps the search begins to halve the range: groups
// may be of very different sizes.
const interpolations = 6

// Lookup finds the versions of a key: the ordinal of the newest one, which the older
// ones follow, and how many there are; 0: none.
func (r *Reader) Lookup(l *item.Lookup) (ordinal, versions uint32, err error) {
	s := scratches.Get().(*scratch)
	ordinal, versions, err = r.lookup(s, l)
	s.free()
	return ordinal, versions, err
}

func (r *Reader) lookup(s *scratch, l *item.Lookup) (ordinal, versions uint32, err error) {
	defer r.file.Unguard(openfile.Guard(), &err)
	ix, err := r.index()
	if err != nil {
		return 0, 0, err
	}
	k, hash := l.Key, l.Hash(&r.seed)
	p := probe{r: r, chunk: ix.chunks.find(k), hash: hash}
	o := &s.open
	for {
		off, err := p.next(s)
		if off == 0 || err != nil {
			return 0, 0, err
		}
		if err = r.openKeys(s, off); err != nil {
			return 0, 0, err
		}
		first := bytes.IndexByte(o.g.hashes, memberHash(hash))
		if first < 0 {
			continue
		}
		i := o.find(first, k, hash)
		if i < 0 {
			continue
		}
		at, err := r.groupIndex(s, off)
		if err != nil {
			return 0, 0, err
		}
		if _, ordinal, err = r.groupAt(s, at); err != nil {
			return 0, 0, err
		}
		ordinal += uint32(i)
		for versions = 1; o.isFollowed(i); versions++ {
			if i++; i == o.g.count {
				if err := r.openKeys(s, o.end()); err != nil {
					return 0, 0, err
				}
				i = 0
			}
			if !o.isOlder(i) {
				return 0, 0, r.corrupt(o.off, errOlder)
			}
		}
		if uint64(ordinal)+uint64(versions) > r.props.Items {
			return 0, 0, r.corrupt(off, errOrdinal)
		}
		return ordinal, versions, nil
	}
}

// openKeys opens the group at off, for the keys of its members. The caller is
// guarded.
func (r *Reader) openKeys(s *scratch, off int64) error {
	b, err := r.groupBytes(s, off)
	if err == nil {
		s.raw, err = s.open.decodeKey(r, b, off, s.raw)
	}
	return err
}
