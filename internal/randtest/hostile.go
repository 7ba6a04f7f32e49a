package randtest

import (
	"encoding/binary"
	"math/bits"
)

// HostileIDs returns n ids that collide in the hash without a seed which segments
// before format 3 have, made by what everybody knows: the EPK of their partition
// key. Half of them begin with the state of the hash before the id, half end with
// its constant; either makes a factor 0, and all else count for nothing.
func HostileIDs(epk []byte, n int) (ids [][]byte) {
	h := binary.BigEndian.Uint64(epk) ^ 0x9e3779b97f4a7c15
	h = fold(h^0xe7037ed1a0b428db, binary.LittleEndian.Uint64(epk[len(epk)-8:])^0x8ebc6af09c88c6e3)
	for i := range uint64(n) {
		id := make([]byte, 16)
		if i%2 == 0 {
			binary.LittleEndian.PutUint64(id, h)
			binary.LittleEndian.PutUint64(id[8:], i)
		} else {
			binary.LittleEndian.PutUint64(id, i)
			binary.LittleEndian.PutUint64(id[8:], 0x589965cc75374cc3)
		}
		ids = append(ids, id)
	}
	return ids
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
