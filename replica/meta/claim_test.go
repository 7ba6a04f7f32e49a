package meta

import (
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/topology"
)

// TestClaim: of groups that ask for one id at once, one has it, for good. It may ask again; the others are refused, as all are for a
// group that is there, until the container is dropped.
func TestClaim(t *testing.T) {
	s := open(t)
	answers := make(chan error, 4)
	for left := range topology.GroupID(cap(answers)) {
		go func() { answers <- errors.Join(s.Claim(t.Context(), 10+left, 7), s.Claim(t.Context(), 10+left, 7)) }()
	}
	claimed := 0
	for range cap(answers) {
		if err := <-answers; err == nil {
			claimed++
		} else if !errors.Is(err, engine.ErrExists) {
			t.Error(err)
		}
	}
	if claimed != 1 {
		t.Errorf("%d groups have the id", claimed)
	}
	if err := s.Publish(t.Context(), topology.New(8, "c", all, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Claim(t.Context(), 9, 8); !errors.Is(err, engine.ErrExists) {
		t.Errorf("a group that is there: %v", err)
	}
	if err := s.Claim(t.Context(), 1<<32|1, 1<<32|9); err != nil {
		t.Error(err)
	}
	must[Dropped](t)(s.DropContainer(t.Context(), "c", 0, 1))
	if err := s.Claim(t.Context(), 1<<32|1, 1<<32|9); !errors.Is(err, engine.ErrNoContainer) {
		t.Errorf("of a container that was dropped: %v", err)
	}
	if left := must[*clientv3.GetResponse](t)(client.Get(t.Context(), s.under("claims"), clientv3.WithPrefix())); left.Count != 1 {
		t.Errorf("%d claims, and one of a container that is there", left.Count)
	}
}
