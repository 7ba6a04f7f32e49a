package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// programEnv makes the program of the tests be the example.
const programEnv = "CLEAVE_TEST_CONSOLE"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestTerminated: SIGTERM ends the program in order, and its store is removed.
func TestTerminated(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no process can be sent SIGTERM")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-addr", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), programEnv+"=1", "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	if err := errors.Join(err, cmd.Process.Signal(syscall.SIGTERM)); err != nil {
		t.Error(err)
	}
	err = cmd.Wait()
	if left, readErr := os.ReadDir(dir); err != nil || readErr != nil || len(left) != 0 {
		t.Errorf("%v, left %v, %v", err, left, readErr)
	}
}

// TestArguments: what is no flag is refused, since the flags behind it would not count.
func TestArguments(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, []string{"store", "-addr", "127.0.0.1:0"}, io.Discard); err == nil || !strings.Contains(err.Error(), `"store": flags only`) {
		t.Error(err)
	}
}

// TestRun runs the program until its page shows a split.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"-addr", "127.0.0.1:0", "-split-bytes", "65536"}, w)
		w.CloseWithError(io.EOF)
		ended <- err
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err, <-ended)
	}
	url := regexp.MustCompile(`http://[0-9.:]+`).FindString(line)
	for {
		var v struct {
			History []struct {
				Kind string `json:"kind"`
			} `json:"history"`
		}
		answer, err := http.Get(url + "/api/container?name=orders")
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(answer.Body).Decode(&v)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status, err)
		}
		if len(v.History) > 0 && v.History[0].Kind == "split" {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
