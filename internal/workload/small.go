package workload

import "math/rand/v2"

// smallShape is a reading of a sensor: a document hardly larger than what a
// store must keep about it.
var smallShape = shape{
	name:      "small",
	keyPath:   "/sensor",
	about:     "readings of a sensor, 72 bytes in the mean",
	appendKey: appendSensor,
	appendID: func(dst []byte, i int64) []byte {
		return appendHex(dst, scramble(uint64(i), 40), 10)
	},
	appendRest: appendSmall,
}

func appendSensor(dst []byte, partition int) []byte {
	return appendFixed(append(dst, 's'), partition, 0)
}

func appendSmall(dst []byte, partition int, rng rand.PCG) []byte {
	dst = appendSensor(append(dst, `","sensor":"`...), partition)
	bits := rng.Uint64()
	dst = append(dst, `","at":`...)
	dst = appendDigits(dst, 1_700_000_000+bits>>40, 10)
	dst = append(dst, `,"value":`...)
	dst = appendFixed(dst, int(bits&0xffffff*10000>>24), 2)
	if bits>>24&15 == 0 {
		return append(dst, `,"ok":false}`...)
	}
	return append(dst, `,"ok":true}`...)
}
