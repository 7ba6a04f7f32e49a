package main

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// TestRunStalls: each phase is measured, and the parts of the longest writes are those that
// the store tells.
func TestRunStalls(t *testing.T) {
	s := newEngineSession(t)
	s.do(t, cli.ExitOK, "run", "--docs", "1000", "--workload", "stalls", "--duration", "200ms", "--json", "-")
	var rep stallReport
	if err := json.Unmarshal(s.out.Bytes(), &rep); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range rep.Phases {
		names = append(names, p.Name)
		if p.Writes == 0 || p.Rate <= 0 || p.Splits > 0 && p.Median <= 0 {
			t.Errorf("%+v", p)
		}
		if load := p.Name[0] == 'l'; load && p.Writes != 1000 {
			t.Errorf("%s: %d writes", p.Name, p.Writes)
		}
	}
	if len(names) != 6 || names[3] != "60 %, splits" || rep.Phases[3].Splits == 0 {
		t.Errorf("phases %q: %+v", names, rep.Phases)
	}
	s.do(t, cli.ExitUsage, "run", "--workload", "stalls", "--generator", "food")
	wants(t, s.errOut.String(), "stalls")
}

// TestStallParts: the longest of each part is kept, also of different writes, and reads do
// not count.
func TestStallParts(t *testing.T) {
	var m stallMeter
	const ms = time.Millisecond
	m.slow(engine.SlowCallEvent{Call: "write", Duration: 50 * ms, Stalled: 40 * ms, Log: 4 * ms})
	m.slow(engine.SlowCallEvent{Call: "write", Duration: 30 * ms, Locked: 25 * ms, Log: 5 * ms})
	m.slow(engine.SlowCallEvent{Call: "read", Duration: time.Second})
	want := stallPhase{Long: 2, Longest: 50, Memory: 40, Lock: 25, Log: 5, Rest: 6}
	if !reflect.DeepEqual(m.phase, want) {
		t.Errorf("%+v, want %+v", m.phase, want)
	}
	m.samples = []stallSample{{0, ms}, {ms, 2 * ms}, {2 * ms, 3 * ms}, {time.Second, 9 * ms}}
	far, near := m.medians([]stallSample{{at: time.Second}})
	if far != 2000 || near != 9000 {
		t.Errorf("medians %v and %v", far, near)
	}
}
