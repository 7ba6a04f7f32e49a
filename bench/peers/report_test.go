package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/measure"
)

func newTestReport() *report {
	store := func(name string, ours bool) candidate {
		return candidate{name: name, ours: ours, about: func() string { return name + " 1" }, settings: "as it is"}
	}
	var samples []sample
	add := func(step, store, figure string, values ...float64) {
		for i, x := range values {
			samples = append(samples, sample{Step: step, Store: store, Repeat: i, result: result{Figures: map[string]float64{figure: x}}})
		}
	}
	add("read-uniform", "cleave", figureRate, 900, 1000, 1200)
	add("read-uniform", "slow", figureRate, 100)
	add("read-uniform", "fast", figureRate, 500, 300)
	add("load", "cleave", figureSettle, 4)
	add("load", "slow", figureSettle, 8)
	add("load", "fast", figureSettle, 2)
	add("read-uniform-2", "cleave", figureRate, 1800)
	add("load", "cleave-cache", figureSettle, 5)
	add("scan-partition", "cleave", figureRate, 30)
	add("scan-partition", "cleave-cache", figureRate, 60)
	add("scan-partition", "fast", figureRate, 40)
	cached := store("cleave-cache", true)
	cached.scansOnly = true
	stores := []candidate{store("cleave", true), cached, store("slow", false), store("fast", false)}
	return newReport("go run .", measure.Machine{}, scale{Duration: time.Second}, stores, samples)
}

func TestReport(t *testing.T) {
	r := newTestReport()
	rows := make(map[string]rowValues)
	for _, v := range r.Rows {
		rows[v.Name] = v
	}
	read := rows["point read, uniform"]
	if v := read.Values["cleave"]; v != (value{Median: 1000, Min: 900, Max: 1200, N: 3}) || v.spread() != 0.15 {
		t.Errorf("%+v", v)
	}
	if read.Best != "fast" || read.Values["fast"].Median != 400 || read.Ratios["cleave"] != 2.5 {
		t.Errorf("%+v", read)
	}
	if settle := rows["settle after the load"]; settle.Best != "fast" || settle.Ratios["cleave"] != 0.5 {
		t.Errorf("%+v", settle)
	}
	if v := rows["2 goroutines by 1"].Values["cleave"]; v.Median != 1.8 || math.Abs(v.Max-2) > 1e-9 || math.Abs(v.Min-1.5) > 1e-9 {
		t.Errorf("%+v", v)
	}
	var text bytes.Buffer
	r.print(&text)
	for _, want := range []string{
		"| point read, uniform   |      fast | 400/s |   2.50 | |\n",
		"| settle after the load |      fast | 2.00 s |   0.50 | |\n",
		"| scan of a partition of 1,000 | fast | 40.0/s | 0.75 | 1.50 |\n",
		"- settle after the load: fast 2.00 s; cleave 0.50\n",
		"| point read, uniform               | /s | 1,000 ±15 % |  | 100 | 400 ±25 % |\n",
		"- **slow** (slow 1): as it is.\n",
	} {
		if squeezed(want) != "" && !strings.Contains(squeezed(text.String()), squeezed(want)) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "- point read") {
		t.Error("a row that Cleave leads is among those that it loses")
	}
}

// TestPage: the parts of a page are replaced, and nothing else; rows that a peer leads come
// first.
func TestPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	const frame = "# Title\n<!-- begin: results -->\nold\n<!-- end: results -->\nWhy.\n<!-- begin: sizes -->\n<!-- end: sizes -->\n<!-- begin: run -->\nold\n<!-- end: run -->\nend\n"
	if err := os.WriteFile(file, []byte(frame), 0o644); err != nil {
		t.Fatal(err)
	}
	main := newTestReport()
	p := &publication{main: main, sizes: []sizedReport{{"small", main}}}
	if err := p.write(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := squeezed(string(text))
	lost, led := strings.Index(page, "| settle after the load | fast | 2.00 s | 0.50 | |"), strings.Index(page, "| point read, uniform | fast | 400/s | 2.50 | |")
	if lost < 0 || led < lost {
		t.Errorf("the lost row is at %d, the other at %d of\n%s", lost, led, page)
	}
	for _, want := range []string{"# Title\n", "Why.\n", "| point read, uniform | 2.50 (fast 400/s) |", "| scan of a partition of 1,000 | 0.75; 1.50 (fast 40.0/s) |", "| settle after the load | 0.50 (fast 2.00 s) |", "`go run .` on ", "<!-- end: run -->\nend\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "old") {
		t.Errorf("an old part is still there:\n%s", page)
	}
	if err := p.write(file); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(file); err != nil || !bytes.Equal(again, text) {
		t.Errorf("a second time the page changes: %v", err)
	}
	if _, err := replacePart([]byte("<!-- begin: run -->\n"), "run", nil); err == nil {
		t.Error("a part without an end is replaced")
	}
}

// squeezed is a text without repeated blanks.
func squeezed(text string) string {
	for strings.Contains(text, "  ") {
		text = strings.ReplaceAll(text, "  ", " ")
	}
	return text
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.04: "0.040", 0.004: "0.0040", 0.1: "0.10", 1.234: "1.23", 9.994: "9.99", 12.34: "12.3", 99.96: "100", 999.6: "1,000",
		1234567: "1,234,567", -1234: "-1,234", -123: "-123",
	} {
		if got := number(x); got != want {
			t.Errorf("%v: %q, want %q", x, got, want)
		}
	}
}

func TestMeter(t *testing.T) {
	m := &meter{}
	for _, c := range []struct {
		at time.Duration
		n  int64
	}{{0, 5}, {900 * time.Millisecond, 5}, {1100 * time.Millisecond, 3}, {3500 * time.Millisecond, 7}} {
		m.add(c.at, c.n)
	}
	if n, ok := m.slowest(); !ok || n != 0 {
		t.Errorf("the second in which nothing was taken: %v, %v", n, ok)
	}
	m = &meter{seconds: []int64{10, 4, 1}}
	if n, ok := m.slowest(); !ok || n != 4 {
		t.Errorf("%v, %v", n, ok)
	}
	m = &meter{seconds: []int64{10, 4}}
	if _, ok := m.slowest(); ok {
		t.Error("one whole second has a slowest one")
	}
	m = newMeter()
	n := 0
	for range m.count(func(yield func(document) bool) {
		for range 100 {
			if !yield(document{body: make([]byte, 3)}) {
				return
			}
		}
	}) {
		n++
	}
	total := int64(0)
	for _, k := range m.seconds {
		total += k
	}
	if n != 100 || total != 100 || m.bytes != 300 {
		t.Errorf("%d documents, %d counted, %d bytes", n, total, m.bytes)
	}
}
