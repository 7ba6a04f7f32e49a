// Package forge changes files and streams and makes their checksums right again. It follows
// docs/formats.md and uses no code of the packages that read these formats. It imports nothing
// of the project, so that any package can be tested with it. It is for tests only.
package forge

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Change changes the byte at an offset, or the integer that begins there.
func Change(b []byte, at int, how byte, random uint64) {
	b = b[at:]
	switch how % 8 {
	case 0:
		b[0]++
	case 1:
		b[0]--
	case 2:
		b[0] = 0
	case 3:
		b[0] = 0xFF
	case 4:
		b[0] ^= 0x80
	case 5:
		if len(b) >= 4 {
			le.PutUint32(b, math.MaxUint32)
		}
	case 6:
		if len(b) >= 8 {
			le.PutUint64(b, le.Uint64(b)-1)
		}
	case 7:
		if len(b) >= 8 {
			le.PutUint64(b, random)
		}
	}
}

// Somewhere changes one to three places, and says which.
func Somewhere(rng *rand.Rand, b []byte) (where string) {
	for range 1 + rng.IntN(3) {
		if len(b) > 0 {
			at, how := rng.IntN(len(b)), byte(rng.IntN(8))
			Change(b, at, how, rng.Uint64())
			where += fmt.Sprintf(" at %d in way %d", at, how)
		}
	}
	return where
}

// number returns one of those that are likely to be taken wrong, or a neighbour of n.
func number(rng *rand.Rand, n uint64) uint64 {
	return []uint64{0, 1, n - 1, n + 1, n / 2, 1 << 31, math.MaxUint32, 1 << 40, math.MaxInt64, math.MaxUint64}[rng.IntN(10)]
}
