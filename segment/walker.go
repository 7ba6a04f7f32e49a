package segment

import (
	"slices"

	"github.com/cleavestore/cleave/internal/item"
)

// Walker visits all versions of a file in order: keys rise, the versions of
// one key fall in sequence. It reads the file in large pieces, past the mapping.
// A walker serves one goroutine at a time; its file must not be released before
// the last call.
type Walker struct {
	r    *Reader
	in   stream
	open opened
	buf  []byte // decoded payload
	i    int    // member of open
	at   int64  // offset of the group that was opened last, or could not be opened
	base uint32 // ordinal of the first member of open
	keys bool   // only as much of the payload is decoded as the key takes
	key  shownKey
	ver  item.Version
	err  error
}

// Walk returns a walker before the first version.
func (r *Reader) Walk() *Walker {
	w := &Walker{r: r, in: stream{r: r}, err: r.file.Broken()}
	w.open.off = r.groups.Off
	return w
}

// WalkKeys is Walk without the bodies of most single items: those of Version are nil. It
// is for compactions, which compare keys and copy most bodies as they are stored.
func (r *Reader) WalkKeys() *Walker {
	w := r.Walk()
	w.keys = true
	return w
}

// Next moves to the next version. It returns false after the last one and on an
// error, which Err tells.
func (w *Walker) Next() bool {
	if w.err != nil {
		return false
	}
	if w.i++; w.i >= w.open.g.count {
		if !w.nextGroup() {
			w.i = w.open.g.count
			return false
		}
		w.i = 0
	}
	if w.err = w.key.set(w.r, &w.open, w.i); w.err != nil {
		return false
	}
	w.open.version(w.i, &w.ver)
	return true
}

func (w *Walker) nextGroup() bool {
	off := w.open.end()
	if off == w.r.groups.end() {
		return false
	}
	w.base += uint32(w.open.g.count)
	w.at = off
	var b []byte
	if b, w.err = w.in.group(off); w.err != nil {
		return false
	}
	if w.keys {
		w.buf, w.err = w.open.decodeKey(w.r, b, off, w.buf)
	} else {
		w.buf, w.err = w.open.decode(w.r, b, off, w.buf)
	}
	return w.err == nil
}

// complete decodes the body that WalkKeys left out.
func (w *Walker) complete() error {
	var err error
	w.buf, err = w.open.complete(w.r, w.buf, &w.ver)
	return err
}

// Key returns the key of the version that the walker is on, valid until the
// next call of Next.
func (w *Walker) Key() *item.Key { return &w.key.Key }

// Version returns the version that the walker is on, valid until the next call
// of Next.
func (w *Walker) Version() *item.Version { return &w.ver }

// Ordinal returns the ordinal of the version that the walker is on.
func (w *Walker) Ordinal() uint32 { return w.base + uint32(w.i) }

// Older says whether the version follows a newer one of its key.
func (w *Walker) Older() bool { return w.open.isOlder(w.i) }

// Complete adds the body to the Version of a walk without bodies.
func (w *Walker) Complete() error {
	w.err = w.complete()
	return w.err
}

// Err returns the error that ended the walk, nil at the end of the file.
func (w *Walker) Err() error { return w.err }

// stream reads the groups, or other bytes, from front to back.
type stream struct {
	r    *Reader
	off  int64 // of buf in the file
	buf  []byte
	each func(piece []byte) error // gets every byte once, in order; nil: none
}

const (
	streamPiece = 256 << 10
	streamKeep  = 16 * streamPiece // a larger buffer is not kept
)

// bytes returns n bytes at off, which lie in the file and not before those
// of an earlier call. They are valid until the next call.
func (s *stream) bytes(off, n int64) ([]byte, error) {
	if end := s.off + int64(len(s.buf)); off > end && s.each != nil {
		if _, err := s.bytes(end, off-end); err != nil { // skipped bytes, for each
			return nil, err
		}
	}
	have := s.off + int64(len(s.buf)) - off // bytes of buf from off on
	if have >= n && off >= s.off {
		at := off - s.off
		return s.buf[at : at+n], nil
	}
	var rest []byte
	if have > 0 && off >= s.off {
		rest = s.buf[int64(len(s.buf))-have:]
	}
	size := min(max(n, streamPiece), s.r.props.FileBytes-off)
	if n > size {
		return nil, s.r.corrupt(off, errShort)
	}
	buf := s.buf
	if int64(cap(buf)) < size || cap(buf) > streamKeep && size <= streamKeep {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	kept := copy(buf, rest)
	s.off, s.buf = off, buf[:kept]
	if err := s.r.file.ReadAt(buf[kept:], off+int64(kept)); err != nil {
		return nil, err
	}
	s.buf = buf
	if s.each != nil {
		if err := s.each(buf[kept:]); err != nil {
			return nil, err
		}
	}
	s.r.file.WillNeed(off+size, streamPiece)
	return buf[:n], nil
}

// group returns the bytes of the group at off; its prelude has their number.
func (s *stream) group(off int64) ([]byte, error) {
	limit := s.r.groups.end() - off
	if limit <= 0 {
		return nil, s.r.corrupt(off, errShort)
	}
	b, err := s.bytes(off, min(limit, preludeMax))
	if err != nil {
		return nil, err
	}
	n, _, _, err := groupSize(b)
	if err == nil && int64(n) > limit {
		err = errShort
	}
	if err != nil {
		return nil, s.r.corrupt(off, err)
	}
	return s.bytes(off, int64(n))
}

// grow returns b with length n, its content lost.
func grow(b []byte, n int64) []byte { return slices.Grow(b[:0], int(n))[:n] }
