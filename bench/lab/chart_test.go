package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
)

// picture runs a command that draws, and checks that it draws XML that asks for nothing.
func picture(t *testing.T, args ...string) string {
	t.Helper()
	s := newSession(t)
	s.do(t, cli.ExitOK, args...)
	d := xml.NewDecoder(strings.NewReader(s.out.String()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	text := strings.ReplaceAll(s.out.String(), `xmlns="http://www.w3.org/2000/svg"`, "")
	if strings.Contains(text, "http") || strings.Contains(text, "href") {
		t.Errorf("%v: the picture refers to something outside", args)
	}
	wants(t, text, "prefers-color-scheme:dark", "<title", "<desc")
	return text
}

func TestChartModel(t *testing.T) {
	text := picture(t, "chart", "model")
	wants(t, text, append(modelTenants, ">P4<", ">P5<", ">15<", ">2A<", ">1F<")...)
}

func TestChartPeers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "full.json")
	const report = `{"v":1,"scale":{"documents":1000},"stores":[{"name":"cleave","ours":true},{"name":"slow"},{"name":"fast"},{"name":"log","probe":true}],
		"rows":[{"name":"reads","unit":"/s","best_peer":"fast","values":{"cleave":{"median":3000},"slow":{"median":100},"fast":{"median":2000}},"ratios":{"cleave":1.5}},
		{"name":"opens","unit":"ms","lower_is_better":true,"best_peer":"slow","values":{"cleave":{"median":4},"slow":{"median":1}},"ratios":{"cleave":0.25}},
		{"name":"told only","unit":"","values":{"cleave":{"median":4}}}]}`
	if err := os.WriteFile(file, []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	text := picture(t, "chart", "peers", file)
	wants(t, text, ">reads<", ">opens<", "1.50× fast", "0.25× slow", "3 K/s", "4 ms", "slow: 30.00×", "Cleave is behind in 1")
	if strings.Contains(text, "told only") || strings.Contains(text, ">log<") {
		t.Error("a row without a ratio is drawn, or a probe")
	}
	s := newSession(t)
	s.do(t, harness.ExitFailed, "chart", "peers", filepath.Join("testdata", "..", "main.go"))
	wants(t, s.errOut.String(), "no result of bench/peers")
}

func TestChartSplit(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("series.ndjson", `{"repeat":1,"at_s":1,"all":{"p50_us":10,"p99_us":100,"p999_us":900}}
{"repeat":1,"at_s":2,"all":{"p50_us":11,"p99_us":110,"p999_us":2000}}
{"repeat":2,"at_s":1,"all":{"p50_us":11,"p99_us":110,"p999_us":9000000}}
`)
	write("run.json", `{"workload":"ycsb-b","all":{"errors":0},"engine":{"loop":{"offered_per_s":500},"splits":{"count":0,"list":[]}}}`)
	s := newSession(t)
	s.do(t, harness.ExitFailed, "chart", "split", dir)
	wants(t, s.errOut.String(), "has no split")
	write("run.json", `{"workload":"ycsb-b","all":{"errors":0},"engine":{"loop":{"offered_per_s":500},"splits":{"count":1,"list":[{"kind":"split","repeat":1,"at_s":1.5,"parents":[3],"children":[5,6],"pause_us":9}]}}}`)
	text := picture(t, "chart", "split", dir)
	wants(t, text, "ycsb-b at 500/s", "1 split: writes to the partition waited for at most 9 µs, 0 operations failed", "split of P3", "p99.9 of each second", "1 ms")
	if strings.Contains(text, "9 s") {
		t.Error("a later repetition is drawn")
	}
}

// TestPictureOfModel: the picture in docs is that of the command.
func TestPictureOfModel(t *testing.T) {
	kept, err := os.ReadFile(filepath.Join("..", "..", "docs", "pictures", "model.svg"))
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t)
	s.do(t, cli.ExitOK, "chart", "model")
	if s.out.String() != string(kept) {
		t.Error("docs/pictures/model.svg differs from what lab chart model draws: draw it anew with --svg docs/pictures/model.svg")
	}
}
