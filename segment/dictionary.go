package segment

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/lz"
)

// Sizes of a dictionary, in bytes.
const (
	MinDictionary = s2.MinDictSize
	MaxDictionary = s2.MaxDictSize
)

// Dictionary is a compression dictionary: plain sample documents. It is immutable and
// safe for concurrent use. Two dictionaries of the same bytes are one object as long as
// it is in use, so that files share it.
type Dictionary struct {
	bytes []byte
	hash  uint64
	s2    *s2.Dict
	known func() *lz.Positions // made by the first encoder

	decoder struct {
		once sync.Once
		*zstd.Decoder
		err error
	}
}

// dictionaries holds every dictionary that is in use, by its content.
var dictionaries = struct {
	sync.Mutex
	byContent map[[sha256.Size]byte]weak.Pointer[Dictionary]
}{byContent: make(map[[sha256.Size]byte]weak.Pointer[Dictionary])}

// NewDictionary returns the dictionary of the bytes, which it copies: between
// MinDictionary and MaxDictionary of them.
func NewDictionary(b []byte) (*Dictionary, error) {
	if len(b) < MinDictionary || len(b) > MaxDictionary {
		return nil, fmt.Errorf("dictionary of %d bytes: between %d and %d", len(b), MinDictionary, MaxDictionary)
	}
	sum := sha256.Sum256(b)
	dictionaries.Lock()
	defer dictionaries.Unlock()
	if d := dictionaries.byContent[sum].Value(); d != nil {
		return d, nil
	}
	own := append(make([]byte, 0, len(b)+lz.Spare), b...) // S2 needs 16 spare bytes, or makes a copy
	d := &Dictionary{bytes: own, hash: binary.LittleEndian.Uint64(sum[:])}
	if d.s2 = s2.MakeDict(own, nil); d.s2 == nil {
		return nil, fmt.Errorf("dictionary of %d bytes refused", len(b))
	}
	d.known = sync.OnceValue(func() *lz.Positions { return lz.NewPositions(own) })
	p := weak.Make(d)
	dictionaries.byContent[sum] = p
	runtime.AddCleanup(d, func(sum [sha256.Size]byte) {
		dictionaries.Lock()
		defer dictionaries.Unlock()
		if dictionaries.byContent[sum] == p {
			delete(dictionaries.byContent, sum)
		}
	}, sum)
	return d, nil
}

// Hash returns the first 8 bytes of the SHA-256 of the content: the name of
// the dictionary.
func (d *Dictionary) Hash() uint64 { return d.hash }

// content returns the content; a nil dictionary has none.
func (d *Dictionary) content() []byte {
	if d == nil {
		return nil
	}
	return d.bytes
}

// Bytes returns a copy of the content.
func (d *Dictionary) Bytes() []byte { return append([]byte{}, d.bytes...) }

// zstdDecoder returns the decoder of the dictionary; a nil dictionary has one
// too. It is safe for concurrent use.
func (d *Dictionary) zstdDecoder() (*zstd.Decoder, error) {
	if d == nil {
		plainDecoder.once.Do(func() { plainDecoder.Decoder, plainDecoder.err = newDecoder(nil) })
		return plainDecoder.Decoder, plainDecoder.err
	}
	d.decoder.once.Do(func() { d.decoder.Decoder, d.decoder.err = newDecoder(d.bytes) })
	return d.decoder.Decoder, d.decoder.err
}

var plainDecoder struct {
	once sync.Once
	*zstd.Decoder
	err error
}

// zstdWindow bounds what a decoder keeps. No frame that a Writer writes has a larger
// window.
const zstdWindow = 32 << 20

// newDecoder makes a decoder bounded by the destination that it is given.
func newDecoder(dict []byte) (*zstd.Decoder, error) {
	opts := []zstd.DOption{
		zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(zstdWindow), zstd.WithDecoderMaxWindow(zstdWindow),
		zstd.WithDecodeAllCapLimit(true), zstd.IgnoreChecksum(true),
	}
	if dict != nil {
		opts = append(opts, zstd.WithDecoderDictRaw(0, dict))
	}
	return zstd.NewReader(nil, opts...)
}

// newEncoder makes an encoder for one writer.
func newEncoder(d *Dictionary) (*zstd.Encoder, error) {
	opts := []zstd.EOption{
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true),
		zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(1 << 20), zstd.WithLowerEncoderMem(true),
	}
	if d != nil {
		opts = append(opts, zstd.WithEncoderDictRaw(0, d.bytes))
	}
	return zstd.NewWriter(nil, opts...)
}

// appendDictionaries encodes the dictionaries section: their number 4, zero 4,
// for each its hash 8, offset in the section 4 and length 4, then the bytes.
func appendDictionaries(dst []byte, dicts ...*Dictionary) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, uint32(len(dicts)))
	dst = le.AppendUint32(dst, 0)
	at := 8 + 16*len(dicts)
	for _, d := range dicts {
		dst = le.AppendUint64(dst, d.hash)
		dst = le.AppendUint32(dst, uint32(at))
		dst = le.AppendUint32(dst, uint32(len(d.bytes)))
		at += len(d.bytes)
	}
	for _, d := range dicts {
		dst = append(dst, d.bytes...)
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
		if d.hash != le.Uint64(e) {
			return bad(errChecksum)
		}
		dicts[i] = d
	}
	return dicts, nil
}
