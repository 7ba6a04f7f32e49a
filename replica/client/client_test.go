package client

import (
	"errors"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/command"
)

// TestPastTTL: a time to live that is over is refused before anything is sent, as a command
// has one value for all below zero, that of ever.
func TestPastTTL(t *testing.T) {
	for _, ttl := range []time.Duration{-2, -5 * time.Second} {
		_, err := new(Client).Batch(t.Context(), "c", engine.StringKey("a"), command.Operation{Kind: command.Upsert}, command.Operation{Kind: command.Upsert, TTL: ttl})
		if !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%v: %v", ttl, err)
		}
	}
}

// TestSilentLeader: a leader that has not answered is not asked again before another replica is, unless it is the only one.
func TestSilentLeader(t *testing.T) {
	for replicas, leader := range map[int]uint64{1: 1, 2: 2, 3: 2} {
		g := &groupState{Replicas: []uint64{1, 2, 3}[:replicas], progress: new(progress)}
		g.leader.Store(leader)
		x := try{c: new(Client), g: g}
		first, err := x.next(t.Context())
		if err != nil || first != leader {
			t.Fatalf("node %d, %v", first, err)
		}
		x.failed(first)
		if second, err := x.next(t.Context()); err != nil || second == leader && replicas > 1 {
			t.Errorf("of %d replicas node %d is asked, and again node %d: %v", replicas, first, second, err)
		}
	}
}
