package placement

import (
	"testing"
	"time"

	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/topology"
)

// TestSplitRefused: a group that cannot be split is left alone for a while, unless it changes, and does not keep the nodes from holding
// equally many replicas.
func TestSplitRefused(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := New(Policy{Even: true})
	for id := topology.NodeID(1); id <= 4; id++ {
		p.Node(Node{ID: id, Bytes: 1 << 40, Live: true, Since: now})
	}
	large := Report{Leader: 1, Bytes: 1 << 20, LeaderLoad: 20_000}
	var first *topology.Group
	for i, r := range partmap.Ranges(9) {
		g := topology.New(topology.GroupID(i+1), "c", r, 1, 2, 3)
		rep := Report{Leader: topology.NodeID(i%3 + 1), Bytes: 1 << 20}
		if i == 0 {
			first, rep = g, large
		}
		p.Group(g, rep)
	}
	var kept []Step
	second := func() map[Kind]int {
		now = now.Add(time.Second)
		p.Keep(kept)
		kept = nil
		count := make(map[Kind]int)
		for _, s := range p.Plan(now) {
			count[s.Kind]++
			if s.Kind == Split {
				kept = append(kept, s) // its leader tries
			}
		}
		return count
	}
	if n := second(); n[Split] != 1 || n[Add] != 1 {
		t.Fatalf("at first: %v", n)
	}
	if n := second(); n[Split] != 0 || n[Add] != 1 {
		t.Errorf("while a split is under way: %v", n)
	}
	splits, adds := 0, 0
	for end := now.Add(2*splitAgain - 10*time.Second); now.Before(end); {
		n := second()
		splits += n[Split]
		adds += n[Add]
	}
	if splits != 1 || adds == 0 {
		t.Errorf("after a split was refused: %d splits and %d copies", splits, adds)
	}
	changed, err := first.Remove(first.Replicas[2].ID)
	if err != nil {
		t.Fatal(err)
	}
	large.Want = 2
	p.Group(changed, large)
	if n := second(); n[Split] != 1 {
		t.Errorf("after the group has changed: %v", n)
	}
}

// TestTwoVoters: of one voter too many a live one does not go while another one is silent, if the rest would be no majority.
func TestTwoVoters(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := New(Policy{Voters: 2})
	for id := topology.NodeID(1); id <= 3; id++ {
		p.Node(Node{ID: id, Bytes: 1 << 40, Live: id != 3, Since: now})
	}
	p.Group(topology.New(1, "c", partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, 1, 2, 3), Report{Leader: 1, Bytes: 1 << 20})
	if steps := p.Plan(now.Add(time.Second)); len(steps) > 0 {
		t.Errorf("while node 3 is silent: %+v", steps)
	}
	if steps := p.Plan(now.Add(time.Minute)); len(steps) != 1 || steps[0].Kind != Remove || topology.NodeOf(steps[0].Replica) != 3 {
		t.Errorf("when it is lost: %+v", steps)
	}
}
