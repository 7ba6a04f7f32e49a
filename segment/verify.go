package segment

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/openfile"
)

// Finding is something that Verify found wrong.
type Finding struct {
	File   string // path
	Offset int64
	What   string
}

// Verify reads the whole file anew and calls report for all that is wrong with it. It
// checks checksums and padding first. If nothing is wrong there, it checks the order of
// keys and versions, and compares tables, locator and properties with the items. Its
// error is not nil only if it could not go on: the context is done or the file system
// failed.
func (r *Reader) Verify(ctx context.Context, report func(Finding)) error {
	v := verifier{r: r, ctx: ctx, report: report}
	if err := v.checksums(); err != nil || v.findings > 0 {
		return err
	}
	return v.content()
}

// VerifyChecksums reads the whole file and returns an error for the first damage that it
// finds.
func (r *Reader) VerifyChecksums(ctx context.Context) error { return r.CopyTo(ctx, nil) }

// CopyTo is VerifyChecksums and passes the bytes of the file to each, from the first to
// the last, in pieces that are valid until each returns. Pieces come before they are
// verified: they are a whole copy only when CopyTo has returned nil. An error of each
// ends CopyTo and is returned.
func (r *Reader) CopyTo(ctx context.Context, each func(piece []byte) error) error {
	var first error
	v := verifier{r: r, ctx: ctx, once: true, each: each, report: func(f Finding) {
		first = fault.Corrupt(f.File, f.Offset, "%s", f.What)
	}}
	if err := v.checksums(); err != nil {
		return err
	}
	return first
}

// verifier is a verification under way.
type verifier struct {
	r        *Reader
	ctx      context.Context
	report   func(Finding)
	once     bool // the first finding ends it
	each     func(piece []byte) error
	findings int
	s        scratch
}

func (v *verifier) found(off int64, format string, args ...any) {
	if v.findings++; v.findings == 1 || !v.once {
		v.report(Finding{File: v.r.name, Offset: off, What: fmt.Sprintf(format, args...)})
	}
}

// note reports err if it is damage, and returns it otherwise.
func (v *verifier) note(err error) error {
	if c, ok := err.(*fault.CorruptionError); ok {
		v.found(c.Offset, "%v", c.Err)
		return nil
	}
	return err
}

func (v *verifier) done() bool { return v.once && v.findings > 0 }

// checksums verifies every byte of the file, from its beginning.
func (v *verifier) checksums() error {
	r := v.r
	if err := r.file.Broken(); err != nil {
		return v.note(err)
	}
	in := stream{r: r, each: v.each}
	if err := v.header(&in); err != nil {
		return err
	}
	end := int64(headerLen)
	for _, s := range r.props.Sections {
		if v.done() {
			return nil
		}
		if s.Off <= r.groups.Off {
			if err := v.zeros(&in, end, s.Off); err != nil {
				return err
			}
		}
		var err error
		switch {
		case s.Kind == SectionGroups:
			if err = v.groupSums(&in); err == nil && !v.done() {
				if err = v.zeros(&in, s.end(), r.tables.off); err == nil && !v.done() {
					err = v.pages(&in)
				}
			}
		case s.Off < r.groups.Off || s.Off >= r.tables.end:
			err = v.whole(&in, s)
		}
		if err != nil {
			return err
		}
		end = s.end()
	}
	if v.done() {
		return nil
	}
	if err := v.zeros(&in, end, r.props.FileBytes-footerLen); err != nil {
		return err
	}
	return v.footer(&in)
}

func (v *verifier) header(in *stream) error {
	b, err := in.bytes(0, headerLen)
	if err == nil {
		_, err = decodeHeader(v.r.name, b)
	}
	return v.note(err)
}

func (v *verifier) footer(in *stream) error {
	at := v.r.props.FileBytes - footerLen
	b, err := in.bytes(at, footerLen)
	if err == nil {
		var f Footer
		if f, err = DecodeFooter(v.r.name, b, v.r.props.FileBytes); err == nil && f.CRC != v.r.props.FooterCRC {
			v.found(at, "footer: checksum %08x, was %08x when opened", f.CRC, v.r.props.FooterCRC)
		}
	}
	return v.note(err)
}

// zeros verifies padding.
func (v *verifier) zeros(in *stream, from, to int64) error {
	if from == to {
		return nil
	}
	b, err := in.bytes(from, to-from)
	if err != nil {
		return v.note(err)
	}
	for i := range b {
		if b[i] != 0 {
			v.found(from+int64(i), "padding is not zero")
			break
		}
	}
	return nil
}

// whole verifies a section whose checksum is that of its bytes.
func (v *verifier) whole(in *stream, s Section) error {
	crc := uint32(0)
	for off := s.Off; off < s.end(); {
		b, err := in.bytes(off, min(streamPiece, s.end()-off))
		if err != nil {
			return v.note(err)
		}
		crc = crc32.Update(crc, castagnoli, b)
		off += int64(len(b))
	}
	if crc != s.CRC {
		v.found(s.Off, "%v: checksum %08x, computed %08x", s.Kind, s.CRC, crc)
	}
	return nil
}

// pages verifies the pages of the tables.
func (v *verifier) pages(in *stream) error {
	t := &v.r.tables
	for page := int64(0); t.off+page*pageLen < t.end; page++ {
		at := t.off + page*pageLen
		b, err := in.bytes(at, min(pageLen, t.end-at))
		if err != nil {
			return v.note(err)
		}
		if checksum(b) != binary.LittleEndian.Uint32(t.sums[4*page:]) {
			if v.found(at, "%v", errPage); v.done() {
				return nil
			}
		}
		if page%256 == 0 && v.ctx.Err() != nil {
			return v.ctx.Err()
		}
	}
	return nil
}

// groupSums verifies the groups and that they follow each other to the end. After a
// damaged group, the table of offsets tells where the next one begins.
func (v *verifier) groupSums(in *stream) error {
	r := v.r
	crc, intact := uint32(0), true
	off, index := r.groups.Off, int64(0)
	for ; off < r.groups.end() && index < int64(r.props.Groups); index++ {
		b, err := in.group(off)
		if err == nil {
			sum := binary.LittleEndian.Uint32(b)
			if sum != checksum(b[4:])^r.base.mask(off) {
				err = r.corrupt(off, errChecksum)
			}
			crc = crc32.Update(crc, castagnoli, b[:4])
		}
		if err == nil {
			off += int64(len(b))
		} else {
			intact = false
			if err = v.note(err); err != nil || v.done() {
				return err
			}
			next, ok := v.groupOffset(index + 1)
			if !ok || next <= off {
				return nil
			}
			off = next
		}
		if index%1024 == 0 && v.ctx.Err() != nil {
			return v.ctx.Err()
		}
	}
	groups := r.groups
	switch {
	case !intact:
	case off != groups.end() || index != int64(r.props.Groups):
		v.found(off, "group %d of %d ends here, the section at %d", index, r.props.Groups, groups.end())
	case crc != groups.CRC:
		v.found(groups.Off, "groups: checksum of checksums %08x, computed %08x", groups.CRC, crc)
	}
	return nil
}

// groupOffset returns where a group begins, if the table of offsets is readable.
func (v *verifier) groupOffset(index int64) (off int64, ok bool) {
	if index >= int64(v.r.props.Groups) {
		return 0, false
	}
	off, _, err := v.groupAt(index)
	return off, err == nil
}

func (v *verifier) groupAt(index int64) (off int64, ordinal uint32, err error) {
	defer v.r.file.Unguard(openfile.Guard(), &err)
	return v.r.groupAt(&v.s, uint32(index))
}
