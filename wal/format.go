package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cleavestore/cleave/internal/fault"
)

// FormatVersion is the version of the file format that this program writes.
const FormatVersion = 1

const (
	fileMagic        = "cleavlog"
	fileHeaderBytes  = 64
	headerBytes      = 32 // of a record
	alignment        = 16
	terminatorBytes  = headerBytes // zeros after the last record written
	sealPayloadBytes = 24
	sealBytes        = (headerBytes + sealPayloadBytes + alignment - 1) &^ (alignment - 1)

	maxPayload = 1 << 30
	maxCount   = 1<<24 - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordBytes returns the bytes that a record takes in a file.
func recordBytes(payload int) int64 {
	return (headerBytes + int64(payload) + alignment - 1) &^ (alignment - 1)
}

// FileHeader is what the first 64 bytes of a log file say.
type FileHeader struct {
	Version uint32
	Cipher  uint32 // 0: none
	Number  uint64
	ID      uint64 // random, another one for each use of the file
	StoreID [16]byte
	// Made is the length that the file had, durably, before it got its name. The file is
	// not shorter until a manifest notes the length of its records. 0: unknown, the file
	// was made before headers had this field.
	Made int64
}

// appendFileHeader appends the 64 bytes of h.
func appendFileHeader(dst []byte, h *FileHeader) []byte {
	start := len(dst)
	dst = append(dst, fileMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, h.Version)
	dst = binary.LittleEndian.AppendUint32(dst, h.Cipher)
	dst = binary.LittleEndian.AppendUint64(dst, h.Number)
	dst = binary.LittleEndian.AppendUint64(dst, h.ID)
	dst = append(dst, h.StoreID[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.Made))
	dst = append(dst, make([]byte, fileHeaderBytes-4-(len(dst)-start))...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// DecodeFileHeader reads the header at the start of b. name is the file's for
// errors: *fault.CorruptionError, or fault.ErrTooNew.
func DecodeFileHeader(name string, b []byte) (FileHeader, error) {
	if len(b) < fileHeaderBytes {
		return FileHeader{}, fault.Corrupt(name, 0, "log file header of %d bytes", len(b))
	}
	b = b[:fileHeaderBytes]
	if !bytes.Equal(b[:8], []byte(fileMagic)) {
		return FileHeader{}, fault.Corrupt(name, 0, "not a log file")
	}
	if crc32.Checksum(b[:fileHeaderBytes-4], castagnoli) != binary.LittleEndian.Uint32(b[fileHeaderBytes-4:]) {
		return FileHeader{}, fault.Corrupt(name, 0, "log file header: bad checksum")
	}
	h := FileHeader{
		Version: binary.LittleEndian.Uint32(b[8:]),
		Cipher:  binary.LittleEndian.Uint32(b[12:]),
		Number:  binary.LittleEndian.Uint64(b[16:]),
		ID:      binary.LittleEndian.Uint64(b[24:]),
		StoreID: [16]byte(b[32:48]),
		Made:    int64(binary.LittleEndian.Uint64(b[48:])),
	}
	if h.Version > FormatVersion || h.Cipher != 0 {
		return FileHeader{}, fmt.Errorf("%s: log format %d, cipher %d; this program knows formats up to %d, unencrypted: %w",
			name, h.Version, h.Cipher, FormatVersion, fault.ErrTooNew)
	}
	if h.Version == 0 {
		return FileHeader{}, fault.Corrupt(name, 8, "log format 0")
	}
	return h, nil
}

// header is a record's header without its checksums.
type header struct {
	length int64 // header and payload, bytes, without padding
	stream Stream
	seq    uint64
	typ    Type
	count  uint32
	mark   int64 // synced-up-to offset
}

// end returns the offset after a record at off, padding included.
func (h *header) end(off int64) int64 { return off + recordBytes(int(h.length-headerBytes)) }

// place is where a record lies: the file's random id and the offset. Checksums
// are seeded with it, so that right bytes in a wrong place never verify.
type place [16]byte

func (p *place) setID(id uint64) { binary.LittleEndian.PutUint64(p[:8], id) }
func (p *place) seed(off int64) uint32 {
	binary.LittleEndian.PutUint64(p[8:], uint64(off))
	return crc32.Update(0, castagnoli, p[:])
}

// put writes the header of a record at off to b, 32 bytes. sum is the plain
// checksum of the payload.
func (p *place) put(b []byte, off int64, h *header, sum uint32) {
	seed := p.seed(off)
	_ = b[headerBytes-1]
	binary.LittleEndian.PutUint32(b[4:], sum^seed)
	binary.LittleEndian.PutUint32(b[8:], uint32(h.length))
	binary.LittleEndian.PutUint32(b[12:], uint32(h.stream))
	binary.LittleEndian.PutUint64(b[16:], h.seq)
	binary.LittleEndian.PutUint32(b[24:], uint32(h.typ)|h.count<<8)
	binary.LittleEndian.PutUint32(b[28:], uint32(h.mark/alignment))
	binary.LittleEndian.PutUint32(b[0:], crc32.Update(seed, castagnoli, b[4:headerBytes]))
}

// get reads the header of a record at off from b, at least 32 bytes, and returns the
// payload's plain checksum. It reports false if b has no header for this place.
func (p *place) get(b []byte, off int64, h *header) (sum uint32, ok bool) {
	_ = b[headerBytes-1]
	h.length = int64(binary.LittleEndian.Uint32(b[8:]))
	word := binary.LittleEndian.Uint32(b[24:])
	h.typ, h.count = Type(word), word>>8
	h.mark = int64(binary.LittleEndian.Uint32(b[28:])) * alignment
	// Impossible values are cheaper to find than a wrong checksum.
	if h.length < headerBytes || h.length > headerBytes+maxPayload ||
		h.typ < TypeWrite || h.typ > TypeSeal || h.mark < fileHeaderBytes || h.mark > off {
		return 0, false
	}
	seed := p.seed(off)
	if crc32.Update(seed, castagnoli, b[4:headerBytes]) != binary.LittleEndian.Uint32(b[0:]) {
		return 0, false
	}
	h.stream = Stream(binary.LittleEndian.Uint32(b[12:]))
	h.seq = binary.LittleEndian.Uint64(b[16:])
	return binary.LittleEndian.Uint32(b[4:]) ^ seed, true
}

// appendSeal appends the payload of a seal.
func appendSeal(dst []byte, records int64, last uint64, off int64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(records))
	dst = binary.LittleEndian.AppendUint64(dst, last)
	return binary.LittleEndian.AppendUint64(dst, uint64(off))
}

// checkSeal compares a seal with what was read before it.
func checkSeal(payload []byte, records int64, last uint64, off int64) error {
	if want := appendSeal(nil, records, last, off); !bytes.Equal(payload, want) {
		return fmt.Errorf("the seal does not fit %d records up to sequence %d", records, last)
	}
	return nil
}
