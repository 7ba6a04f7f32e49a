package segment

import (
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/cleavestore/cleave/internal/dictionary"
	"github.com/cleavestore/cleave/internal/lz"
)

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

// compressor encodes the payloads of one writer.
type compressor struct {
	mode Compression
	dict *Dictionary
	lz   *lz.Encoder // Fast, with a dictionary
	zstd *zstd.Encoder
	buf  []byte
}

func newCompressor(mode Compression, dict *Dictionary) (c compressor, err error) {
	c = compressor{mode: mode, dict: dict}
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

// dictBits returns the bits of the coding byte for the writer's dictionary. A payload
// has them if it was compressed with the dictionary, or if that was found not worth it.
func (c *compressor) dictBits() byte {
	if c.dict == nil {
		return 0
	}
	return codingDict // number 0
}

// encode returns the payload of raw and its coding byte. A payload that saves
// less than an eighth is stored raw. The result is valid until the next call
// and may alias raw.
func (c *compressor) encode(raw []byte) (payload []byte, coding byte) {
	if c.mode == None || len(raw) == 0 {
		return raw, codecRaw
	}
	switch {
	case c.mode == Small:
		c.buf, coding = c.zstd.EncodeAll(raw, c.buf[:0]), codecZstd
	default:
		if n := max(s2.MaxEncodedLen(len(raw)), lz.MaxLen(len(raw))); cap(c.buf) < n {
			c.buf = make([]byte, 0, n)
		}
		coding = codecS2
		switch {
		case c.lz != nil && len(raw) <= lz.MaxRaw:
			c.buf, coding = c.lz.Encode(c.buf[:0], raw), codecLZ
		case c.dict != nil:
			c.buf = c.dict.S2().Encode(c.buf[:cap(c.buf)], raw)
		default:
			c.buf = s2.Encode(c.buf[:cap(c.buf)], raw)
		}
	}
	if len(c.buf) > len(raw)-len(raw)/8 {
		return raw, codecRaw | c.dictBits()
	}
	return c.buf, coding | c.dictBits()
}

// takes reports whether a payload of that coding and dictionary can be copied
// as it is.
func (c *compressor) takes(coding byte, dict *Dictionary) bool {
	codec := coding & codingCodec
	if c.mode == None || dict != c.dict {
		return c.mode == None && codec == codecRaw
	}
	return codec == codecZstd || c.mode == Fast && (codec != codecRaw || coding&codingDict != 0)
}

// decodePayload appends the n raw bytes of a payload to dst. A raw payload is returned
// as it is: then the result aliases payload.
func decodePayload(dst, payload []byte, codec byte, dict *Dictionary, n int) ([]byte, error) {
	switch codec {
	case codecRaw:
		if len(payload) != n {
			return nil, errPayload
		}
		return payload, nil
	case codecLZ:
		if n > len(payload)*lz.MaxRatio {
			return nil, errPayload
		}
		at := len(dst)
		dst = slices.Grow(dst, n)[:at+n]
		if _, ok := lz.Decode(dst[at:], payload, dict.Content(), n); !ok {
			return nil, errPayload
		}
		return dst, nil
	case codecS2:
		if size, err := s2.DecodedLen(payload); err != nil || size != n {
			return nil, errPayload
		}
	}
	at := len(dst)
	dst = slices.Grow(dst, n)
	room := dst[at : at : at+n]
	var out []byte
	var err error
	switch {
	case codec == codecS2 && dict != nil:
		out, err = dict.S2().Decode(room, payload)
	case codec == codecS2:
		out, err = s2.Decode(room[:n], payload)
	default:
		decoder, broken := dict.ZstdDecoder()
		if broken != nil {
			return nil, broken
		}
		out, err = decoder.DecodeAll(payload, room)
	}
	if err != nil || len(out) != n {
		return nil, errPayload
	}
	return dst[:at+n], nil
}
