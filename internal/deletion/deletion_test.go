package deletion

import (
	"encoding/binary"
	"math"
	"reflect"
	"testing"
)

// TestDecode: what Encode makes is read again, and ordinals that do not rise are refused, also where a distance is so
// large that the sum wraps around.
func TestDecode(t *testing.T) {
	want := []FileVector{{File: 7, Vector: Vector{Ordinals: []uint32{0, 5, math.MaxUint32 - 1}, Seqs: []uint64{9, 3, 4}}}}
	if got, ok := Decode(Encode(want)); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, distance := range []uint64{math.MaxUint32 - 6, math.MaxUint32, math.MaxUint64 - 5, math.MaxUint64} {
		b := []byte{1, 7, 2, 5, 2} // one file, number 7, two ordinals: 5 ...
		b = append(binary.AppendUvarint(b, distance), 2)
		if got, ok := Decode(b); ok {
			t.Errorf("distance %d: %+v", distance, got)
		}
	}
}
