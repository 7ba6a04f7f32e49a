package main

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
)

// TestCold reads a loaded store beside its files.
func TestCold(t *testing.T) {
	db := loaded(t)
	s := newSession(t)
	s.do(t, cli.ExitUsage, "cold", "--db", db, "--readers", "0")
	s.do(t, cli.ExitUsage, "cold", "--db", db, "--procs", "2,0")
	s.do(t, harness.ExitFailed, "cold", "--db", t.TempDir())
	args := []string{"cold", "--db", db, "--readers", "4", "--duration", "30ms", "--count", "2"}
	if runtime.GOOS != "linux" {
		s.do(t, harness.ExitFailed, args...)
		return
	}
	before := runtime.GOMAXPROCS(0)
	s.do(t, cli.ExitOK, append(args, "--procs", "1,3", "--json", "-")...)
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("GOMAXPROCS is %d, was %d", n, before)
	}
	var r coldReport
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 || r.Rows[0].Procs != 1 || r.Rows[1].Procs != 3 || r.Container != "docs" || r.FileBytes < 2000*20 || r.Memory <= 0 {
		t.Fatalf("%+v", r)
	}
	for _, row := range r.Rows {
		for _, reads := range []coldReads{row.Bare, row.Store} {
			if reads.PerSecond <= 0 || reads.P50 <= 0 || reads.P99 < reads.P50 || reads.TimerLate <= 0 {
				t.Errorf("%+v", row)
			}
		}
		if row.Ratio <= 0 || row.IdleLate <= 0 {
			t.Errorf("%+v", row)
		}
	}
	s.do(t, cli.ExitOK, append(args, "--procs", "2")...)
	wants(t, s.out.String(), "4 readers of docs", "bare reads/s", "less than twice the memory")
}

// The medians of rounds are those of each figure.
func TestMedianRow(t *testing.T) {
	row := func(x float64) coldRow {
		return coldRow{Procs: 2, Bare: coldReads{PerSecond: 10 * x, P50: x}, Store: coldReads{PerSecond: 5 * x, TimerLate: 7 * x}, Ratio: x, IdleLate: 2 * x}
	}
	if m := medianRow([]coldRow{row(9), row(0.25), row(1.125)}); m != row(1.125) {
		t.Errorf("%+v", m)
	}
	if m := medianRow([]coldRow{row(0.5), row(0.25)}); m != row(0.375) {
		t.Errorf("%+v", m)
	}
}
