package restore

import (
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// TestSamePaths: definitions match whose paths are the same, however they are written.
func TestSamePaths(t *testing.T) {
	synthetic := func(join ...string) engine.ContainerDef {
		return engine.ContainerDef{Synthetic: &engine.SyntheticKey{Join: join}}
	}
	plain := synthetic("/a", "/b")
	for want, other := range map[bool]engine.ContainerDef{true: synthetic(`/"a"`, "/b"), false: synthetic("/b", "/a")} {
		if err := match(plain, other); (err == nil) != want {
			t.Errorf("%v for %v: %v", other.Synthetic, plain.Synthetic, err)
		}
	}
}
