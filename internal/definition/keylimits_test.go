package definition

import (
	"maps"
	"math"
	"testing"

	"github.com/cleavestore/cleave/internal/keylimits"
	"github.com/cleavestore/cleave/internal/manifest"
)

// TestKeyLimits: limits are set, replaced and taken away in the order of keys, without a
// change of the list before; fields that are 0 follow the default.
func TestKeyLimits(t *testing.T) {
	var m manifest.Container
	SetDefaultKeyLimit(&m, keylimits.Limit{Throughput: 5})
	check := func(what string, want map[string]keylimits.Limit) {
		t.Helper()
		r := KeyRules(&m)
		if r.Default != (keylimits.Limit{Throughput: 5, Bytes: DefaultLogicalBytes}) || r.Unmetered || !maps.Equal(r.Keys, want) {
			t.Errorf("%s: %+v", what, r)
		}
		for i := 1; i < len(m.KeyLimits); i++ {
			if string(m.KeyLimits[i-1].Key) >= string(m.KeyLimits[i].Key) {
				t.Errorf("%s: order of %v", what, m.KeyLimits)
			}
		}
	}
	check("none", map[string]keylimits.Limit{})
	SetKeyLimit(&m, []byte("b"), keylimits.Limit{Throughput: 7})
	SetKeyLimit(&m, []byte("a"), keylimits.Limit{Bytes: 9})
	SetKeyLimit(&m, []byte("c"), keylimits.Limit{Throughput: -0.5, Bytes: 1})
	want := map[string]keylimits.Limit{"a": {Throughput: 5, Bytes: 9}, "b": {Throughput: 7, Bytes: DefaultLogicalBytes}, "c": {Bytes: 1}}
	check("three", want)
	if rate := m.KeyLimits[2].Throughput; rate != -1 {
		t.Errorf("no throughput is stored as %v", rate)
	}
	before := m
	key := []byte("b")
	SetKeyLimit(&m, key, keylimits.Limit{Throughput: 8, Bytes: 2})
	key[0] = 'z'
	changed := maps.Clone(want)
	changed["b"] = keylimits.Limit{Throughput: 8, Bytes: 2}
	check("another", changed)
	SetKeyLimit(&m, []byte("a"), keylimits.Limit{})
	SetKeyLimit(&m, []byte("x"), keylimits.Limit{})
	delete(changed, "a")
	check("one less", changed)
	m = before
	check("before", want)
	var other manifest.Container
	TakeKeyLimits(&other, &m)
	m = other
	check("taken over", want)
	SetDefaultKeyLimit(&m, keylimits.Limit{Throughput: -1, Bytes: 3})
	if m.MaxLogicalThroughput != 0 || m.MaxLogicalKey != 3 {
		t.Errorf("%+v", m)
	}
}

// TestCheckKeyLimit: what a logical partition can have.
func TestCheckKeyLimit(t *testing.T) {
	for _, tc := range []struct {
		l  keylimits.Limit
		ok bool
	}{
		{keylimits.Limit{}, true}, {keylimits.Limit{Throughput: 1, Bytes: 1 << 62}, true}, {keylimits.Limit{Throughput: -5}, true},
		{keylimits.Limit{Throughput: 0.5}, false}, {keylimits.Limit{Throughput: 2e9}, false}, {keylimits.Limit{Throughput: math.NaN()}, false},
		{keylimits.Limit{Bytes: -1}, false}, {keylimits.Limit{Bytes: 1<<62 + 1}, false},
	} {
		if err := CheckKeyLimit(tc.l); (err == nil) != tc.ok {
			t.Errorf("%+v: %v", tc.l, err)
		}
	}
}
