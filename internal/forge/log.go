package forge

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
)

const (
	logHead    = 64
	recordHead = 32
)

// seed is what the checksums of the record at an offset of a log file begin with.
func seed(b []byte, off int) uint32 {
	return checksum(le.AppendUint64(append([]byte(nil), b[24:32]...), uint64(off)))
}

// sums returns the checksums of the record at an offset; false: it does not lie in the file.
func sums(b []byte, off int) (head, payload uint32, ok bool) {
	length := int64(le.Uint32(b[off+8:]))
	if length < recordHead || length > int64(len(b)-off) {
		return 0, 0, false
	}
	s := seed(b, off)
	payload = checksum(b[off+recordHead:off+int(length)]) ^ s
	return crc32.Update(s, castagnoli, b[off+4:off+recordHead]), payload, true
}

// records returns the offsets of the records of a log file.
func records(b []byte) (list []int) {
	for off := logHead; off+recordHead <= len(b); {
		head, payload, ok := sums(b, off)
		if !ok || le.Uint32(b[off:]) != head || le.Uint32(b[off+4:]) != payload {
			break
		}
		list = append(list, off)
		off += (int(le.Uint32(b[off+8:])) + 15) &^ 15
	}
	return list
}

// Log changes one record of a log file, or its header, and says what.
func Log(rng *rand.Rand, b []byte) (what string) {
	list := records(b)
	if len(list) == 0 || rng.IntN(16) == 0 {
		what = "header" + Somewhere(rng, b[8:logHead-4])
		le.PutUint32(b[logHead-4:], checksum(b[:logHead-4]))
		return what
	}
	off := list[rng.IntN(len(list))]
	record := b[off:]
	length := le.Uint32(record[8:])
	what = fmt.Sprintf("record at %d", off)
	if length > recordHead && rng.IntN(2) == 0 {
		what += ", payload" + Somewhere(rng, record[recordHead:length])
	} else {
		field := []struct {
			name string
			at   int
		}{{"length", 8}, {"stream", 12}, {"sequence", 16}, {"type and count", 24}, {"mark", 28}}[rng.IntN(5)]
		var n uint64
		switch field.at {
		case 16:
			n = number(rng, le.Uint64(record[16:]))
			le.PutUint64(record[16:], n)
		case 24:
			n = uint64(rng.IntN(7)) | number(rng, uint64(le.Uint32(record[24:])>>8))<<8
			le.PutUint32(record[24:], uint32(n))
		default:
			n = number(rng, uint64(le.Uint32(record[field.at:])))
			le.PutUint32(record[field.at:], uint32(n))
		}
		what += fmt.Sprintf(", %s %#x", field.name, n)
	}
	// The checksum of the payload is part of the header.
	if _, payload, ok := sums(b, off); ok {
		le.PutUint32(record[4:], payload)
	}
	le.PutUint32(record, crc32.Update(seed(b, off), castagnoli, record[4:recordHead]))
	return what
}
