package measure

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// joinVariable, in the environment of a test binary, makes it join a memory group and print
// its limit.
const joinVariable = "MEASURE_TEST_JOIN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(joinVariable); dir != "" {
		if err := JoinMemoryGroup(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(MemoryLimit())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestMemoryGroup: a process that joins a group has its limit, and the group can be removed
// when the process has ended.
func TestMemoryGroup(t *testing.T) {
	const limit = 256 << 20
	group, err := NewMemoryGroup(limit)
	if err != nil {
		if !strings.Contains(err.Error(), "root") {
			t.Errorf("the error does not say what is needed: %v", err)
		}
		t.Skipf("no control groups here: %v", err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), joinVariable+"="+group.Dir())
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil || string(out) != fmt.Sprint(limit) {
		t.Errorf("the limit in the group is %q, %v", out, err)
	}
	if err := group.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(group.Dir()); err == nil {
		t.Error("the group is still there")
	}
}
