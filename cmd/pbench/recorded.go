package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cleavestore/cleave/partmap"
)

// recorded is a run as its directory has it. Times are seconds since the first repetition
// began; the repetitions follow each other.
type recorded struct {
	name    string // among two; "": it is the only one
	dir     string // "": it is not kept
	report  *report
	seconds []second
	events  []event
	curves  map[string]*hdrhistogram.Histogram // latencies of the whole run by tag
	begins  []float64                          // of the repetitions
	ends    float64
	borders []border
}

// border is a boundary between physical partitions, for as long as it is there.
type border struct {
	place    float64 // in the key space, from 0 to 1
	at       string  // hexadecimal digits
	from, to float64
	fresh    bool // it came during its repetition
	split    *event
}

// readRecorded reads a directory of --out.
func readRecorded(dir string) (*recorded, error) {
	rep, err := readReport(filepath.Join(dir, runFile))
	if err != nil {
		return nil, fmt.Errorf("%w; pbench report reads what pbench run --out wrote", err)
	}
	r := &recorded{dir: dir, report: rep, curves: make(map[string]*hdrhistogram.Histogram)}
	if err = readLines(filepath.Join(dir, seriesFile), func(s second) { r.seconds = append(r.seconds, s) }); err != nil {
		return nil, err
	}
	if len(r.seconds) == 0 {
		return nil, fmt.Errorf("%s: %s is empty", dir, seriesFile)
	}
	// Runs of older builds have no events.
	err = readLines(filepath.Join(dir, eventsFile), func(e event) { r.events = append(r.events, e) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err = r.readCurves(filepath.Join(dir, hlogFile)); err != nil {
		return nil, err
	}
	r.align()
	r.findBorders()
	return r, nil
}

// readLines reads a file of JSON lines. One that ends within a line was not finished: what is
// before that line counts.
func readLines[T any](name string, add func(T)) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil // also behind a line without an end
		}
		if err != nil {
			return err
		}
		var v T
		if err := json.Unmarshal(text, &v); err != nil {
			return fmt.Errorf("%s: line %d: %w", name, n, err)
		}
		add(v)
	}
}

// serviceTag ends the tags of service times of an open loop.
const serviceTag = ".service"

// readCurves adds up the histograms of all seconds.
func (r *recorded) readCurves(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	all := hdrhistogram.NewHistogramLogReader(file)
	for {
		h, err := all.NextIntervalHistogram()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if h == nil {
			return nil
		}
		names := []string{h.Tag(), allName}
		if strings.HasSuffix(h.Tag(), serviceTag) {
			names[1] += serviceTag
		}
		for _, tag := range names {
			sum := r.curves[tag]
			if sum == nil {
				sum = hdrhistogram.New(h.LowestTrackableValue(), h.HighestTrackableValue(), int(h.SignificantFigures()))
				r.curves[tag] = sum
			}
			sum.Merge(h)
		}
	}
}

// align puts the repetitions one behind the other.
func (r *recorded) align() {
	offset, repeat := 0.0, r.seconds[0].Repeat
	offsets := map[int]float64{repeat: 0}
	r.begins = []float64{0}
	for i := range r.seconds {
		s := &r.seconds[i]
		if s.Repeat != repeat {
			offset, repeat = r.ends, s.Repeat
			offsets[repeat] = offset
			r.begins = append(r.begins, offset)
		}
		s.AtS += offset
		r.ends = s.AtS
	}
	for i := range r.events {
		e := &r.events[i]
		by := offsets[e.Repeat]
		e.FromS, e.ToS = max(e.FromS, 0)+by, e.ToS+by
		if e.AtS > 0 {
			e.AtS += by
		}
	}
	slices.SortStableFunc(r.events, func(a, b event) int {
		switch {
		case a.FromS < b.FromS:
			return -1
		case a.FromS > b.FromS:
			return 1
		}
		return 0
	})
}

// placeOf returns where hexadecimal digits lie in the part of the key space that keys have:
// 00 to 3F.
func placeOf(digits string) float64 {
	epk, err := partmap.ParseEPK(digits)
	if err != nil {
		return 0
	}
	return min(float64(epk.Head())/(1<<62), 1)
}

// findBorders follows the boundaries through the run.
func (r *recorded) findBorders() {
	open := make(map[string]*border)
	var order []*border
	for i := range r.seconds {
		s := &r.seconds[i]
		if s.Partitions == nil {
			continue
		}
		begins := i == 0 || r.seconds[i-1].Repeat != s.Repeat
		there := make(map[string]bool)
		for _, p := range s.Partitions {
			if p.Min == "" {
				continue // the beginning of the key space
			}
			there[p.Min] = true
			if open[p.Min] != nil {
				continue
			}
			b := &border{place: placeOf(p.Min), at: p.Min, from: s.AtS - s.Seconds, to: r.ends}
			b.split = r.madeBy(p.ID)
			if b.split != nil {
				b.from = b.split.AtS
			}
			b.fresh = b.split != nil || !begins
			open[p.Min] = b
			order = append(order, b)
		}
		for at, b := range open {
			if !there[at] {
				b.to = s.AtS
				delete(open, at)
			}
		}
	}
	for _, b := range order {
		r.borders = append(r.borders, *b)
	}
}

// madeBy returns the reshape that made a physical partition, nil if none of the run did.
func (r *recorded) madeBy(id uint32) *event {
	for i := range r.events {
		if e := &r.events[i]; e.AtS > 0 && slices.Contains(e.Children, id) {
			return e
		}
	}
	return nil
}

// splits returns the reshapes that were made.
func (r *recorded) splits() (made []event) {
	for _, e := range r.events {
		if e.AtS > 0 {
			made = append(made, e)
		}
	}
	return made
}

// operations returns the kinds of operations that the run has.
func (r *recorded) operations() []string {
	names := r.report.names()
	return names[:len(names)-1]
}
