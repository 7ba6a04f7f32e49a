package host

import (
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/topology"
)

// Status describes a node.
type Status struct {
	Node          uint64        `json:"node"`
	UptimeSeconds float64       `json:"uptime_seconds"`
	Leads         int           `json:"leads"`       // groups that it leads
	Leaderless    int           `json:"leaderless"`  // groups of which it knows no leader
	Stalled       bool          `json:"log_stalled"` // a sync of the Raft log takes long
	LogBytes      uint64        `json:"log_bytes"`   // of entries in all Raft logs
	Failure       string        `json:"failure,omitempty"`
	Peers         []PeerStatus  `json:"peers"`
	Groups        []GroupStatus `json:"groups"`
	Incarnation   uint64        `json:"incarnation,omitempty"` // of the cluster
	// Containers are those that were made, or changed, while the cluster ran.
	Containers []cluster.Container `json:"containers,omitempty"`
	// Dropped are the numbers of containers of which the node knows that they were dropped: it never
	// serves these again.
	Dropped []uint64 `json:"dropped,omitempty"`
}

// PeerStatus describes the connection with another node.
type PeerStatus struct {
	Node      uint64    `json:"node"`
	Address   string    `json:"address"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since"`             // of the present state
	Error     string    `json:"error,omitempty"`   // why there is no connection
	Dropped   uint64    `json:"dropped,omitempty"` // messages that found the queue full
}

// GroupStatus describes a replica.
type GroupStatus struct {
	ID        uint64   `json:"id"`
	Container string   `json:"container"`
	Min       string   `json:"min"` // effective partition keys, as those of a physical partition
	Max       string   `json:"max"`
	Replicas  []uint64 `json:"replicas"`           // nodes whose replicas vote; the first one is preferred as the leader
	Epoch     uint64   `json:"epoch"`              // entry of the newest change of the range or the members
	Incoming  uint64   `json:"incoming,omitempty"` // node that gets a replica
	Leads     bool     `json:"leads"`              // this node takes itself for the leader
	Readers   []uint64 `json:"readers,omitempty"`  // nodes whose replicas do not vote, and are read from
	Load      float64  `json:"load"`               // RU/s that this replica serves
	Behind    uint64   `json:"behind"`             // entries in the log that are not applied yet
	Silent    float64  `json:"silent_seconds"`     // since this replica has heard of a leader; of one that leads: 0
	// Confirmed is how long ago a quorum has last confirmed that this replica has everything: what it lacks was
	// acknowledged later. Nil: not since the node has started. Readers ask for it every two seconds, others when
	// a client does.
	Confirmed *float64 `json:"confirmed_seconds,omitempty"`
	Bytes     int64    `json:"bytes"`           // of the partition, in files and in memory
	Lacks     *uint64  `json:"lacks,omitempty"` // entries that it still lacks, as far as the leader knows
	Leader    uint64   `json:"leader"`          // node; 0: none is known
	Term      uint64   `json:"term"`
	Applied   uint64   `json:"applied"` // newest entry
	Replica   uint64   `json:"replica"` // id of this replica
	// LastTerm is the Raft term of the newest entry in the log, which Behind counts up to.
	LastTerm uint64 `json:"last_term"`
	// Newest is the time of the newest entry that was applied since the node has started; zero: none was.
	Newest   time.Time `json:"newest,omitzero"`
	LogBytes uint64    `json:"log_bytes"`
	Error    string    `json:"error,omitempty"` // why the replica has stopped; it is tried again
}

// CaughtUp reports whether the incoming replica has all but the newest entries, so that it may vote.
// While clients write it always lacks some.
func (g *GroupStatus) CaughtUp() bool {
	return g.Lacks != nil && *g.Lacks <= mostLacking
}

// Status describes the node as it is.
func (h *Host) Status() Status {
	s := Status{Node: h.cfg.Node, UptimeSeconds: time.Since(h.began).Seconds(), Stalled: h.sync.stalled(), LogBytes: h.logged(), Groups: []GroupStatus{}}
	if err := h.Failure(); err != nil {
		s.Failure = err.Error()
	}
	for _, p := range h.net.Peers() {
		out := PeerStatus{Node: p.Node, Address: p.Address, Connected: p.Connected, Since: p.Since, Dropped: p.Dropped}
		if p.Err != nil {
			out.Error = p.Err.Error()
		}
		s.Peers = append(s.Peers, out)
	}
	d := h.description()
	s.Incarnation = d.Incarnation
	s.Containers = d.Later()
	for _, o := range h.Dropped() {
		if !o.Pending {
			s.Dropped = append(s.Dropped, o.Number)
		}
	}
	sizes := h.sizes()
	for _, r := range h.replicas.all() {
		size := sizes[r.def.Container][engine.PartitionID(r.status.partition.Load())]
		applied := r.status.applied.Load()
		g := GroupStatus{
			ID: r.def.ID, Container: r.def.Container, Replicas: r.voters(), Leads: r.status.leading.Load(),
			Bytes: size.bytes, Load: size.load, Behind: r.status.known.Load() - min(r.status.known.Load(), applied),
			Leader: r.status.leader.Load(), Term: r.status.term.Load(), Applied: applied, LogBytes: r.status.logged.Load(), Replica: r.log.Replica(),
		}
		g.LastTerm, _ = r.log.Term(r.status.known.Load()) // 0 if the log has changed meanwhile
		if ms := r.status.time.Load(); ms != 0 {
			g.Newest = time.UnixMilli(ms).UTC()
		}
		if d := r.status.described.Load(); d != nil {
			g.Min, g.Max, g.Epoch = d.Range.Min.String(), d.Range.Max.String(), d.Epoch
			for _, o := range d.Replicas {
				if o.Role == topology.Learner {
					g.Readers = append(g.Readers, uint64(o.Node))
				}
			}
			if in, moving := d.Moving(); moving {
				g.Incoming = uint64(in.Node)
				if lacks := r.status.lacks.Load(); lacks > 0 {
					g.Lacks = new(lacks - 1)
				}
			}
		}
		if err := r.status.failed.Load(); err != nil {
			g.Error = (*err).Error()
		}
		if at := r.status.confirmed.Load(); at != nil {
			g.Confirmed = new(h.age(at).Seconds())
		}
		if !g.Leads {
			g.Silent = (time.Duration(r.status.silent.Load()) * h.cfg.Tick).Seconds()
		}
		if r.status.leading.Load() {
			s.Leads++
		}
		if g.Leader == 0 {
			s.Leaderless++
		}
		s.Groups = append(s.Groups, g)
	}
	return s
}

// size is what a partition has and serves.
type size struct {
	bytes int64
	load  float64 // RU/s
}

// sizes returns the sizes of the partitions of each container.
func (h *Host) sizes() map[string]map[engine.PartitionID]size {
	out := make(map[string]map[engine.PartitionID]size)
	d := h.description()
	for i := range d.Containers {
		c, err := h.db.Container(d.Containers[i].Name)
		if err != nil {
			continue // the store is closed
		}
		of := make(map[engine.PartitionID]size)
		for _, p := range c.Partitions() {
			of[p.ID] = size{p.FileBytes + p.MemtableBytes, p.Load}
		}
		out[c.Name()] = of
	}
	return out
}
