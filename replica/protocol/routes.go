package protocol

import (
	"encoding/binary"
	"fmt"

	"github.com/cleavestore/cleave/replica/topology"
)

// What says which change of a group a client asks for.
type What byte

// The changes. Their numbers are part of the format.
const (
	Split     What = iota + 1 // at Text, empty: in the middle; the right half becomes group First
	Add                       // a replica on node First
	Promote                   // replica First in the place of replica Second; 0: of none
	Remove                    // replica First
	Introduce                 // node First has the address Text; of no group
	Drop                      // container Text, with all its groups: the one with number First; 0: whichever has the name; of no group
	Create                    // the container that Text describes, as JSON of cluster.Container; of no group
	Redefine                  // the container whose name Text has, as JSON of cluster.Container, gets the index policy there; of no group
	Retime                    // the same for the default time to live there
)

// Change asks the leader of a group for a change.
type Change struct {
	Group         uint64
	What          What
	First, Second uint64
	Text          string
}

// Append appends a request of kind Alter.
func (c *Change) Append(dst []byte, number uint64) []byte {
	dst = append(binary.AppendUvarint(binary.AppendUvarint(dst, number), c.Group), byte(c.What))
	return appendText(binary.AppendUvarint(binary.AppendUvarint(dst, c.First), c.Second), c.Text)
}

func (c *Change) decode(r *reader) {
	c.Group, c.What = r.uvarint(), What(r.byte())
	c.First, c.Second = r.uvarint(), r.uvarint()
	c.Text = string(r.bytes())
}

// AppendRoutes appends a request of kind Routes.
func AppendRoutes(dst []byte, number uint64) []byte { return binary.AppendUvarint(dst, number) }

// Peer is a node and its address.
type Peer struct {
	Node    uint64
	Address string
}

// AppendRoutes appends the answer to Routes: the nodes and groups that a node knows, and the numbers
// of containers that were dropped.
func (h *Head) AppendRoutes(dst []byte, peers []Peer, groups []*topology.Group, dropped []uint64) []byte {
	dst = binary.AppendUvarint(h.append(dst, 0), uint64(len(peers)))
	for _, p := range peers {
		dst = appendText(binary.AppendUvarint(dst, p.Node), p.Address)
	}
	dst = binary.AppendUvarint(dst, uint64(len(groups)))
	for _, g := range groups {
		dst = appendText(dst, string(g.Append(nil)))
	}
	dst = binary.AppendUvarint(dst, uint64(len(dropped)))
	for _, number := range dropped {
		dst = binary.AppendUvarint(dst, number)
	}
	return dst
}

// AppendNumber appends the answer to Alter.
func (h *Head) AppendNumber(dst []byte, n uint64) []byte {
	return binary.AppendUvarint(h.append(dst, 0), n)
}

// Routes decodes the answer to Routes.
func (p *Reply) Routes() (peers []Peer, groups []*topology.Group, dropped []uint64, err error) {
	r := reader{b: p.rest}
	for n := r.count(2); n > 0 && !r.bad; n-- {
		peers = append(peers, Peer{r.uvarint(), string(r.bytes())})
	}
	for n := r.count(2); n > 0 && !r.bad; n-- {
		g, err := topology.Decode(r.bytes())
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		groups = append(groups, g)
	}
	for n := r.count(1); n > 0 && !r.bad; n-- {
		dropped = append(dropped, r.uvarint())
	}
	if r.bad || len(r.b) > 0 {
		return nil, nil, nil, fmt.Errorf("%w: routes", ErrInvalid)
	}
	return peers, groups, dropped, nil
}

// ReplicaAdded decodes the answer to Alter.
func (p *Reply) ReplicaAdded() (uint64, error) {
	r := reader{b: p.rest}
	n := r.uvarint()
	if r.bad || len(r.b) > 0 {
		return 0, fmt.Errorf("%w: answer to a change", ErrInvalid)
	}
	return n, nil
}
