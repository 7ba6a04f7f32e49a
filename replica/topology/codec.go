package topology

import (
	"encoding/binary"
	"fmt"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
)

// version is the newest version of the format of a group.
const version = 1

// Append appends the encoded group to dst.
func (g *Group) Append(dst []byte) []byte {
	dst = append(dst, version)
	dst = binary.AppendUvarint(dst, uint64(g.ID))
	dst = binary.AppendUvarint(dst, g.Epoch)
	dst = binary.AppendUvarint(dst, g.NextReplica)
	for _, p := range [][]byte{[]byte(g.Container), g.Range.Min.Bytes(), g.Range.Max.Bytes()} {
		dst = binary.AppendUvarint(dst, uint64(len(p)))
		dst = append(dst, p...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(g.Replicas)))
	for _, r := range g.Replicas {
		dst = binary.AppendUvarint(dst, r.ID)
		dst = binary.AppendUvarint(dst, uint64(r.Node))
		dst = append(dst, byte(r.Role))
	}
	return dst
}

// Decode decodes a group. It keeps no reference to p. Errors: engine.ErrTooNew if a newer
// program has encoded it, engine.ErrCorrupt if the bytes are no group.
func Decode(p []byte) (*Group, error) {
	if len(p) > 0 && p[0] > version {
		return nil, fmt.Errorf("descriptor of a group in version %d, this program knows %d: %w", p[0], version, engine.ErrTooNew)
	}
	if len(p) == 0 || p[0] == 0 {
		return nil, fmt.Errorf("descriptor of a group has no version: %w", engine.ErrCorrupt)
	}
	d := decoder{p: p, at: 1}
	g := &Group{ID: GroupID(d.integer()), Epoch: d.integer(), NextReplica: d.integer(), Container: string(d.bytes())}
	g.Range.Min, g.Range.Max = d.epk(), d.epk()
	n := d.integer()
	if n > uint64(len(p)-d.at)/3 {
		d.bad = true
	}
	seen := make(map[NodeID]bool)
	for last := uint64(0); n > 0 && !d.bad; n-- {
		r := Replica{ID: d.integer(), Node: NodeID(d.integer()), Role: Role(d.byte())}
		d.bad = d.bad || r.ID <= last || r.ID >= g.NextReplica || r.Node == 0 || seen[r.Node] || r.Role < Voter || r.Role > Learner
		last, seen[r.Node] = r.ID, true
		g.Replicas = append(g.Replicas, r)
	}
	if d.bad || d.at != len(p) || g.ID == 0 || g.Epoch == 0 || g.Container == "" || g.Range.Empty() || g.Voters() == 0 {
		return nil, fmt.Errorf("descriptor of a group, byte %d of %d: %w", d.at, len(p), engine.ErrCorrupt)
	}
	return g, nil
}

// decoder reads the fields of a descriptor; after the first bad one all are zero.
type decoder struct {
	p   []byte
	at  int
	bad bool
}

func (d *decoder) integer() uint64 {
	v, n := binary.Uvarint(d.p[d.at:])
	if n <= 0 || d.bad {
		d.bad = true
		return 0
	}
	d.at += n
	return v
}

func (d *decoder) byte() byte {
	if d.bad || d.at == len(d.p) {
		d.bad = true
		return 0
	}
	d.at++
	return d.p[d.at-1]
}

func (d *decoder) bytes() []byte {
	n := d.integer()
	if d.bad || n > uint64(len(d.p)-d.at) {
		d.bad = true
		return nil
	}
	d.at += int(n)
	return d.p[d.at-int(n) : d.at]
}

func (d *decoder) epk() partmap.EPK {
	e, err := partmap.EPKFromBytes(d.bytes())
	d.bad = d.bad || err != nil
	return e
}
