package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/cli"
)

func TestReopen(t *testing.T) {
	s := newEngineSession(t)
	dir := filepath.Join(t.TempDir(), "db")
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "300", "--generator", "small")
	s.do(t, cli.ExitOK, "reopen", "--db", dir, "--count", "3", "--json", "-")
	var r reopenReport
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.V != 1 || r.First <= 0 || len(r.Open.Each) != 3 || r.Open.P50 <= 0 || r.Open.Max < r.Open.P50 || len(r.Read.Each) != 3 || len(r.Close.Each) != 3 {
		t.Errorf("%+v", r)
	}
	s.do(t, cli.ExitOK, "reopen", "--db", dir, "--count", "1")
	wants(t, s.out.String(), "open, the first time", "with the recovery, if the store was not closed", "read a document", "1 time")
	s.do(t, cli.ExitUsage, "reopen", "--db", dir, "--count", "0")
	s.do(t, cli.ExitOK, "run", "--db", dir, "--workload", "read", "--closed", "--ops", "50", "--warmup", "0s") // it is whole
}

// TestDurations: half of the times are at most the median, which of two is not the longer one.
func TestDurations(t *testing.T) {
	d := newDurations([]time.Duration{3 * time.Millisecond, time.Millisecond})
	if d.P50 != 2000 || d.Max != 3000 || d.Each[0] != 3000 {
		t.Errorf("%+v", d)
	}
}
