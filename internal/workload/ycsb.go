package workload

import (
	"encoding/binary"
	"math/rand/v2"
)

// ycsbShape is the record of YCSB as a document: ten fields of 100 random
// printable characters, which hardly compress.
var ycsbShape = shape{
	name:       "ycsb",
	keyPath:    "/tenant",
	about:      "ten fields of 100 random characters, 1.2 KB",
	appendKey:  appendTenant,
	appendID:   appendUser,
	appendRest: appendYCSB,
}

const (
	ycsbFields     = 10
	ycsbFieldBytes = 100
)

func appendTenant(dst []byte, partition int) []byte {
	return appendDigits(append(dst, "tenant"...), uint64(partition), 7)
}

// appendUser appends "user" and 19 digits, as YCSB's hashed keys have.
func appendUser(dst []byte, i int64) []byte {
	return appendDigits(append(dst, "user"...), scramble(uint64(i), 62), 19)
}

func appendYCSB(dst []byte, partition int, rng rand.PCG) []byte {
	dst = appendTenant(append(dst, `","tenant":"`...), partition)
	var field [ycsbFieldBytes + 4]byte // a multiple of 8
	for f := range ycsbFields {
		dst = append(append(append(dst, `","field`...), '0'+byte(f)), `":"`...)
		for at := 0; at < len(field); at += 8 {
			random := rng.Uint64()
			binary.LittleEndian.PutUint64(field[at:], random)
		}
		for at := range field {
			field[at] = printable[field[at]]
		}
		dst = append(dst, field[:ycsbFieldBytes]...)
	}
	return append(dst, `"}`...)
}

// printable maps a byte to one of 92 ASCII characters that need no escape in
// JSON.
var printable = func() (table [256]byte) {
	var characters []byte
	for c := byte(' '); c <= '~'; c++ {
		if c != '"' && c != '\\' && c != '/' {
			characters = append(characters, c)
		}
	}
	for b := range table {
		table[b] = characters[b*len(characters)/len(table)]
	}
	return table
}()
