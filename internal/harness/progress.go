package harness

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/cli"
)

const (
	LineEvery = 10 * time.Second
	maxBar    = 20 // columns
)

// Progress shows how far something came: on a terminal as a line that is drawn
// again and again, elsewhere as a line every ten seconds. It is for one
// goroutine.
type Progress struct {
	out   io.Writer
	line  *cli.Line // nil: no terminal
	label string
	start time.Time
	next  time.Time // elsewhere
}

// NewProgress begins to show something that began now.
func NewProgress(env *Environment, label string, now time.Time) *Progress {
	p := &Progress{out: env.Stderr, label: label, start: now, next: now.Add(LineEvery)}
	if env.Width > 0 {
		p.line = cli.NewLine(env.Stderr, env.Width, now)
	}
	return p
}

// Show draws if it is time to. done is between 0 and 1, negative if unknown;
// text is called only when something is drawn. The bar gives way to the text.
func (p *Progress) Show(now time.Time, done float64, text func() string) {
	elapsed := formatClock(now.Sub(p.start))
	if p.line != nil {
		p.line.Show(now, func() string {
			before, after := fmt.Sprintf("%s %s ", p.label, elapsed), fmt.Sprintf("%s  %s", percent(done), text())
			room := p.line.Columns() - utf8.RuneCountInString(before) - utf8.RuneCountInString(after)
			return before + bar(done, max(0, min(maxBar, p.line.Columns()/10, room))) + after
		})
		return
	}
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(LineEvery)
	fmt.Fprintf(p.out, "%s %s%s  %s\n", p.label, elapsed, percent(done), text())
}

// End removes the line.
func (p *Progress) End() {
	if p.line != nil {
		p.line.Clear()
	}
}

func percent(done float64) string {
	if done < 0 {
		return ""
	}
	return fmt.Sprintf(" %3.0f %%", 100*min(done, 1))
}

func bar(done float64, width int) string {
	if done < 0 {
		return ""
	}
	full := int(min(done, 1) * float64(width))
	return strings.Repeat("▓", full) + strings.Repeat("░", width-full)
}

// formatClock returns minutes and seconds.
func formatClock(d time.Duration) string {
	s := int(d / time.Second)
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}
