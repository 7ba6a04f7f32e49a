//go:build race

package lockorder

import (
	"strings"
	"testing"
)

type first struct{}

func (first) Order() Order { return Order{Name: "first", Rank: 1, Many: true} }

type second struct{}

func (second) Order() Order { return Order{Name: "second", Rank: 2, NoIO: true, But: "log/"} }

// panics returns what fn panics with, empty if it does not.
func panics(fn func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = r.(string)
		}
	}()
	fn()
	return ""
}

// TestOrder takes locks in order and out of order.
func TestOrder(t *testing.T) {
	var a, b Mutex[first]
	var c, d Mutex[second]
	a.Lock()
	b.Lock() // of one kind, which may be
	c.Lock()
	for what, fn := range map[string]func(){
		"second (rank 2) is taken under second (rank 2)": d.Lock,
		"sync of data/x under second":                    func() { IO("sync", "data/x") },
		"sync of log/x under second":                     func() { IO("sync", "log/x") },
	} {
		if text := panics(fn); !strings.Contains(text, what) {
			t.Errorf("%q, want %q", text, what)
		}
	}
	IO("write", "log/x")
	if !d.TryLock() {
		t.Error("it is free")
	}
	d.Unlock()
	a.Unlock()
	if text := panics(a.Lock); !strings.Contains(text, "first (rank 1) is taken under") {
		t.Errorf("a reversal: %q", text)
	}
	left := make(chan bool)
	go func() { // other goroutines hold nothing of this
		a.Lock()
		a.Unlock()
		c.Unlock() // which this one has locked
		close(left)
	}()
	<-left
	b.Unlock()
	IO("sync", "data/x")
	a.Lock()
	a.Unlock()
}
