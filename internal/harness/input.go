package harness

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/cleavestore/cleave/internal/workload"
)

// Input is what a load reads: documents, in an order that is always the same.
type Input struct {
	About string
	Docs  iter.Seq2[[]byte, error]
	// part returns how much was read, between 0 and 1; negative: unknown.
	part func() float64
	// refused describes what is wrong with the document that docs yielded
	// last.
	refused func(err error) error
	Close   func() error
}

// GeneratedInput yields the documents of a generator with indexes from skip to
// n-1.
func GeneratedInput(g *workload.Generator, skip, n int64) *Input {
	at := skip
	return &Input{
		About: aboutGenerator(g.Params()),
		Docs: func(yield func([]byte, error) bool) {
			for doc, err := range g.All(at, n-at) {
				at++
				if !yield(doc, err) {
					return
				}
			}
		},
		part:    func() float64 { return float64(at-skip) / float64(max(n-skip, 1)) },
		refused: func(err error) error { return fmt.Errorf("generated document %d: %w", at, err) },
		Close:   func() error { return nil },
	}
}

func aboutGenerator(p workload.Params) string {
	text := fmt.Sprintf("%s documents, %s", p.Shape, Plural(p.LogicalPartitions, "logical partition"))
	if p.Skew > 0 {
		text += fmt.Sprintf(" (skew %v)", p.Skew)
	}
	if p.Sizes != "" {
		text += fmt.Sprintf(", of %s, %v of them compressible", p.Sizes, p.Compressible)
	}
	return text + fmt.Sprintf(", seed %d", p.Seed)
}

// FileInput yields the lines of an NDJSON file, plain or compressed, "-" being
// in; the first skip documents are left out, and those past n (0: no limit).
func FileInput(name string, in io.Reader, skip, n int64) (*Input, error) {
	var lines *workload.Lines
	size := int64(0)
	if name == "-" {
		lines = workload.NewLines(in, "standard input", 0)
	} else {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			return nil, fmt.Errorf("%s is a directory: want an NDJSON file", name)
		}
		if info.Mode().IsRegular() {
			size = info.Size()
		}
		if lines, err = workload.OpenLines(name, 0); err != nil {
			return nil, err
		}
	}
	at := int64(0)
	return &Input{
		About: lines.Name(),
		Docs: func(yield func([]byte, error) bool) {
			if n > 0 && at >= n {
				return
			}
			for line, err := range lines.All() {
				if err == nil || errors.Is(err, workload.ErrLineTooLong) {
					if at++; at <= skip {
						continue
					}
				}
				if !yield(line, err) || at == n {
					return
				}
			}
		},
		part: func() float64 {
			if size == 0 {
				return -1
			}
			return float64(lines.Consumed()) / float64(size)
		},
		refused: lines.Refused,
		Close:   lines.Close,
	}, nil
}

// Until is docs, ended as soon as stop says so; it is asked once in a while.
func Until(docs iter.Seq2[[]byte, error], stop func() bool) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		n := 0
		for doc, err := range docs {
			if n++; n%1024 == 0 && stop() {
				return
			}
			if !yield(doc, err) {
				return
			}
		}
	}
}
