package group

import (
	"encoding/binary"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/raftlog"
)

// state is what the group keeps beside its partition. It is a function of the entries up to
// applied, so all replicas have the same at the same entry: it begins with the state of the
// log's base, and each entry is added to it, also one that the partition has had before a
// restart.
//
// In the base of a log and in snapshots it is encoded:
//
//	+---------+--------+---+----------------------+
//	| version | window | n | n × (index | id (16)) |    integers are uvarints, version is 1 byte
//	+---------+--------+---+----------------------+
type state struct {
	applied uint64
	window  uint64 // how many entries a command's id is remembered for
	// commands are those that were applied, in the order of the entries: as far back as a
	// truncation of the log to any entry behind its base may need them.
	commands []appliedCommand
	index    map[command.ID]uint64 // entry of each of them
	confs    []confAt              // the base's, and each later one
}

type appliedCommand struct {
	index uint64
	id    command.ID
}

type confAt struct {
	index uint64
	conf  *pb.ConfState
}

const stateVersion = 1

// newState encodes the state of a group that has had no command.
func newState(window uint64) []byte {
	return append(binary.AppendUvarint([]byte{stateVersion}, window), 0)
}

// load sets the state to that at a base.
func (s *state) load(b *raftlog.Base) error {
	*s = state{applied: b.Index, index: make(map[command.ID]uint64), confs: []confAt{{b.Index, proto.CloneOf(b.ConfState)}}}
	if b.Index == 0 {
		return nil // a replica that has got no snapshot yet
	}
	p := b.State
	if len(p) == 0 || p[0] > stateVersion {
		return fmt.Errorf("state of a group at entry %d: %w", b.Index, engine.ErrTooNew)
	}
	p = p[1:]
	field := func() uint64 {
		v, n := binary.Uvarint(p)
		if n <= 0 {
			p = nil
			return 0
		}
		p = p[n:]
		return v
	}
	s.window = field()
	n := field()
	if n > uint64(len(p)) {
		return fmt.Errorf("state of a group at entry %d: %d commands in %d bytes: %w", b.Index, n, len(p), engine.ErrCorrupt)
	}
	for ; n > 0; n-- {
		c := appliedCommand{index: field()}
		if len(p) < len(c.id) || c.index == 0 || c.index > b.Index {
			return fmt.Errorf("state of a group at entry %d: %w", b.Index, engine.ErrCorrupt)
		}
		p = p[copy(c.id[:], p):]
		s.commands = append(s.commands, c)
		s.index[c.id] = c.index
	}
	if s.window == 0 || len(p) > 0 {
		return fmt.Errorf("state of a group at entry %d: %w", b.Index, engine.ErrCorrupt)
	}
	return nil
}

// at returns the state at an entry that is not before the log's base and not behind applied.
func (s *state) at(index, term uint64) raftlog.Base {
	b := raftlog.Base{Index: index, Term: term}
	for _, c := range s.confs {
		if c.index <= index {
			b.ConfState = c.conf
		}
	}
	b.State = binary.AppendUvarint([]byte{stateVersion}, s.window)
	first, last := len(s.commands), len(s.commands)
	for first > 0 && s.commands[first-1].index+s.window > index {
		first--
	}
	for last > first && s.commands[last-1].index > index {
		last--
	}
	b.State = binary.AppendUvarint(b.State, uint64(last-first))
	for _, c := range s.commands[first:last] {
		b.State = append(binary.AppendUvarint(b.State, c.index), c.id[:]...)
	}
	return b
}

// forget drops what no state from base on needs.
func (s *state) forget(base uint64) {
	n := 0
	for n < len(s.commands) && s.commands[n].index+s.window <= base {
		if c := s.commands[n]; s.index[c.id] == c.index {
			delete(s.index, c.id)
		}
		n++
	}
	s.commands = s.commands[n:]
	for len(s.confs) > 1 && s.confs[1].index <= base {
		s.confs = s.confs[1:]
	}
}

// judge says what becomes of a command in entry index: the entry that has carried it out
// already, or why it is refused.
func (s *state) judge(c *command.Command, index uint64) (before uint64, err error) {
	switch at, found := s.index[c.ID]; {
	case c.After >= index:
		return 0, fmt.Errorf("%w: the command was made after entry %d and is in entry %d", engine.ErrInvalid, c.After, index)
	case index > c.After+s.window:
		return 0, ErrExpired
	case found && at+s.window > index:
		return at, nil
	}
	return 0, nil
}

// note notes that entry index has carried a command out.
func (s *state) note(id command.ID, index uint64) {
	s.commands = append(s.commands, appliedCommand{index, id})
	s.index[id] = index
}
