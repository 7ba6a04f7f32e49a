package cleavetest

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/testenv"
)

const (
	// patience is how long the end of the test waits for what is about to end.
	patience = 2 * time.Second
	// closing is how long it waits for stores to close.
	closing = 10 * time.Second
)

// aStore is the kind of a thing that is a store.
const aStore = "store"

// thing is something that is open.
type thing struct {
	number int // things are numbered as they are opened
	store  testenv.Store
	what   string
	place  string // where the program opened it
}

// add notes a thing. The function that it returns notes that it has ended.
func (s *Store) add(th *thing) (ended func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	th.number = s.opened
	if th.store.On() == s.life { // else it is dead already
		s.things[th] = true
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.things, th)
		close(s.ended)
		s.ended = make(chan struct{})
	}
}

func (s *Store) storeOpened(store testenv.Store) (closed func()) {
	return s.add(&thing{store: store, what: aStore, place: caller()})
}

// watch notes what the program opens. What the store opens by itself has no caller
// outside of it.
func (s *Store) watch(store testenv.Store, what string) (begin func() (end func())) {
	place := caller()
	if place == "" {
		return nil
	}
	return func() (end func()) { return s.add(&thing{store: store, what: what, place: place}) }
}

// ours are the packages of which no place is named: the first caller of them is.
var ours = []string{
	"github.com/cleavestore/cleave/engine.", "github.com/cleavestore/cleave/internal/", "github.com/cleavestore/cleave/cleavetest.",
	"iter.", "slices.", "maps.", "runtime.", "sync.", "context.", "testing.",
}

// caller returns the place of the first caller outside of Cleave, "" if there is none.
func caller() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if f.Function != "" && !slices.ContainsFunc(ours, func(prefix string) bool { return strings.HasPrefix(f.Function, prefix) }) {
			file := f.File
			if wd, err := os.Getwd(); err == nil {
				if rel, err := filepath.Rel(wd, file); err == nil && filepath.IsLocal(rel) {
					file = rel
				}
			}
			return fmt.Sprintf("%s:%d (%s)", file, f.Line, f.Function[strings.LastIndexByte(f.Function, '/')+1:])
		}
		if !more {
			return ""
		}
	}
}

// end checks the store at the end of the test, and closes it.
func (s *Store) end() {
	s.t.Helper()
	missed, broken := s.faults.clear()
	s.FreeDisk()
	var faults []string
	for _, f := range missed {
		faults = append(faults, "no call has met the fault: "+f.String())
	}
	for _, th := range s.left() {
		faults = append(faults, fmt.Sprintf("%s was not closed or ended, opened at %s", th.what, th.place))
	}
	s.mu.Lock()
	db := s.db
	s.mu.Unlock()
	for _, st := range s.stores() {
		if n := st.ListenerPanics(); n > 0 {
			faults = append(faults, fmt.Sprintf("functions of an EventListener panicked %d times: Options.Logger has the values", n))
		}
		s.dying.Go(func() {
			// A store that has met a fault may have nothing left to close in order.
			if err := st.Close(); err != nil && st.Public() == db && !broken && !s.Crashed() {
				s.t.Errorf("cleavetest: close the store: %v", err)
			}
		})
	}
	if stuck := s.await(); stuck != "" {
		faults = append(faults, stuck)
	}
	if len(faults) == 0 {
		return
	}
	report := s.t.Errorf
	if s.may || s.t.Failed() {
		report = s.t.Logf // a test that has ended early has closed nothing
	}
	report("cleavetest: at the end of the test\n\t%s", strings.Join(faults, "\n\t"))
}

// left returns what is open, but for the store that DB has opened, after it has waited
// for what is about to end.
func (s *Store) left() []*thing {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for over := false; ; {
		s.mu.Lock()
		var left []*thing
		for th := range s.things {
			if th.what != aStore || th.store.Public() != any(s.db) {
				left = append(left, th)
			}
		}
		ended := s.ended
		s.mu.Unlock()
		if over || len(left) == 0 {
			slices.SortFunc(left, func(a, b *thing) int { return cmp.Compare(a.number, b.number) })
			return left
		}
		select {
		case <-ended:
		case <-timer.C:
			over = true
		}
	}
}

// await waits until all stores are closed. Else it says which calls keep them.
func (s *Store) await() string {
	done := make(chan struct{})
	go func() {
		s.dying.Wait()
		close(done)
	}()
	timer := time.NewTimer(closing)
	defer timer.Stop()
	select {
	case <-done:
		return ""
	case <-timer.C:
	}
	var calls strings.Builder
	for stack := range strings.SplitSeq(goroutines(), "\n\n") {
		if strings.Contains(stack, "cleave/engine.(") && !strings.Contains(stack, "cleave/engine.(*DB).Close(") && !strings.Contains(stack, "scheduler.(*Scheduler)") {
			fmt.Fprintf(&calls, "\n\t\t%s", strings.ReplaceAll(strings.TrimSpace(stack), "\n", "\n\t\t"))
		}
	}
	return fmt.Sprintf("a store is not closed after %v, since calls on it do not return. These are in calls of a store:%s", closing, &calls)
}

// goroutines returns the stacks of all goroutines.
func goroutines() string {
	for buf := make([]byte, 1<<20); ; buf = make([]byte, 2*len(buf)) {
		if n := runtime.Stack(buf, true); n < len(buf) {
			return string(buf[:n])
		}
	}
}
