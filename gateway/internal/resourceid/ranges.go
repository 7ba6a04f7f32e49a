package resourceid

import (
	"hash/fnv"
	"strconv"
)

// RangeNumber returns the number in the resource id of a physical partition.
func RangeNumber(id string) uint64 {
	if n, err := strconv.ParseUint(id, 10, 32); err == nil {
		return n
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64() >> 10 // as many bits as a resource id has
}
