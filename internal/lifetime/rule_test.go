package lifetime

import (
	"math/rand/v2"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
)

// TestRule: what is gone under a rule is gone under all rules that follow from it, at all later times, and a Life
// that takes the rules says the same. What is not gone under any of them goes by the present default.
func TestRule(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		first := []int64{0, Ever, 50}[rng.IntN(3)]
		var life Life
		life.Init(true, first)
		rule, now, revision := Rule{}, int64(100), uint64(0)
		var all []item.Version
		dead := make(map[int]bool)
		for range 30 {
			now += int64(rng.IntN(30))
			all = append(all, item.Version{Modified: now, Expires: []int64{0, 0, Never, now + int64(1+rng.IntN(60))}[rng.IntN(4)]})
			for i := range all {
				v, ttl := &all[i], rule.Or(first).Default
				expired := ttl != 0 && (v.Expires != 0 && v.Expires <= now || v.Expires == 0 && ttl > 0 && v.Modified+ttl <= now)
				dead[i] = dead[i] || expired
				if rule.Or(first).Past(now).Gone(v) != dead[i] || life.Past(now).Gone(v) != dead[i] {
					t.Fatalf("%+v is dead: %v; the rule %+v at %d says %v, the life %v", v, dead[i], rule, now, rule.Or(first).Past(now).Gone(v), life.Past(now).Gone(v))
				}
			}
			if rng.IntN(4) == 0 {
				revision += uint64(1 + rng.IntN(3))
				rule = rule.Or(first).Change(revision, []int64{0, Ever, 20, 50, 200}[rng.IntN(5)], now)
				if !rule.Valid(now) {
					t.Fatalf("rule %+v at %d", rule, now)
				}
				life.Take(rule, 0, now)
				life.Take(rule, 0, now)
			}
		}
		if life.Changes()%2 != 0 || rule.Revision != 0 && life.Default() != rule.Default {
			t.Fatalf("%d changes, the default is %d, by the rule %+v", life.Changes(), life.Default(), rule)
		}
	}
	for _, bad := range []Rule{{Default: 1}, {Revision: 1, Default: -2}, {Revision: 1, Default: MaxDefault + 1}, {Revision: 1, Own: 101}, {Revision: 1, Unsaid: 101}, {Revision: 1, Own: -1}} {
		if bad.Valid(100) {
			t.Errorf("%+v is taken", bad)
		}
	}
}
