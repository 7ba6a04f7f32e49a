package keyscope

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/synthetickey"
	"github.com/cleavestore/cleave/partmap"
)

// TestDerive: keys of values, with and without a rule, and what is refused.
func TestDerive(t *testing.T) {
	a, b := partmap.String("a"), partmap.Number(7)
	both, err := partmap.Join(a, b)
	if err != nil {
		t.Fatal(err)
	}
	plain := Definition{Levels: 2, Sources: []string{"/x", "/y"}, Text: "/x,/y"}
	if key, err := plain.Derive([]partmap.Key{a, b}); err != nil || key != both {
		t.Errorf("%v, want %v: %v", key, both, err)
	}
	if _, err := plain.Bases([]partmap.Key{a}); err == nil {
		t.Error("base keys without a rule")
	}
	for name, values := range map[string][]partmap.Key{"one": {a}, "three": {a, b, a}, "levels": {both, a}, "none": nil, "zero": {a, {}}} {
		if key, err := plain.Derive(values); err == nil {
			t.Errorf("%s: %v", name, key)
		}
	}

	rule := &synthetickey.Rule{Join: []string{"/x"}, Suffixes: 3, SuffixOf: "/y"}
	d := Definition{Levels: 1, Sources: rule.Sources(), Rule: rule, Text: rule.String()}
	key, err := d.Derive([]partmap.Key{a, b})
	if err != nil || key.Len() != 1 {
		t.Errorf("%v: %v", key, err)
	}
	keys, err := d.Bases([]partmap.Key{a})
	if err != nil || len(keys) != 3 || keys[0] != key && keys[1] != key && keys[2] != key {
		t.Errorf("%v, of which one is %v: %v", keys, key, err)
	}
	if _, err := d.Bases([]partmap.Key{a, b}); err == nil {
		t.Error("base keys of all sources")
	}

	d.Rule = &synthetickey.Rule{Join: []string{"/x"}, Suffixes: 3}
	if _, err := d.Derive([]partmap.Key{a}); !errors.Is(err, ErrRandom) || !d.Random() || plain.Random() {
		t.Errorf("a random suffix: %v", err)
	}
	if keys, err := d.Bases([]partmap.Key{a}); err != nil || len(keys) != 3 {
		t.Errorf("%v: %v", keys, err)
	}
}
