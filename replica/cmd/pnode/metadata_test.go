package main

import (
	"testing"
	"time"

	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/placement"
	"github.com/cleavestore/cleave/replica/topology"
)

// TestRoom: nodes whose disks are half full, and that have started again, can take the replicas of one that is lost.
func TestRoom(t *testing.T) {
	const disk, group = 1000 << 30, 50 << 30
	p := placement.New(placement.Policy{SplitBytes: 1 << 40})
	status := new(host.Status)
	for range 10 {
		status.Groups = append(status.Groups, host.GroupStatus{Bytes: group})
	}
	now := time.Now()
	for id := topology.NodeID(1); id <= 6; id++ {
		p.Node(placement.Node{ID: id, Bytes: roomOf(disk-10*group, status), Live: id != 3, Since: now.Add(-time.Hour)})
	}
	all := partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}
	for id := topology.GroupID(1); id <= 10; id++ {
		p.Group(topology.New(id, "items", all, 1, 2, 3), placement.Report{Leader: 1, Bytes: group})
		p.Group(topology.New(10+id, "other", all, 4, 5, 6), placement.Report{Leader: 4, Bytes: group})
	}
	steps := p.Plan(now)
	if len(steps) == 0 || steps[0].Kind != placement.Add || steps[0].Node < 4 {
		t.Errorf("%+v", steps)
	}
}
