package segment

import (
	"encoding/binary"

	"github.com/cleavestore/cleave/internal/dictionary"
	"github.com/cleavestore/cleave/internal/fault"
)

// Sizes of a dictionary, in bytes.
const (
	MinDictionary = dictionary.MinSize
	MaxDictionary = dictionary.MaxSize
)

// Dictionary is a compression dictionary: plain sample documents. It is immutable and
// safe for concurrent use. Two dictionaries of the same bytes are one object as long as
// it is in use, so that files share it.
type Dictionary = dictionary.Dictionary

// NewDictionary returns the dictionary of the bytes, which it copies: between
// MinDictionary and MaxDictionary of them.
func NewDictionary(b []byte) (*Dictionary, error) { return dictionary.New(b) }

// appendDictionaries encodes the dictionaries section: their number 4, zero 4,
// for each its hash 8, offset in the section 4 and length 4, then the bytes.
func appendDictionaries(dst []byte, dicts ...*Dictionary) []byte {
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

const dictionariesMax = 8 + maxDicts*(16+MaxDictionary)

// decodeDictionaries decodes the section, whose checksum was verified.
func decodeDictionaries(file string, at int64, b []byte) ([]*Dictionary, error) {
	le := binary.LittleEndian
	bad := func(err error) ([]*Dictionary, error) { return nil, fault.Corrupt(file, at, "dictionaries: %w", err) }
	if len(b) < 8 || le.Uint32(b) > maxDicts || int(le.Uint32(b))*16 > len(b)-8 {
		return bad(errLengths)
	}
	dicts := make([]*Dictionary, le.Uint32(b))
	for i := range dicts {
		e := b[8+16*i:]
		off, n := uint64(le.Uint32(e[8:])), uint64(le.Uint32(e[12:]))
		if off > uint64(len(b)) || n > uint64(len(b))-off {
			return bad(errLengths)
		}
		d, err := NewDictionary(b[off : off+n])
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
