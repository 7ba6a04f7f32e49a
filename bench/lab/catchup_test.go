package main

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
)

// TestCatchUp reads the feed of a loaded store from several positions.
func TestCatchUp(t *testing.T) {
	db := loaded(t)
	s := newSession(t)
	s.do(t, cli.ExitOK, "catchup", "--db", db, "--json", "-")
	var r catchUpReport
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Changes != 2000 || r.Container != "docs" || r.Bytes < 2000*60 || r.Position == "" {
		t.Errorf("%+v", r)
	}
	for from, want := range map[string]string{
		r.Position:                  "changes  0 of docs",
		"time:2100-01-01T00:00:00Z": "changes  0 of docs",
		"time:2001-01-01T00:00:00Z": "changes  2,000 of docs",
	} {
		s.do(t, cli.ExitOK, "catchup", "--db", db, "--from", from)
		wants(t, s.out.String(), want)
	}
	cold := cli.ExitOK
	if runtime.GOOS != "linux" {
		cold = harness.ExitFailed
	}
	s.do(t, cold, "catchup", "--db", db, "--cold")
	s.do(t, cli.ExitUsage, "catchup", "--db", db, "--from", "yesterday")
	s.do(t, cli.ExitUsage, "catchup", "--db", db, "--all-versions")
	s.do(t, cli.ExitUsage, "catchup", "--db", db, "--container", "none")
	s.do(t, harness.ExitFailed, "catchup", "--db", t.TempDir())
}
