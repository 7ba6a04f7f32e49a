package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// RedrawEvery is the time between two states of a Line.
const RedrawEvery = 250 * time.Millisecond

// TerminalWidth returns the columns of a terminal, 0 if f is none.
func TerminalWidth(f *os.File) int {
	if !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 20 {
		return 80
	}
	return width
}

// Line is a line of a terminal that shows how far a command came. What is
// printed elsewhere meanwhile wants it cleared before. It is for one goroutine.
type Line struct {
	out   io.Writer
	width int
	next  time.Time
	drawn int // columns
}

// NewLine returns a line of a terminal with so many columns; with none it
// shows nothing. It is drawn for the first time a while after now, so that
// commands which take no time show nothing.
func NewLine(out io.Writer, width int, now time.Time) *Line {
	return &Line{out: out, width: width, next: now.Add(RedrawEvery)}
}

// Columns returns how much of a text there is room for.
func (l *Line) Columns() int { return max(l.width-1, 0) }

// Show draws the line if it is time to; text is called only then. What does
// not fit is cut off. What a terminal would not print as it is, as in the name of a file, is escaped.
func (l *Line) Show(now time.Time, text func() string) {
	if l.width == 0 || now.Before(l.next) {
		return
	}
	l.next = now.Add(RedrawEvery)
	line := []rune(Printable(text()))
	line = line[:min(len(line), l.Columns())]
	fmt.Fprint(l.out, "\r"+string(line)+strings.Repeat(" ", max(l.drawn-len(line), 0)))
	l.drawn = len(line)
}

// Clear removes the line.
func (l *Line) Clear() {
	if l.drawn > 0 {
		fmt.Fprint(l.out, "\r"+strings.Repeat(" ", l.drawn)+"\r")
		l.drawn = 0
	}
}
