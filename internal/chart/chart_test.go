package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
)

// outside matches what would ask for something outside of a picture; the name of the SVG
// namespace is none.
var outside = regexp.MustCompile(`(?i)(href|src|url\(|@import|https?://)`)

// wellFormed checks the XML of a picture.
func wellFormed(t *testing.T, text []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	rest := strings.ReplaceAll(string(text), `xmlns="http://www.w3.org/2000/svg"`, "")
	if m := outside.FindString(rest); m != "" {
		t.Errorf("%q refers to something outside", m)
	}
	if strings.Contains(rest, "NaN") || strings.Contains(rest, "Inf") {
		t.Errorf("a coordinate is no number in\n%s", text)
	}
	for _, want := range []string{"<title", "<desc", `role="img"`} {
		if !strings.Contains(rest, want) {
			t.Errorf("no %s", want)
		}
	}
}

func newTestPlot() *Plot {
	return &Plot{
		ID: "p", Title: "a < b & c", About: "about",
		X: Axis{Title: "seconds", Step: Seconds}, Y: Axis{Kind: Log, Format: FormatMicros},
		Lines: []Line{
			{Name: "p99", Colour: Blue, Points: []Point{{1, 100}, {2, 1000}, {3, math.NaN()}, {4, 50}, {5, 0}}},
			{Name: "max", Colour: Orange, Area: true, Points: []Point{{1, 5000}, {5, 9000}}},
		},
		Lanes: []Lane{{Name: "flush", Colour: Sky, Shade: true, Spans: []Span{{From: 2, To: 3, Note: "P1"}}}},
		Marks: []Mark{{At: 2.5, Name: "split", Note: "P2", Colour: Purple}},
	}
}

func TestPlot(t *testing.T) {
	for _, size := range []Size{{Width: 360, Height: 280}, {Width: 860, Height: 300, Alone: true}} {
		var a, b bytes.Buffer
		if err := newTestPlot().Draw(&a, size); err != nil {
			t.Fatal(err)
		}
		if err := newTestPlot().Draw(&b, size); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, a.Bytes())
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Error("the same values give two pictures")
		}
		for _, want := range []string{`data-line="p99"`, `data-line="max"`, "a &lt; b &amp; c", ">flush<", ">split<", "<title>P1</title>", "10 ms"} {
			if !strings.Contains(a.String(), want) {
				t.Errorf("no %s", want)
			}
		}
		if size.Alone != strings.Contains(a.String(), "prefers-color-scheme:dark") {
			t.Errorf("alone: %v, and the style is not as that wants it", size.Alone)
		}
	}
}

// A line of many more points than pixels keeps its extremes.
func TestPlotKeepsExtremes(t *testing.T) {
	p := &Plot{ID: "p", Y: Axis{Min: 0, Max: 100}, X: Axis{Min: 0, Max: 9999}}
	l := Line{Name: "x"}
	for i := range 10_000 {
		y := 50.0
		if i == 4321 {
			y = 100
		}
		l.Points = append(l.Points, Point{float64(i), y})
	}
	f := &frame{left: 0, right: 100, top: 0, bottom: 100}
	points := f.pixels(p, &l)
	least := math.Inf(1)
	for _, at := range points {
		least = min(least, at.Y)
	}
	if len(points) > 210 || least != 0 {
		t.Errorf("%d points, the highest at %v", len(points), least)
	}
}

func TestAxis(t *testing.T) {
	log := Axis{Kind: Log, Min: 10, Max: 1000}
	if p := log.part(100); math.Abs(p-0.5) > 1e-9 {
		t.Errorf("100 lies at %v", p)
	}
	tail := Axis{Kind: Tail, Min: 0, Max: 99.99}
	if p := tail.part(99); math.Abs(p-0.5) > 1e-9 {
		t.Errorf("99 %% lies at %v", p)
	}
	fitted := Axis{}
	fitted.fit(func(yield func(float64)) { yield(3); yield(87) })
	if fitted.Min != 0 || fitted.Max != 100 {
		t.Errorf("%v to %v", fitted.Min, fitted.Max)
	}
	for v, want := range map[float64]string{0: "0 µs", 950: "950 µs", 1500: "1.5 ms", 2e6: "2 s"} {
		if got := FormatMicros(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 1 << 20: "1 MiB", 1536: "1.5 KiB", 100 << 20: "100 MiB"} {
		if got := FormatBytes(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

func TestHeat(t *testing.T) {
	h := &Heat{
		ID: "h", Title: "heat", About: "about", X: Axis{Max: 2, Step: Seconds}, Format: FormatCount, Unit: "operations",
		Columns: []HeatColumn{{0, 1, []float64{0, 4, 4, 100}}, {1, 2, []float64{1, 0, 0, 50}}},
		Borders: []Border{{Place: 0.5, From: 0, To: 2}, {Place: 0.75, From: 1.2, To: 2, New: true, Note: "split of P1"}},
	}
	var b bytes.Buffer
	if err := h.Draw(&b, Size{Width: 700, Height: 400}); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.Bytes())
	for _, want := range []string{`class="h0"`, `class="h16"`, "boundary from a split", "boundary before", "split of P1", "100 operations"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s", want)
		}
	}
	for v, want := range map[float64]int{0: 0, 0.01: 1, 25: 9, 99: 16, 100: 16} {
		if got := level(v, 100); got != want {
			t.Errorf("%v has the colour %d, want %d", v, got, want)
		}
	}
}

func TestRatios(t *testing.T) {
	r := &Ratios{ID: "r", Title: "ratios", About: "about", Ahead: "ahead", Behind: "behind", Others: []string{"a", "b"}, Groups: []RatioGroup{{
		Name: "rates", Rows: []RatioRow{
			{Label: "reads", Ratio: 1.5, Best: "a", Value: "10/s", Others: map[string]float64{"a": 1.5, "b": 400}},
			{Label: "opens", Ratio: 0.0002, Best: "b", Value: "3 ms", Others: map[string]float64{"b": 0.0002}},
		}}}}
	var b bytes.Buffer
	if err := r.Draw(&b, Size{Width: 860, Alone: true}); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.Bytes())
	for _, want := range []string{"1.50× a", "0.0002× b", "<title>b: 400.00×</title>", ">reads<", ">opens<"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, &b)
		}
	}
}
