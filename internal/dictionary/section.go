package dictionary

import (
	"encoding/binary"
	"errors"

	"github.com/cleavestore/cleave/internal/fault"
)

const maxInSection = 8 // dictionaries

var (
	errLengths  = errors.New("lengths out of range")
	errChecksum = errors.New("hash of a dictionary does not match")
)

// AppendSection encodes the section of a file that has dictionaries: their number 4, zero 4,
// for each its hash 8, offset in the section 4 and length 4, then the bytes.
func AppendSection(dst []byte, dicts ...*Dictionary) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, uint32(len(dicts)))
	dst = le.AppendUint32(dst, 0)
	at := 8 + 16*len(dicts)
	for _, d := range dicts {
		dst = le.AppendUint64(dst, d.Hash())
		dst = le.AppendUint32(dst, uint32(at))
		dst = le.AppendUint32(dst, uint32(len(d.Content())))
		at += len(d.Content())
	}
	for _, d := range dicts {
		dst = append(dst, d.Content()...)
	}
	return dst
}

// MaxSection is how long the section is at most, in bytes.
const MaxSection = 8 + maxInSection*(16+MaxSize)

// DecodeSection decodes the section, which lies at an offset of a file and whose checksum was verified. Damage is a
// *fault.CorruptionError.
func DecodeSection(file string, at int64, b []byte) ([]*Dictionary, error) {
	le := binary.LittleEndian
	bad := func(err error) ([]*Dictionary, error) { return nil, fault.Corrupt(file, at, "dictionaries: %w", err) }
	if len(b) < 8 || le.Uint32(b) > maxInSection || int(le.Uint32(b))*16 > len(b)-8 {
		return bad(errLengths)
	}
	dicts := make([]*Dictionary, le.Uint32(b))
	for i := range dicts {
		e := b[8+16*i:]
		off, n := uint64(le.Uint32(e[8:])), uint64(le.Uint32(e[12:]))
		if off > uint64(len(b)) || n > uint64(len(b))-off {
			return bad(errLengths)
		}
		d, err := New(b[off : off+n])
		if err != nil {
			return bad(err)
		}
		if d.Hash() != le.Uint64(e) {
			return bad(errChecksum)
		}
		dicts[i] = d
	}
	return dicts, nil
}
