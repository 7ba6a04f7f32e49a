package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// trial is a store of three processes, in a directory of its own.
type trial struct {
	system *system
	plan   *plan
	procs  [nodes]*process
}

// process is one that runs or has ended.
type process struct {
	cmd  *exec.Cmd
	log  bytes.Buffer  // what it has said, read after its end
	done chan struct{} // closed when it has ended
}

// start makes a store and starts its processes.
func start(ctx context.Context, s *system, dir string) (*trial, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	addresses, err := freeAddresses(2 * nodes)
	if err != nil {
		return nil, err
	}
	t := &trial{system: s, plan: &plan{System: s.name, Dir: dir, Peers: [nodes]string(addresses[:nodes]), Addresses: [nodes]string(addresses[nodes:])}}
	b, err := json.Marshal(t.plan)
	if err != nil {
		return nil, err
	}
	if err = os.WriteFile(t.file(), b, 0o600); err != nil {
		return nil, err
	}
	if s.setup != nil {
		if err = s.setup(t.plan); err != nil {
			return nil, err
		}
	}
	if err = t.startAll(ctx); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *trial) file() string { return filepath.Join(t.plan.Dir, "plan.json") }

// startAll starts all processes.
func (t *trial) startAll(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for i := range t.procs {
		p := &process{cmd: exec.CommandContext(ctx, self, "node", t.file(), strconv.Itoa(i)), done: make(chan struct{})}
		p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = &p.log, &p.log, tied()
		if err := p.cmd.Start(); err != nil {
			return err
		}
		go func() {
			_ = p.cmd.Wait() // how it ended is in its state
			close(p.done)
		}()
		t.procs[i] = p
	}
	return nil
}

// killAll kills all processes with SIGKILL and waits for their end.
func (t *trial) killAll() error {
	var errs []error
	for _, p := range t.procs {
		errs = append(errs, p.cmd.Process.Kill())
	}
	for _, p := range t.procs {
		<-p.done
	}
	return errors.Join(errs...)
}

// running returns an error if a process has ended by itself.
func (t *trial) running() error {
	for i, p := range t.procs {
		select {
		case <-p.done:
			return fmt.Errorf("process %d has ended: %v: %s", i, p.cmd.ProcessState, &p.log)
		default:
		}
	}
	return nil
}

// close ends the processes and returns an error if one has ended before.
func (t *trial) close() error {
	for i, p := range t.procs {
		if p == nil {
			return fmt.Errorf("process %d was not started", i)
		}
	}
	err := t.running()
	for _, p := range t.procs {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	late := time.After(10 * time.Second)
	for _, p := range t.procs {
		select {
		case <-p.done:
		case <-late:
			for _, o := range t.procs {
				_ = o.cmd.Process.Kill()
			}
			<-p.done
		}
	}
	return err
}

// processor returns what all three processes have used of processors, user and system time.
func (t *trial) processor() (sum time.Duration, err error) {
	for _, p := range t.procs {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			return 0, err
		}
		// The name of the program, in parentheses, may have anything in it.
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) < 13 {
			return 0, fmt.Errorf("/proc/%d/stat has %d fields", p.cmd.Process.Pid, len(fields))
		}
		for _, f := range fields[11:13] {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * (time.Second / 100)
		}
	}
	return sum, nil
}

// freeAddresses returns addresses of this machine at which nobody listens.
func freeAddresses(n int) (out []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // when all have been found
		out = append(out, l.Addr().String())
	}
	return out, nil
}
