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

// redrawEvery is the time between two states of a progress line.
const redrawEvery = 250 * time.Millisecond

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

// progress is a line on a terminal that shows how far a command came; without
// a terminal it is silent. It is for one goroutine.
type progress struct {
	out   io.Writer
	width int
	next  time.Time
	drawn bool
}

func newProgress(env *environment) *progress {
	return &progress{out: env.stderr, width: env.width, next: time.Now().Add(redrawEvery)}
}

// show draws the line if it is time to; text is called only then.
func (p *progress) show(text func() string) {
	if p.width == 0 || time.Now().Before(p.next) {
		return
	}
	p.next, p.drawn = time.Now().Add(redrawEvery), true
	line := []rune(text())
	line = line[:min(len(line), p.width-1)]
	fmt.Fprint(p.out, "\r"+string(line)+strings.Repeat(" ", p.width-1-utf8.RuneCountInString(string(line))))
}

// clear removes the line.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r"+strings.Repeat(" ", p.width-1)+"\r")
		p.drawn = false
	}
}
