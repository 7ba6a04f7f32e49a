package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	redrawEvery = 250 * time.Millisecond // on a terminal
	lineEvery   = 10 * time.Second       // elsewhere
	maxBar      = 20                     // columns
)

// terminalWidth returns the columns of a terminal, 0 if f is none.
func terminalWidth(f *os.File) int {
	if !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 20 {
		return 80
	}
	return width
}

// progress shows how far something came: on a terminal one line that is drawn
// again four times a second, elsewhere a line every ten seconds. It is for one
// goroutine.
type progress struct {
	out   io.Writer
	width int // 0: no terminal
	label string
	start time.Time
	next  time.Time
	drawn bool
}

func newProgress(env *environment, label string, now time.Time) *progress {
	p := &progress{out: env.stderr, width: env.width, label: label, start: now, next: now.Add(lineEvery)}
	if p.width > 0 {
		p.next = now
	}
	return p
}

// show draws if it is time to. done is between 0 and 1, negative if unknown;
// text is called only when something is drawn.
func (p *progress) show(now time.Time, done float64, text func() string) {
	if now.Before(p.next) {
		return
	}
	elapsed := formatClock(now.Sub(p.start))
	if p.width == 0 {
		p.next = now.Add(lineEvery)
		fmt.Fprintf(p.out, "%s %s%s  %s\n", p.label, elapsed, percent(done), text())
		return
	}
	p.next = now.Add(redrawEvery)
	before, after := fmt.Sprintf("%s %s ", p.label, elapsed), fmt.Sprintf("%s  %s", percent(done), text())
	room := p.width - 1 - utf8.RuneCountInString(before) - utf8.RuneCountInString(after)
	line := before + bar(done, max(0, min(maxBar, p.width/10, room))) + after
	if n := utf8.RuneCountInString(line); n >= p.width {
		line = string([]rune(line)[:p.width-1])
	}
	fmt.Fprintf(p.out, "\r%s\x1b[K", line)
	p.drawn = true
}

// end removes the line.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
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
