package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cleavestore/cleave/internal/workload"
)

// pageWorkloads are those that a page has of fewer documents, of several shapes.
var pageWorkloads = []string{"load", "read-uniform", "read-zipf", "scan-partition", "scan-written", "put", "ycsb-a", "ycsb-e"}

// pageShapes are the shapes of the fewer documents that a page tells of. Those of the main
// run are among them: a tenth of those fits into the cache of every store, decoded.
var pageShapes = []struct {
	name string
	shape
}{
	{"food, 1.4 KB", defaultShape},
	{"118 B, random", shape{Name: workload.SizedShape, Sizes: "118"}},
	{"1.16 KB, random", shape{Name: workload.SizedShape, Sizes: "1160"}},
	{"16 KB, 70 % the same in all", shape{Name: workload.SizedShape, Sizes: "16k", Compressible: 0.7}},
}

// publication is what the page of the results is made of.
type publication struct {
	main  *report
	sizes []sizedReport
}

type sizedReport struct {
	name string
	*report
}

// pageParts are the parts of a page that a run makes. Each lies between two comments,
// "<!-- begin: NAME -->" and "<!-- end: NAME -->".
var pageParts = []struct {
	name  string
	print func(*publication, io.Writer)
}{
	{"results", func(p *publication, w io.Writer) { p.main.printStanding(w) }},
	{"sizes", (*publication).printSizes},
	{"run", func(p *publication, w io.Writer) { p.main.printRun(w) }},
}

// readPage reads a page, and checks that it has all parts.
func readPage(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for _, part := range pageParts {
		if _, err := replacePart(text, part.name, nil); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return text, nil
}

// write brings the parts of a page up to date.
func (p *publication) write(file string) error {
	text, err := readPage(file)
	if err != nil {
		return err
	}
	for _, part := range pageParts {
		var b bytes.Buffer
		part.print(p, &b)
		if text, err = replacePart(text, part.name, b.Bytes()); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return os.WriteFile(file, text, 0o644)
}

// replacePart replaces what lies between the comments of a part.
func replacePart(text []byte, name string, with []byte) ([]byte, error) {
	begin, end := "<!-- begin: "+name+" -->\n", "<!-- end: "+name+" -->\n"
	before, rest, ok := bytes.Cut(text, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !ok || !ended {
		return nil, fmt.Errorf("there is no part between %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return slices.Concat(before, []byte(begin), []byte("\n"), bytes.Trim(with, "\n"), []byte("\n\n"), []byte(end), after), nil
}

// printStanding writes the ratios: first the rows in which a peer is ahead of any of the
// containers of Cleave, the greatest distance first.
func (r *report) printStanding(w io.Writer) {
	var lost, led []rowValues
	for _, v := range r.Rows {
		if v.Best == "" || len(v.Ratios) == 0 {
			continue
		}
		if _, ratio := leastRatio(v); ratio < 1 {
			lost = append(lost, v)
		} else {
			led = append(led, v)
		}
	}
	slices.SortStableFunc(lost, func(a, b rowValues) int {
		_, x := leastRatio(a)
		_, y := leastRatio(b)
		return cmp.Compare(x, y)
	})
	for _, part := range []struct {
		title string
		rows  []rowValues
	}{
		{"Rows in which a peer is ahead of one of the containers, the farthest first:", lost},
		{"Rows in which Cleave is ahead with all of its containers:", led},
	} {
		if len(part.rows) > 0 {
			fmt.Fprintf(w, "%s\n\n", part.title)
			r.ratioTable(part.rows).print(w)
			fmt.Fprintln(w)
		}
	}
}

// leastRatio returns the container of Cleave that is farthest behind, or least ahead.
func leastRatio(v rowValues) (store string, least float64) {
	for name, ratio := range v.Ratios {
		if store == "" || ratio < least || ratio == least && name < store {
			store, least = name, ratio
		}
	}
	return store, least
}

// pageContainers are those of Cleave that a page has of fewer documents. The second takes part in scans alone.
var pageContainers = []string{"cleave", "cleave-cache"}

// printSizes writes the ratios of pageContainers with documents of other sizes.
func (p *publication) printSizes(w io.Writer) {
	t := table{rows: [][]string{{""}}}
	for _, s := range p.sizes {
		t.rows[0] = append(t.rows[0], s.name)
	}
	for _, row := range tableRows {
		line, found := []string{row.name}, false
		for _, s := range p.sizes {
			cell := ""
			for _, v := range s.Rows {
				if v.Name != row.name || len(v.Ratios) == 0 {
					continue
				}
				var ratios []string
				for _, name := range pageContainers {
					if ratio, ok := v.Ratios[name]; ok {
						ratios = append(ratios, number(ratio))
					}
				}
				cell, found = fmt.Sprintf("%s (%s %s)", strings.Join(ratios, "; "), v.Best, measured(v.Values[v.Best], v.Unit)), true
			}
			line = append(line, cell)
		}
		if found {
			t.rows = append(t.rows, line)
		}
	}
	if len(p.sizes) > 0 {
		s := p.sizes[0].Scale
		fmt.Fprintf(w, "%s documents, each workload %v, %d times.\n\n", number(float64(s.Documents)), s.Duration, s.Repeats)
	}
	t.print(w)
}

// publish measures what a page tells of, and brings the page and its picture up to date.
func publish(ctx context.Context, file string, r run) error {
	if _, err := readPage(file); err != nil {
		return err // before the hours that the run takes
	}
	main, err := r.measure(ctx, "full", allSteps)
	if err != nil {
		return err
	}
	p := &publication{main: main}
	steps, err := choose(allSteps, strings.Join(pageWorkloads, ","), func(s step) string { return s.name })
	if err != nil {
		return err
	}
	for at, s := range pageShapes {
		small := r
		small.scale.Shape = s.shape
		small.scale.Documents = max(r.scale.Documents/10, partitionItems)
		small.scale.Repeats = min(r.scale.Repeats, 2)
		small.candidates = slices.DeleteFunc(slices.Clone(r.candidates), func(c candidate) bool { return c.ours && !slices.Contains(pageContainers, c.name) || c.probe })
		sized, err := small.measure(ctx, fmt.Sprintf("size-%d", at), steps)
		if err != nil {
			return err
		}
		p.sizes = append(p.sizes, sizedReport{name: s.name, report: sized})
	}
	if err := p.write(file); err != nil {
		return err
	}
	return drawPicture(ctx, filepath.Join(r.out, "full.json"), filepath.Join(filepath.Dir(file), "pictures", "peers.svg"))
}

// drawPicture has the lab draw the ratios of a report.
func drawPicture(ctx context.Context, report, picture string) error {
	report, err := filepath.Abs(report)
	if err != nil {
		return err
	}
	if picture, err = filepath.Abs(picture); err != nil {
		return err
	}
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "bench", "lab")); err != nil {
		return errors.Join(errors.New("the picture is drawn by bench/lab: begin in bench/peers"), err)
	}
	draw := exec.CommandContext(ctx, "go", "-C", root, "run", "./bench/lab", "chart", "peers", report, "--svg", picture)
	draw.Stdout, draw.Stderr = os.Stderr, os.Stderr
	return draw.Run()
}
