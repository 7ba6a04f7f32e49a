package placement

import (
	"testing"
	"time"

	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/topology"
)

// readers returns a planner with voters on the nodes 1 to 3, and two nodes of another region, and the group with learners on some nodes.
func readers(t *testing.T, now time.Time, regions []string, on ...topology.NodeID) (*Planner, *topology.Group) {
	t.Helper()
	p := New(Policy{Even: true})
	for id := topology.NodeID(1); id <= 5; id++ {
		n := Node{ID: id, Region: "eu", Bytes: 1 << 40, Live: true, Since: now}
		if id > 3 {
			n.Region = "us"
		}
		p.Node(n)
	}
	g := topology.New(1, "c", partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, 1, 2, 3)
	for _, id := range on {
		var err error
		if g, err = g.Add(id, topology.Learner); err != nil {
			t.Fatal(err)
		}
	}
	p.Group(g, Report{Leader: 1, Bytes: 1000, Readers: regions})
	return p, g
}

// TestReaderStays: while the node of a reader is silent within the grace its region gets no other one.
func TestReaderStays(t *testing.T) {
	now := time.Unix(1e9, 0)
	p, _ := readers(t, now, []string{"us"}, 4)
	p.Node(Node{ID: 4, Region: "us", Bytes: 1 << 40, Since: now})
	if steps := p.Plan(now.Add(time.Second)); len(steps) > 0 {
		t.Errorf("%+v", steps)
	}
}

// TestSpareReader: a learner goes whose region has another one or is to have none, the one on a node that drains first.
func TestSpareReader(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, c := range []struct {
		what    string
		regions []string
		on      []topology.NodeID
		silent  topology.NodeID
		drains  topology.NodeID
		want    topology.NodeID // whose replica goes; 0: none does
	}{
		{"as it is to be", []string{"us"}, []topology.NodeID{4}, 0, 0, 0},
		{"two in a region", []string{"us"}, []topology.NodeID{4, 5}, 0, 0, 5},
		{"two in a region, of which one drains", []string{"us"}, []topology.NodeID{4, 5}, 0, 4, 4},
		{"two in a region, of which one may come back or not", []string{"us"}, []topology.NodeID{4, 5}, 5, 0, 0},
		{"its region is to have none", []string{"asia"}, []topology.NodeID{4}, 0, 0, 4},
		{"no region is to have any", []string{}, []topology.NodeID{4}, 0, 0, 4},
		{"what regions are to have some is not known", nil, []topology.NodeID{4, 5}, 0, 0, 0},
	} {
		p, g := readers(t, now, c.regions, c.on...)
		for _, id := range []topology.NodeID{c.silent, c.drains} {
			if id != 0 {
				p.Node(Node{ID: id, Region: "us", Bytes: 1 << 40, Since: now, Live: id != c.silent, Draining: id == c.drains})
			}
		}
		gone, _ := g.On(c.want)
		steps := p.Plan(now.Add(time.Second))
		if c.want == 0 && len(steps) == 0 {
			continue
		}
		if len(steps) != 1 || steps[0].Kind != Remove || steps[0].Replica != gone.ID || gone.ID == 0 {
			t.Errorf("%s: %+v", c.what, steps)
		}
	}
}
