package randtest

import (
	"fmt"
	"testing"
)

// test is a test that failed or not; its cleanup is called by hand.
type test struct {
	testing.TB
	failed, fatal bool
	cleanup       func()
	log           string
}

func (t *test) Helper()                        {}
func (t *test) Failed() bool                   { return t.failed }
func (t *test) Name() string                   { return "TestThat" }
func (t *test) Cleanup(f func())               { t.cleanup = f }
func (t *test) Fatalf(format string, a ...any) { t.fatal = true }
func (t *test) Logf(format string, a ...any)   { t.log += fmt.Sprintf(format, a...) }

func TestSeed(t *testing.T) {
	defer func(was uint64) { *seedFlag = was }(*seedFlag)
	*seedFlag = 0
	t.Setenv(variable, "")
	if a, b := Seed(&test{}), Seed(&test{}); a == b {
		t.Error("the same seed twice")
	}
	t.Setenv(variable, "5")
	one := &test{}
	if n := Seed(one); n != 5 {
		t.Errorf("seed %d from the environment", n)
	}
	if one.cleanup(); one.log != "" {
		t.Errorf("a test that passed logs %q", one.log)
	}
	*seedFlag = 7
	one.failed = true
	if a, b := New(one).Uint64(), New(one).Uint64(); a != b {
		t.Error("one seed, two sequences")
	}
	if one.cleanup(); one.log != "replay with: go test -run '^TestThat$' -seed 7" {
		t.Errorf("a test that failed logs %q", one.log)
	}
	*seedFlag = 0
	t.Setenv(variable, "x")
	bad := new(test)
	if Seed(bad); !bad.fatal {
		t.Error("a seed that is no number is taken")
	}
}
