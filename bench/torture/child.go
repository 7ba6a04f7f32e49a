package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// task is what a child is told to do.
type task struct {
	Setting  string
	Dir      string
	Ballast  string // a file that goes when the disk is full; empty: none
	Failing  bool   // the device may fail writes for good
	Cut      bool   // the power goes while the child works
	Seed     uint64
	Buffered bool
	At       []int         // operations of each lane that the store has
	Feeds    [2]string     // positions from which the feeds are read
	Rate     float64       // operations a second, of all lanes; 0: as many as go
	Pause    time.Duration // between disturbances
	Sample   time.Duration // between samples of what the child uses; 0: none
}

// How a child ends that is not killed. 2 is that of the Go runtime.
const (
	exitPanic     = 2
	exitError     = 3
	exitViolation = 4
)

// violationMark begins what a child writes to standard error about a violation. It may be
// killed before it ends by itself.
const violationMark = "violation: "

// fail ends a child at once, and says why.
func fail(err error) {
	if isViolation(err) {
		fmt.Fprintln(os.Stderr, violationMark+err.Error())
		os.Exit(exitViolation)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(exitError)
}

var panicText = regexp.MustCompile(`(?m)^(panic|fatal error): `)

// judge returns a violation if a child ended, by code or with a text on standard error, as one does
// that has found something. excused says that its medium explains errors of calls. A
// child that was killed has a negative code, and one that had nothing to say no text.
func judge(code int, text string, excused bool) error {
	switch {
	case code == exitViolation || strings.HasPrefix(text, violationMark) || strings.Contains(text, "\n"+violationMark):
		return violation("the child found: %s", text)
	case code == exitPanic || panicText.MatchString(text):
		return violation("the child panicked: %s", text)
	case !excused && (code > 0 || text != ""):
		return violation("the child failed with code %d: %s", code, text)
	}
	return nil
}

// judge is that of the end of the child, which wait has waited for.
func (c *child) judge(excused bool) error {
	return judge(c.cmd.ProcessState.ExitCode(), strings.TrimSpace(c.stderr.String()), excused)
}

// child is a process that carries out a task.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer // the child ends in order when it is closed
	stderr bytes.Buffer
	begun  chan struct{} // closed when it has said something
	done   chan struct{} // closed when it has ended

	mu     sync.Mutex
	deaf   bool              // what it says is passed over
	last   []int             // operation of each lane that was acknowledged last
	feed   *consumer         // of what it has read from the feeds
	sample func(text []byte) // gets its samples
	wrong  error             // what it said and should not have
}

// startChild starts one. feed goes on with what the child reads from the feeds;
// sample, if not nil, gets its samples. wrapper are words before those of the
// command.
func startChild(ctx context.Context, t task, feed *consumer, sample func([]byte), wrapper ...string) (*child, error) {
	t.Feeds = feed.positions
	told, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	words := append(slices.Clone(wrapper), os.Args[0], string(told))
	c := &child{cmd: exec.CommandContext(ctx, words[0], words[1:]...), last: slices.Clone(t.At), feed: feed, sample: sample,
		begun: make(chan struct{}), done: make(chan struct{})}
	c.cmd.Stderr = &c.stderr
	ownGroup(c.cmd)
	c.cmd.Cancel = func() error {
		killGroup(c.cmd)
		return nil
	}
	c.cmd.Env = append(os.Environ(), victimEnv+"=1")
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.listen(bufio.NewReader(out))
	return c, nil
}

// listen takes what the child says, to its end.
func (c *child) listen(r *bufio.Reader) {
	defer close(c.done)
	for said := false; ; said = true {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return // a line cut off was never said
		}
		if !said {
			close(c.begun)
		}
		c.mu.Lock()
		if !c.deaf && c.wrong == nil {
			c.wrong = c.take(line)
		}
		c.mu.Unlock()
	}
}

func (c *child) take(line []byte) error {
	word, rest, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	switch string(word) {
	case "open":
		return nil
	case "sample":
		c.sample(rest)
		return nil
	case "feed":
		var p piece
		if err := json.Unmarshal(rest, &p); err != nil {
			return err
		}
		return c.feed.take(p)
	}
	var number, op int
	if _, err := fmt.Sscan(string(line), &number, &op); err != nil || number < 0 || number >= len(c.last) {
		return fmt.Errorf("the child says %q", line)
	}
	c.last[number] = max(c.last[number], op)
	return nil
}

// deafen has everything passed over that the child says from now on.
func (c *child) deafen() {
	c.mu.Lock()
	c.deaf = true
	c.mu.Unlock()
}

// kill ends the child, unless it has ended, and waits for it. It returns how it
// ended and what it said that was wrong.
func (c *child) kill() (ended, wrong error) {
	killGroup(c.cmd)
	return c.wait()
}

// wait waits for the end of the child.
func (c *child) wait() (ended, wrong error) {
	<-c.done
	ended = c.cmd.Wait()
	if text := strings.TrimSpace(c.stderr.String()); text != "" {
		ended = errors.Join(ended, errors.New(text))
	}
	_ = c.stdin.Close()
	return ended, c.wrong
}
