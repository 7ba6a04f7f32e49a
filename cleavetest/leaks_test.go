package cleavetest_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

// child is set in the environment of a test binary that plays a program with a fault.
const child = "CLEAVETEST_CHILD"

// here is how reports name this file: by its import path in a program that was built with -trimpath.
var here = func() string {
	_, file, _, _ := runtime.Caller(0)
	if filepath.IsAbs(file) {
		file = filepath.Base(file)
	}
	return file + ":"
}()

// leaks are tests that must fail, and what their output must say.
var leaks = []struct {
	name string
	test func(*testing.T, *cleavetest.Store)
	want []string
}{
	{"snapshot", func(t *testing.T, s *cleavetest.Store) {
		if _, err := s.Container("c", "/k").Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}, []string{`snapshot of container "c" was not closed or ended, opened at ` + here, "cleavetest_test.init.func"}},
	{"scan", func(t *testing.T, s *cleavetest.Store) {
		c := s.Container("c", "/k")
		put(t, c, "x")
		next, _ := iter.Pull2(c.Scan(context.Background(), key, engine.IDRange{}, nil))
		if _, err, ok := next(); err != nil || !ok {
			t.Fatal(err, ok)
		}
	}, []string{`scan of container "c"`, "leaks_test.go:"}},
	{"query", func(t *testing.T, s *cleavetest.Store) {
		c := s.Container("c", "/k")
		put(t, c, "x")
		next, _ := iter.Pull2(c.Query(context.Background(), engine.AllPartitions(), engine.Query{}).All())
		if _, err, ok := next(); err != nil || !ok {
			t.Fatal(err, ok)
		}
	}, []string{`query of container "c"`, "leaks_test.go:"}},
	{"feed", func(t *testing.T, s *cleavetest.Store) {
		c := s.Container("c", "/k")
		put(t, c, "x")
		seen := make(chan bool, 1) // the change may come before this goroutine waits for it
		go func() {
			for range c.Changes(context.Background(), engine.AllPartitions(), engine.FromStart(), &engine.ChangeOptions{Follow: true}) {
				select {
				case seen <- true:
				default:
				}
			}
		}()
		<-seen
	}, []string{`change feed of container "c"`, "leaks_test.go:"}},
	{"copy", func(t *testing.T, s *cleavetest.Store) {
		job, err := s.Container("c", "/k").CopyTo(t.Context(), "d", engine.ContainerDef{PartitionKey: []string{"/other"}})
		if err == nil {
			err = job.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}, []string{`copy of container "c"`, "leaks_test.go:"}},
	{"store", func(t *testing.T, s *cleavetest.Store) {
		if _, err := engine.Open(t.Context(), s.Dir(), s.Options()); err != nil {
			t.Fatal(err)
		}
	}, []string{"store was not closed or ended, opened at " + here}},
	{"fault", func(_ *testing.T, s *cleavetest.Store) {
		s.DB()
		s.Fail(cleavetest.Rename, nil, cleavetest.Nth(1000))
	}, []string{"no call has met the fault: rename 1000 from now fails with"}},
	{"panic", func(t *testing.T, _ *cleavetest.Store) {
		told := make(chan bool)
		s := cleavetest.New(t, cleavetest.WithOptions(engine.Options{Events: &engine.EventListener{Flushed: func(engine.FlushEvent) {
			defer close(told)
			panic("in a listener")
		}}}))
		put(t, s.Container("c", "/k"), "x")
		if err := s.DB().Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-told
		for s.DB().Stats().ListenerPanics == 0 {
		}
	}, []string{"functions of an EventListener panicked 1 times"}},
}

// TestLeaks runs each of the tests that must fail in a child process, as it is and in a
// bubble.
func TestLeaks(t *testing.T) {
	for _, leak := range leaks {
		t.Run(leak.name, func(t *testing.T) {
			if os.Getenv(child) != "" {
				leak.test(t, cleavetest.New(t))
				return
			}
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestLeaks$/^"+leak.name+"$")
			cmd.Env = append(os.Environ(), child+"=1")
			out, err := cmd.CombinedOutput()
			var failed *exec.ExitError
			if !errors.As(err, &failed) || !strings.Contains(string(out), "--- FAIL: TestLeaks/"+leak.name) {
				t.Fatalf("the child did not fail by its test: %v\n%s", err, out)
			}
			for _, want := range leak.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("the report does not say %q:\n%s", want, out)
				}
			}
		})
	}
}

// TestNoLeaks: what is closed, or ends with the context of the test, is no leak; nor is
// what died with its process.
func TestNoLeaks(t *testing.T) {
	for name, run := range map[string]func(*testing.T, func(*testing.T)){
		"outside":     func(t *testing.T, f func(*testing.T)) { f(t) },
		"in a bubble": func(t *testing.T, f func(*testing.T)) { synctest.Test(t, f) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T) {
				s := cleavetest.New(t)
				c := s.Container("c", "/k")
				put(t, c, "x")
				if _, err := c.Snapshot(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.Kill()
				c = s.Container("c", "/k")
				snapshot, err := c.Snapshot(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				next, stop := iter.Pull2(snapshot.ScanAll(t.Context(), nil))
				if _, err, ok := next(); err != nil || !ok {
					t.Fatal(err, ok)
				}
				stop()
				if err := snapshot.Close(); err != nil {
					t.Fatal(err)
				}
				go func() { // ends with the context of the test
					for range c.Changes(t.Context(), engine.AllPartitions(), engine.FromStart(), &engine.ChangeOptions{Follow: true}) {
					}
				}()
			})
		})
	}
}
