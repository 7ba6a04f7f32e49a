package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

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
