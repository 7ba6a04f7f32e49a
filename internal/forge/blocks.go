package forge

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
)

// block is one of a backup or of a stream.
type block struct {
	kind    byte
	payload []byte
}

// changeBlock changes one of some blocks and says how.
func changeBlock(rng *rand.Rand, list []block) (changed []block, what string) {
	at := rng.IntN(len(list))
	b := &list[at]
	what = fmt.Sprintf("block %d of kind %d", at, b.kind)
	switch how := rng.IntN(8); {
	case how == 0:
		b.kind = byte(number(rng, uint64(b.kind)))
		return list, fmt.Sprintf("%s is of kind %d", what, b.kind)
	case how == 1:
		return append(list[:at:at], list[at+1:]...), what + " is missing"
	case how == 2:
		return append(list[:at+1:at+1], list[at:]...), what + " twice"
	case how == 3:
		b.payload = b.payload[:rng.IntN(len(b.payload)+1)]
		return list, fmt.Sprintf("%s has %d bytes", what, len(b.payload))
	case bytes.HasPrefix(b.payload, []byte("{")):
		var where string
		b.payload, where = JSON(rng, b.payload)
		return list, what + where
	}
	b.payload = bytes.Clone(b.payload)
	return list, what + Somewhere(rng, b.payload)
}

const (
	backupHead      = 40
	backupBlockHead = 12
	backupTrailer   = 4 // the kind of the last block
)

// Backup returns a backup with another block, and says what.
func Backup(rng *rand.Rand, b []byte) (forged []byte, what string) {
	var list []block
	for off := backupHead; ; {
		n := int(le.Uint32(b[off+4:]))
		if b[off] == backupTrailer {
			break
		}
		list = append(list, block{b[off], b[off+backupBlockHead : off+backupBlockHead+n]})
		off += backupBlockHead + n
	}
	list, what = changeBlock(rng, list)
	forged = bytes.Clone(b[:backupHead])
	var all uint32
	add := func(kind byte, payload []byte) {
		place := le.AppendUint64(bytes.Clone(b[12:28]), uint64(len(forged)))
		head := le.AppendUint32([]byte{kind, 0, 0, 0}, uint32(len(payload)))
		sum := le.AppendUint32(nil, checksum(append(append(place, head...), payload...)))
		all = crc32.Update(all, castagnoli, sum)
		forged = append(append(append(forged, head...), sum...), payload...)
	}
	for _, b := range list {
		add(b.kind, b.payload)
	}
	end := le.AppendUint64(nil, uint64(len(forged)+backupBlockHead+20))
	end = le.AppendUint64(end, uint64(len(list)))
	add(backupTrailer, le.AppendUint32(end, all))
	return forged, what
}

const (
	streamHead      = 8
	streamBlockHead = 9
	streamEnd       = 0xFF // the kind of the last block
)

// Stream returns a stream of a partition with another block, and says what.
func Stream(rng *rand.Rand, b []byte) (forged []byte, what string) {
	var list []block
	for off := streamHead; b[off] != streamEnd; {
		n := int(le.Uint32(b[off+1:]))
		list = append(list, block{b[off], b[off+streamBlockHead : off+streamBlockHead+n]})
		off += streamBlockHead + n
	}
	list, what = changeBlock(rng, list)
	forged = bytes.Clone(b[:streamHead])
	for i, b := range append(list, block{kind: streamEnd}) {
		head := le.AppendUint32([]byte{b.kind}, uint32(len(b.payload)))
		sum := checksum(append(append(le.AppendUint64(nil, uint64(i)), head...), b.payload...))
		forged = append(le.AppendUint32(append(forged, head...), sum), b.payload...)
	}
	return forged, what
}
