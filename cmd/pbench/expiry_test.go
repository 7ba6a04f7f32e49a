package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
)

// TestRunTTL: what a run writes expires under it; reads that find nothing are counted and no
// failures. What was loaded stays.
func TestRunTTL(t *testing.T) {
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "200", "--generator", "small", "--workload", "ycsb-a", "--keys", "uniform", "--ttl", "1ms", "--rate", "4k",
		"--duration", "1s", "--warmup", "0s", "--durability", "buffered", "--json", "-")
	var r report
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	e := r.Engine.Expiry
	if r.All.Errors != 0 || e == nil || e.TTL != 0.001 || e.Reads == 0 || e.Reads > r.Ops["read"].Ops {
		t.Errorf("%d errors, expiry %+v, %d reads", r.All.Errors, e, r.Ops["read"].Ops)
	}
	dir := filepath.Join(t.TempDir(), "db")
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "100", "--generator", "small")
	s.do(t, cli.ExitUsage, "run", "--db", dir, "--workload", "put", "--ttl", "1s", "--closed")
	wants(t, s.errOut.String(), "--ttl own")
	s.do(t, cli.ExitUsage, "run", "--workload", "read", "--ttl", "1s", "--closed")
	wants(t, s.errOut.String(), "writes nothing")
}

// TestRunSized: documents of chosen sizes are loaded, remembered and written.
func TestRunSized(t *testing.T) {
	s := newEngineSession(t)
	dir := filepath.Join(t.TempDir(), "db")
	s.do(t, cli.ExitOK, "load", "--db", dir, "--docs", "200", "--doc-size", "lognormal:200..4k", "--compressible", "0.8")
	wants(t, s.out.String(), "sized documents", "lognormal:200..4k")
	s.do(t, cli.ExitOK, "run", "--db", dir, "--workload", "ycsb-a", "--closed", "--ops", "400", "--warmup", "0s", "--json", "-")
	var r report
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Engine.Run.Sizes != "lognormal:200..4k" || r.All.Errors != 0 || r.All.Ops != 400 {
		t.Errorf("%+v, %+v", r.Engine.Run, r.All)
	}
	s.do(t, cli.ExitUsage, "load", "--db", dir, "--generator", "food", "--doc-size", "1k")
	wants(t, s.errOut.String(), "belong to the generator sized")
	s.do(t, cli.ExitUsage, "load", "--db", dir, "--doc-size", "small")
	wants(t, s.errOut.String(), "document size")
	for _, part := range []string{"-0.5", "1.5", "nan", "inf"} {
		s.do(t, cli.ExitUsage, "load", "--db", dir, "--doc-size", "1k", "--compressible="+part)
		wants(t, s.errOut.String(), "want 0 to 1")
	}
}
