package client

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// TestToken: a token says what the session has, never takes it back, and is refused as a whole
// if part of it is wrong.
func TestToken(t *testing.T) {
	s := NewSession()
	if s.Token() != "" {
		t.Error(s.Token())
	}
	s.note(4294967298, 7)
	s.note(4294967297, 100)
	s.note(4294967298, 5)
	const want = "4294967297:-1#100,4294967298:-1#7"
	if got := s.Token(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	o := NewSession()
	for _, token := range []string{want, "", "4294967298:-1#3", want} {
		if err := o.Join(token); err != nil || token != "" && o.Token() != want {
			t.Errorf("after %q: %s, %v", token, o.Token(), err)
		}
	}
	for _, token := range []string{",", "1", "1:-1", "1:-1#", "0:-1#5", "1:-1#-5", "1:-1#18446744073709551616", "9:-1#9,x", "1:0#5", "9:-1#9,"} {
		if err := o.Join(token); !errors.Is(err, engine.ErrInvalid) || o.Token() != want {
			t.Errorf("%q: %s, %v", token, o.Token(), err)
		}
	}
}

// TestAhead: a session is ahead of a group whose newest entry, as a quorum has confirmed it, is not that which the session has seen.
func TestAhead(t *testing.T) {
	s := NewSession()
	if err := s.Join("1:-1#7,2:-1#3"); err != nil {
		t.Fatal(err)
	}
	v := View{Session: s, Also: NewSession()}
	v.saw(7, 1, 7)
	v.saw(3, 2, 9)
	v.saw(0, 3, 1)
	v.saw(0, 1, 5)
	v.saw(3, 2, 8) // was under way while another call brought the session to 9
	if group, newest := s.Ahead(); group != 0 || newest != 0 {
		t.Errorf("ahead of group %d with entry %d", group, newest)
	}
	v.saw(9, 2, 8)
	if group, newest := s.Ahead(); group != 2 || newest != 8 || s.Token() != "1:-1#7,2:-1#9,3:-1#1" {
		t.Errorf("ahead of group %d with entry %d, and has %s", group, newest, s.Token())
	}
}

// TestStranger: a group from a token is a stranger until the client knows it.
func TestStranger(t *testing.T) {
	s := NewSession()
	s.note(1, 5)
	if err := s.Join("1:-1#7,2:-1#3"); err != nil {
		t.Fatal(err)
	}
	knows := map[uint64]bool{1: true}
	known := func(id uint64) bool { return knows[id] }
	if !s.stranger(known) {
		t.Error("group 2 is known")
	}
	knows[2] = true
	if s.stranger(known) {
		t.Error("group 2 is not known")
	}
	if s.of(1) != 7 || s.of(2) != 3 || s.of(3) != 0 {
		t.Error(s.Token())
	}
}
