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

// TestStallDuration: without --duration a phase lasts as long as that of another workload.
func TestStallDuration(t *testing.T) {
	r := new(runCommand)
	if d, err := r.stallDuration(); err != nil || d != defaultDuration {
		t.Errorf("without a flag %v, %v", d, err)
	}
	r.Duration = time.Second
	if d, err := r.stallDuration(); err != nil || d != time.Second {
		t.Errorf("with one second %v, %v", d, err)
	}
	s := newSession(t)
	s.do(t, cli.ExitUsage, "run", "--workload", "stalls", "--duration=-1s")
	wants(t, s.errOut.String(), "--duration cannot be negative")
}

// TestStallWindow: the window around a split lies around the moment at which its children take
// over.
func TestStallWindow(t *testing.T) {
	var swapped []time.Time
	db, err := engine.Open(t.Context(), t.TempDir(), &engine.Options{Events: &engine.EventListener{Reshaped: func(e engine.ReshapeEvent) { swapped = append(swapped, e.Swapped) }}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := db.CreateContainer(t.Context(), "docs", engine.ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"a", "b", "c", "d"} {
		if _, err := c.Upsert(t.Context(), []byte(`{"id":"1","k":"`+k+`"}`), nil); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	close(done) // one split all the same
	begun := time.Now()
	var windows []stallSample
	if err := (&stallRun{db: db, c: c}).splitOften(t.Context(), done, begun, time.Hour, &windows); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil { // all is told
		t.Fatal(err)
	}
	if len(windows) != 1 || len(swapped) != 1 || windows[0].at != swapped[0].Sub(begun)-stallWindow {
		t.Errorf("windows %v since %v; swapped at %v", windows, begun, swapped)
	}
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
