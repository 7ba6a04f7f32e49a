package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestCommand: the command of the documentation prints its table, and the same as JSON; what
// cannot be simulated is refused.
func TestCommand(t *testing.T) {
	var out, progress bytes.Buffer
	args := []string{"-nodes", "60", "-racks", "12", "-groups", "2000"}
	if err := run(args, &out, &progress); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"60 nodes in 12 racks, 2000 groups", "a rack lost", "every replica there after"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if !strings.Contains(progress.String(), "phase 3 of 3") {
		t.Errorf("progress: %q", &progress)
	}
	out.Reset()
	if err := run(append(args, "-json"), &out, &progress); err != nil {
		t.Fatal(err)
	}
	var v struct {
		MapGroups int `json:"map_groups"`
		Phases    []struct{ Name string }
	}
	if err := json.Unmarshal(out.Bytes(), &v); err != nil || v.MapGroups != 2000 || len(v.Phases) != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := run([]string{"-racks", "3"}, &out, &progress); err == nil || !strings.Contains(err.Error(), "3 racks") {
		t.Error(err)
	}
}
