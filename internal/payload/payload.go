// Package payload compresses the payloads of groups of items, and decodes them.
package payload

import (
	"errors"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/cleavestore/cleave/internal/dictionary"
	"github.com/cleavestore/cleave/internal/lz"
)

// Codecs of a payload; part of the format.
const (
	Raw  = 0
	S2   = 1
	Zstd = 2
	LZ   = 3

	CodecMask = 0x03
	// DictMask is set if the payload was compressed against a dictionary, whose number is in the
	// three bits from DictShift on.
	DictMask  = 0x04
	DictShift = 3
)

// ErrMalformed is the error of a payload that does not decode to its length.
var ErrMalformed = errors.New("group: payload does not decode to its length")

// Compression says how a writer stores items.
type Compression uint8

// Compressions.
const (
	Fast  Compression = iota // LZ blocks against a dictionary, S2 without one and for large payloads
	Small                    // zstd, against the same dictionary
	None                     // as they are
)

// String returns "fast", "small" or "none".
func (c Compression) String() string {
	switch c {
	case Fast:
		return "fast"
	case Small:
		return "small"
	case None:
		return "none"
	}
	return "unknown"
}

// Encoder encodes the payloads of one writer.
type Encoder struct {
	mode Compression
	dict *dictionary.Dictionary
	lz   *lz.Encoder // Fast, with a dictionary
	zstd *zstd.Encoder
	buf  []byte
}

// NewEncoder returns an encoder. dict may be nil.
func NewEncoder(mode Compression, dict *dictionary.Dictionary) (c Encoder, err error) {
	c = Encoder{mode: mode, dict: dict}
	if mode == None {
		c.dict = nil
	}
	switch {
	case mode == Small:
		c.zstd, err = dictionary.NewZstdEncoder(dict)
	case mode == Fast && dict != nil:
		c.lz = lz.NewEncoder(dict.Content(), dict.Positions())
	}
	return c, err
}

// NewS2Encoder returns an encoder as writers had before there were LZ blocks: with it tests make
// files of then.
func NewS2Encoder(dict *dictionary.Dictionary) Encoder { return Encoder{mode: Fast, dict: dict} }

// Dictionary returns what payloads are compressed against; nil: nothing.
func (c *Encoder) Dictionary() *dictionary.Dictionary { return c.dict }

// DictBits returns the bits of the coding byte for the writer's dictionary. A payload
// has them if it was compressed with the dictionary, or if that was found not worth it.
func (c *Encoder) DictBits() byte {
	if c.dict == nil {
		return 0
	}
	return DictMask // number 0
}

// Encode returns the payload of raw and its coding byte. A payload that saves
// less than an eighth is stored raw. The result is valid until the next call
// and may alias raw.
func (c *Encoder) Encode(raw []byte) (payload []byte, coding byte) {
	if c.mode == None || len(raw) == 0 {
		return raw, Raw
	}
	switch {
	case c.mode == Small:
		c.buf, coding = c.zstd.EncodeAll(raw, c.buf[:0]), Zstd
	default:
		if n := max(s2.MaxEncodedLen(len(raw)), lz.MaxLen(len(raw))); cap(c.buf) < n {
			c.buf = make([]byte, 0, n)
		}
		coding = S2
		switch {
		case c.lz != nil && len(raw) <= lz.MaxRaw:
			c.buf, coding = c.lz.Encode(c.buf[:0], raw), LZ
		case c.dict != nil:
			c.buf = c.dict.S2().Encode(c.buf[:cap(c.buf)], raw)
		default:
			c.buf = s2.Encode(c.buf[:cap(c.buf)], raw)
		}
	}
	if len(c.buf) > len(raw)-len(raw)/8 {
		return raw, Raw | c.DictBits()
	}
	return c.buf, coding | c.DictBits()
}

// Takes reports whether a payload of that coding and dictionary can be copied
// as it is.
func (c *Encoder) Takes(coding byte, dict *dictionary.Dictionary) bool {
	codec := coding & CodecMask
	if c.mode == None || dict != c.dict {
		return c.mode == None && codec == Raw
	}
	return codec == Zstd || c.mode == Fast && (codec != Raw || coding&DictMask != 0)
}

// Decode appends the n raw bytes of a payload to dst. A raw payload is returned
// as it is: then the result aliases payload.
func Decode(dst, payload []byte, codec byte, dict *dictionary.Dictionary, n int) ([]byte, error) {
	switch codec {
	case Raw:
		if len(payload) != n {
			return nil, ErrMalformed
		}
		return payload, nil
	case LZ:
		if n > len(payload)*lz.MaxRatio {
			return nil, ErrMalformed
		}
		at := len(dst)
		dst = slices.Grow(dst, n)[:at+n]
		if _, ok := lz.Decode(dst[at:], payload, dict.Content(), n); !ok {
			return nil, ErrMalformed
		}
		return dst, nil
	case S2:
		if size, err := s2.DecodedLen(payload); err != nil || size != n {
			return nil, ErrMalformed
		}
	}
	at := len(dst)
	dst = slices.Grow(dst, n)
	room := dst[at : at : at+n]
	var out []byte
	var err error
	switch {
	case codec == S2 && dict != nil:
		out, err = dict.S2().Decode(room, payload)
	case codec == S2:
		out, err = s2.Decode(room[:n], payload)
	default:
		decoder, broken := dict.ZstdDecoder()
		if broken != nil {
			return nil, broken
		}
		out, err = decoder.DecodeAll(payload, room)
	}
	if err != nil || len(out) != n {
		return nil, ErrMalformed
	}
	return dst[:at+n], nil
}
