// Package dictionary holds compression dictionaries: sample documents, which documents are
// compressed against one at a time.
//
// Invariants:
//
//  1. Two dictionaries of the same bytes are one object as long as it is in use.
//  2. What a dictionary has for decoders, and what encoders learn of it, is made once.
package dictionary

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/cleavestore/cleave/internal/lz"
)

// Sizes of a dictionary, in bytes.
const (
	MinSize = s2.MinDictSize
	MaxSize = s2.MaxDictSize
)

// Dictionary is a compression dictionary: plain sample documents. It is immutable and
// safe for concurrent use. Two dictionaries of the same bytes are one object as long as
// it is in use, so that files share it.
type Dictionary struct {
	bytes []byte
	hash  uint64
	s2    *s2.Dict
	known func() *lz.Positions

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

// New returns the dictionary of the bytes, which it copies: between
// MinSize and MaxSize of them.
func New(b []byte) (*Dictionary, error) {
	if len(b) < MinSize || len(b) > MaxSize {
		return nil, fmt.Errorf("dictionary of %d bytes: between %d and %d", len(b), MinSize, MaxSize)
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

// Content returns the content, which the caller does not change; a nil dictionary has none.
func (d *Dictionary) Content() []byte {
	if d == nil {
		return nil
	}
	return d.bytes
}

// Bytes returns a copy of the content.
func (d *Dictionary) Bytes() []byte { return append([]byte{}, d.bytes...) }

// S2 returns the dictionary for blocks of S2.
func (d *Dictionary) S2() *s2.Dict { return d.s2 }

// Positions returns where the content has what, for encoders of LZ blocks. The first call
// finds that.
func (d *Dictionary) Positions() *lz.Positions { return d.known() }

// ZstdDecoder returns the decoder of the dictionary; a nil dictionary has one
// too. It is safe for concurrent use.
func (d *Dictionary) ZstdDecoder() (*zstd.Decoder, error) {
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

// zstdWindow bounds what a decoder keeps. No frame that an encoder writes has a
// larger window.
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

// NewZstdEncoder makes an encoder for one writer; d may be nil.
func NewZstdEncoder(d *Dictionary) (*zstd.Encoder, error) {
	opts := []zstd.EOption{
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true),
		zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(1 << 20), zstd.WithLowerEncoderMem(true),
	}
	if d != nil {
		opts = append(opts, zstd.WithEncoderDictRaw(0, d.bytes))
	}
	return zstd.NewWriter(nil, opts...)
}
