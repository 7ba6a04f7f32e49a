package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// task is what a child is told to do.
type task struct {
	Setting  string
	Dir      string
	Ballast  string // a file that goes when the disk is full; empty: none
	Seed     uint64
	Buffered bool
	At       []int         // operations of each lane that the store has
	Rate     float64       // operations a second, of all lanes; 0: as many as go
	Pause    time.Duration // between disturbances
	Sample   time.Duration // between samples of what the child uses; 0: none
}

// child is a process that carries out a task.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer // the child ends in order when it is closed
	out    *bufio.Reader
	stderr strings.Builder
	last   []int // operation of each lane that was acknowledged last
}

func startChild(ctx context.Context, t task) (*child, error) {
	told, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, os.Args[0], string(told)), last: append([]int(nil), t.At...)}
	c.cmd.Stderr = &c.stderr
	c.cmd.Env = append(os.Environ(), victimEnv+"=1")
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	return c, c.cmd.Start()
}

// listen returns the next line that is no acknowledgement, or io.EOF. Lines of
// acknowledgements are noted, of which it returns after limit of them with an
// empty line; 0: never.
func (c *child) listen(limit int) (string, error) {
	for n := 1; ; n++ {
		line, err := c.out.ReadString('\n')
		if err != nil {
			return "", io.EOF // a line cut off was never said
		}
		var number, op int
		if _, err := fmt.Sscan(line, &number, &op); err != nil {
			return line, nil
		}
		if number < 0 || number >= len(c.last) {
			return "", fmt.Errorf("the child says %q", line)
		}
		c.last[number] = max(c.last[number], op)
		if n == limit {
			return "", nil
		}
	}
}

// kill ends the child. What it says from here on is passed over.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, c.out)
	_ = c.cmd.Wait()
}

// wait waits for a child that has ended by itself.
func (c *child) wait() error {
	err := c.cmd.Wait()
	if text := strings.TrimSpace(c.stderr.String()); text != "" {
		err = errors.Join(err, errors.New(text))
	}
	return err
}
