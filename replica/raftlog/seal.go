package raftlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cleavestore/cleave/internal/fault"
)

// sealBytes is what a file other than those of the log has before its body.
const sealBytes = 8 + 4 + 4 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal returns the content of a file.
func seal(magic string, version uint32, body []byte) []byte {
	out := append(make([]byte, 0, sealBytes+len(body)), magic...)
	out = binary.LittleEndian.AppendUint32(out, version)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(body)))
	out = append(append(out, 0, 0, 0, 0), body...)
	binary.LittleEndian.PutUint32(out[16:], sumOf(out))
	return out
}

// sealSum returns the checksum that a file says it has.
func sealSum(b []byte) uint32 { return binary.LittleEndian.Uint32(b[16:]) }

func sumOf(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:16], castagnoli), castagnoli, b[sealBytes:])
}

// unseal returns the version and the body of a file; the body is a part of b. name is its path, for errors:
// *fault.CorruptionError, or fault.ErrTooNew.
func unseal(name, magic string, newest uint32, b []byte) (version uint32, body []byte, err error) {
	if len(b) < sealBytes || string(b[:8]) != magic {
		return 0, nil, fault.Corrupt(name, 0, "it does not begin with %s", magic)
	}
	if version = binary.LittleEndian.Uint32(b[8:]); version > newest {
		return 0, nil, fmt.Errorf("%s has format %d: %w", name, version, fault.ErrTooNew)
	}
	if n := binary.LittleEndian.Uint32(b[12:]); int64(n) != int64(len(b)-sealBytes) {
		return 0, nil, fault.Corrupt(name, 12, "a length of %d, there are %d bytes", n, len(b)-sealBytes)
	}
	if sealSum(b) != sumOf(b) {
		return 0, nil, fault.Corrupt(name, 16, "the checksum does not fit")
	}
	return version, b[sealBytes:], nil
}
