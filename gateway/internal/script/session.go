package script

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cleavestore/cleave/internal/sql/value"
)

// Limits bound what a session may take.
type Limits struct {
	Time   time.Duration
	Memory int64 // bytes
}

// DefaultLimits are those of the service, and what a small machine can bear.
var DefaultLimits = Limits{Time: 5 * time.Second, Memory: 160 << 20}

// Pool bounds the number of children at a time. It is safe for concurrent use.
type Pool struct {
	places chan struct{}
	limits Limits
}

// NewPool returns a pool of n places.
func NewPool(n int, l Limits) *Pool {
	return &Pool{places: make(chan struct{}, n), limits: l}
}

// Why a script was ended.
var (
	ErrTime   = errors.New("the script takes more time than it may have")
	ErrMemory = errors.New("the script takes more memory than it may have")
	ErrDied   = errors.New("the script has ended its process: it needs more stack or memory than there is")
)

// Session is a child process under way. It serves one goroutine at a time, and must be
// ended.
type Session struct {
	pool *Pool
	ctx  context.Context
	cmd  *exec.Cmd
	wire wire
	in   interface{ Close() error }
	stop func() bool
	left time.Duration // of Limits.Time
	// within is ctx with the end of the script's time, while an exchange is under way.
	within context.Context
	// inside says that Run carries out an operation: the child waits for its answer.
	inside bool
	ended  bool

	mu   sync.Mutex
	over bool // the child has ended, or was killed
}

// childName is the name of a process that is a child.
const childName = "cleave-script"

// Begin starts a child. It waits for a place. ctx ends the session.
func (p *Pool) Begin(ctx context.Context) (*Session, error) {
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s := &Session{pool: p, ctx: ctx, within: ctx, left: p.limits.Time}
	if err := s.start(); err != nil {
		<-p.places
		return nil, fmt.Errorf("the process of a script: %w", err)
	}
	s.stop = context.AfterFunc(ctx, s.kill)
	return s, nil
}

// start starts the process.
func (s *Session) start() error {
	program := "/proc/self/exe" // good also if the file was replaced
	if runtime.GOOS != "linux" {
		var err error
		if program, err = os.Executable(); err != nil {
			return err
		}
	}
	limits, _ := json.Marshal(s.pool.limits)
	// The root is there in every image, and keeps no other file system busy.
	s.cmd = &exec.Cmd{Path: program, Args: []string{childName, string(limits)}, Env: []string{"GOMAXPROCS=1"}, Dir: string(os.PathSeparator)}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.in, s.wire = in, wire{bufio.NewReaderSize(out, 64<<10), in}
	return nil
}

func (s *Session) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		_ = s.cmd.Process.Kill() // it may have ended
	}
}

// End ends the session and its child, and gives its place back. To end it again does nothing.
func (s *Session) End() {
	if s.ended {
		return
	}
	s.ended = true
	s.stop()
	s.kill()
	_ = s.in.Close()
	s.wait()
	<-s.pool.places
}

// wait waits for the end of the child and returns its exit code.
func (s *Session) wait() int {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if !over {
		_ = s.cmd.Wait() // the code tells
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
	}
	return s.cmd.ProcessState.ExitCode()
}

// ask sends a message and returns what the child says next.
func (s *Session) ask(message *toChild) (*toParent, error) {
	if err := s.wire.send(message); err != nil {
		return nil, s.why(err)
	}
	var m toParent
	if err := s.wire.receive(&m); err != nil {
		return nil, s.why(err)
	}
	if m.Failure != nil {
		return nil, m.Failure
	}
	return &m, nil
}

// exchange sends a message and carries out operations until there is a result. The time of the
// script ends the child, and by its context an operation.
func (s *Session) exchange(message *toChild, do func(context.Context, *Operation) (*Answer, error)) (out *toParent, err error) {
	if err = s.ctx.Err(); err != nil {
		return nil, err
	}
	if s.inside { // the time of Run is that of the functions which its operations call
		return s.ask(message)
	}
	begun := time.Now()
	within, cancel := context.WithTimeoutCause(s.ctx, s.left, ErrTime)
	s.within = within
	stop := context.AfterFunc(within, s.kill)
	defer func() {
		stop()
		cancel()
		s.left -= time.Since(begun)
	}()
	for {
		m, err := s.ask(message)
		switch {
		case err != nil:
			return nil, err
		case m.Operation == nil:
			return m, nil
		case do == nil:
			return nil, ErrDied
		}
		s.inside = true
		answer, err := do(within, m.Operation)
		s.inside = false
		switch {
		case within.Err() != nil: // whatever the operation has made of it
			return nil, s.why(within.Err())
		case err != nil:
			return nil, err
		}
		message = &toChild{Answer: answer}
	}
}

// exitMemory is the code of a child that took too much memory.
const exitMemory = 77

// why says why the child does not answer. It is of no use any more.
func (s *Session) why(err error) error {
	s.kill()
	code := s.wait()
	switch {
	case context.Cause(s.within) == ErrTime:
		return fmt.Errorf("%w: %v", ErrTime, s.pool.limits.Time)
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case code == exitMemory:
		return fmt.Errorf("%w: %d MiB", ErrMemory, s.pool.limits.Memory>>20)
	}
	return fmt.Errorf("%w (%v)", ErrDied, err)
}

// Run runs a script. do carries out an operation, and may use Define and Call for it; if it returns an error, the script is not
// told: it is ended, and Run returns that error. The context of do ends with the time of the script, and the error is then
// ErrTime whatever do returns. What a script throws is a *Failure.
func (s *Session) Run(j *Job, do func(context.Context, *Operation) (*Answer, error)) (*Result, error) {
	if j.AcceptMillis == 0 {
		j.AcceptMillis = int((s.left * 4 / 5).Milliseconds())
	}
	m, err := s.exchange(&toChild{Job: j}, do)
	if err != nil {
		return nil, err
	}
	if m.Result == nil {
		return nil, ErrDied
	}
	return m.Result, nil
}

// Define makes functions known, sources by name, to the calls that follow.
func (s *Session) Define(functions map[string]string) error {
	_, err := s.exchange(&toChild{Functions: functions}, nil)
	return err
}

// Call calls a function that was defined.
func (s *Session) Call(name string, args []value.Value) (value.Value, error) {
	c := &call{Name: name}
	for i, v := range args {
		if !v.Defined() {
			c.Args, c.Undefined = append(c.Args, json.RawMessage("null")), append(c.Undefined, i)
			continue
		}
		c.Args = append(c.Args, v.Append(nil))
	}
	m, err := s.exchange(&toChild{Call: c}, nil)
	if err != nil || m.Value == nil {
		return value.Value{}, err
	}
	if !utf8.Valid(m.Value) {
		return value.Value{}, errors.New("the result of the function is not valid UTF-8")
	}
	return value.Parse(m.Value), nil
}
