package group

import (
	"encoding/binary"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
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
//	+---------+--------+------+-----+---+----------------------+-----+-----+-------+---+-----------+
//	| version | window | most | cut | n | n × (index | id (16)) | min | max | epoch | n | n × split |
//	+---------+--------+------+-----+---+----------------------+-----+-----+-------+---+-----------+
//	split: index | right group | boundary | n | n × replica
//
// Integers are uvarints, version is 1 byte; min, max and boundary are texts behind their
// lengths. The range is that of Config if it is empty here. Versions 1 and 2 have neither most nor
// cut, and forget no command because there are many. Version 1 ends before min.
//
// An entry may have thousands of commands, so the newest most of them are remembered, without those
// of the entry that has the newest one of the others: cut is the newest entry that was forgotten so,
// 0 if none was that is within the window.
type state struct {
	applied uint64
	window  uint64 // how many entries a command's id is remembered for
	most    uint64 // how many commands are remembered; 0: no bound
	cut     uint64 // at the base
	// commands are those that were applied, in the order of the entries: as far back as a
	// truncation of the log to any entry behind its base may need them.
	commands []appliedCommand
	index    map[command.ID]uint64 // entry of each of them
	confs    []confAt              // the base's, and each later one

	born   partmap.Range // range that the group was made with
	epoch  uint64        // and its epoch then: each split of a group is another epoch, of both halves
	splits []splitAt     // all that the group has had
}

type appliedCommand struct {
	index uint64
	id    command.ID
}

type confAt struct {
	index uint64
	conf  *pb.ConfState
}

// splitAt is a split of the group.
type splitAt struct {
	index   uint64
	right   uint64 // group
	at      partmap.EPK
	members []uint64 // replicas that the group had then, and the right one began with
}

const (
	stateVersion = 3
	// mostCommands is how many commands a new group remembers. In memory one takes about 80 bytes.
	mostCommands = 1 << 18
)

// newState encodes the state of a group that has had no command. Its range is that of Config.
func newState(window uint64) []byte {
	s := state{window: window, most: mostCommands}
	return s.encode(0, partmap.Range{}, 1, nil)
}

// load sets the state to that at a base. otherwise is the range if the base has none.
func (s *state) load(b *raftlog.Base, otherwise partmap.Range) error {
	*s = state{
		applied: b.Index, index: make(map[command.ID]uint64), confs: []confAt{{b.Index, proto.CloneOf(b.ConfState)}},
		born: otherwise, epoch: 1,
	}
	if b.Index == 0 {
		return nil // a replica that has got no snapshot yet
	}
	if len(b.State) == 0 || b.State[0] > stateVersion {
		return fmt.Errorf("state of a group at entry %d: %w", b.Index, engine.ErrTooNew)
	}
	r := fields{p: b.State[1:]}
	s.window = r.uvarint()
	if b.State[0] > 2 {
		s.most, s.cut = r.uvarint(), r.uvarint()
		r.bad = r.bad || s.most == 0 || s.cut > b.Index
	}
	for n := r.count(1 + len(command.ID{})); n > 0; n-- {
		c := appliedCommand{index: r.uvarint()}
		copy(c.id[:], r.take(uint64(len(c.id))))
		if c.index == 0 || c.index > b.Index {
			r.bad = true
		}
		s.commands = append(s.commands, c)
		s.index[c.id] = c.index
	}
	if b.State[0] > 1 {
		if born := (partmap.Range{Min: r.epk(), Max: r.epk()}); !born.Empty() || b.State[0] == 2 {
			s.born = born
		}
		s.epoch = r.uvarint()
		last := uint64(0)
		for n := r.count(4); n > 0; n-- {
			p := splitAt{index: r.uvarint(), right: r.uvarint(), at: r.epk()}
			for m := r.count(1); m > 0; m-- {
				p.members = append(p.members, r.uvarint())
			}
			if now := s.span(); p.index <= last || p.index > b.Index || p.at.Compare(&now.Min) <= 0 || p.at.Compare(&now.Max) >= 0 {
				r.bad = true
			}
			s.splits = append(s.splits, p)
			last = p.index
		}
	}
	if r.bad || s.window == 0 || s.most > 0 && uint64(len(s.commands)) > s.most || len(r.p) > 0 || s.born.Empty() {
		return fmt.Errorf("state of a group at entry %d: %w", b.Index, engine.ErrCorrupt)
	}
	return nil
}

// fields reads the fields of an encoded state.
type fields struct {
	p   []byte
	bad bool
}

func (r *fields) uvarint() uint64 {
	v, n := binary.Uvarint(r.p)
	if n <= 0 {
		r.p, r.bad = nil, true
		return 0
	}
	r.p = r.p[n:]
	return v
}

func (r *fields) take(n uint64) []byte {
	if n > uint64(len(r.p)) {
		r.p, r.bad = nil, true
		return nil
	}
	out := r.p[:n]
	r.p = r.p[n:]
	return out
}

// count reads the number of things that take at least size bytes each.
func (r *fields) count(size int) uint64 {
	n := r.uvarint()
	if n > uint64(len(r.p)/size) {
		r.p, r.bad = nil, true
		return 0
	}
	return n
}

func (r *fields) epk() partmap.EPK {
	at, err := partmap.ParseEPK(string(r.take(r.uvarint())))
	if err != nil {
		r.bad = true
	}
	return at
}

func appendEPK(dst []byte, at partmap.EPK) []byte {
	text := at.String()
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// at returns the state at an entry that is not before the log's base and not behind applied.
func (s *state) at(index, term uint64) raftlog.Base {
	state := s.encode(index, s.born, s.epoch, s.splitsUpTo(index))
	return raftlog.Base{Index: index, Term: term, ConfState: s.confAt(index), State: state}
}

// rightOf returns the state with which the right half of a split begins, before that is noted
// in splits. Its log begins behind the split, and it remembers what the whole group does.
func (s *state) rightOf(p *splitAt, term uint64) raftlog.Base {
	born := partmap.Range{Min: p.at, Max: s.span().Max}
	state := s.encode(p.index, born, s.epoch+uint64(len(s.splits))+1, nil)
	return raftlog.Base{Index: p.index, Term: term, ConfState: s.confAt(p.index), State: state}
}

// encode encodes a state at an entry.
func (s *state) encode(index uint64, born partmap.Range, epoch uint64, splits []splitAt) []byte {
	first, last, cut := s.remembered(index)
	commands := s.commands[first:last]
	out := []byte{2}
	if s.most > 0 {
		out[0] = stateVersion
	}
	out = binary.AppendUvarint(out, s.window)
	if s.most > 0 {
		out = binary.AppendUvarint(binary.AppendUvarint(out, s.most), cut)
	}
	out = binary.AppendUvarint(out, uint64(len(commands)))
	for _, c := range commands {
		out = append(binary.AppendUvarint(out, c.index), c.id[:]...)
	}
	out = binary.AppendUvarint(appendEPK(appendEPK(out, born.Min), born.Max), epoch)
	out = binary.AppendUvarint(out, uint64(len(splits)))
	for _, p := range splits {
		out = appendEPK(binary.AppendUvarint(binary.AppendUvarint(out, p.index), p.right), p.at)
		out = binary.AppendUvarint(out, uint64(len(p.members)))
		for _, id := range p.members {
			out = binary.AppendUvarint(out, id)
		}
	}
	return out
}

// remembered returns which commands are remembered at an entry, and cut there.
func (s *state) remembered(index uint64) (first, last int, cut uint64) {
	last = len(s.commands)
	for last > 0 && s.commands[last-1].index > index {
		last--
	}
	if cut = s.cutAfter(last); cut+s.window <= index {
		cut = 0
	}
	first = last
	for first > 0 && s.commands[first-1].index+s.window > index && s.commands[first-1].index > cut {
		first--
	}
	return first, last, cut
}

// cutAfter returns the newest entry that is forgotten when there have been the first n of commands.
func (s *state) cutAfter(n int) uint64 {
	if s.most > 0 && uint64(n) > s.most {
		return max(s.cut, s.commands[uint64(n)-s.most-1].index)
	}
	return s.cut
}

// confAt returns the members at an entry.
func (s *state) confAt(index uint64) (conf *pb.ConfState) {
	for _, c := range s.confs {
		if c.index <= index {
			conf = c.conf
		}
	}
	return conf
}

// splitsUpTo returns the splits up to an entry.
func (s *state) splitsUpTo(index uint64) []splitAt {
	n := len(s.splits)
	for n > 0 && s.splits[n-1].index > index {
		n--
	}
	return s.splits[:n]
}

// span returns the range of the group at the newest entry.
func (s *state) span() partmap.Range { return s.spanAfter(len(s.splits)) }

// spanAfter returns the range behind the first n splits.
func (s *state) spanAfter(n int) partmap.Range {
	r := s.born
	if n > 0 {
		r.Max = s.splits[n-1].at
	}
	return r
}

// half returns the range that split i has split off.
func (s *state) half(i int) partmap.Range {
	return partmap.Range{Min: s.splits[i].at, Max: s.spanAfter(i).Max}
}

// forget drops what no state from base on needs.
func (s *state) forget(base uint64) {
	first, _, cut := s.remembered(base)
	for _, c := range s.commands[:first] {
		if s.index[c.id] == c.index {
			delete(s.index, c.id)
		}
	}
	s.commands, s.cut = slices.Delete(s.commands, 0, first), cut
	for len(s.confs) > 1 && s.confs[1].index <= base {
		s.confs = s.confs[1:]
	}
}

// judge says what becomes of a command in entry index: the entry that has carried it out
// already, or why it is refused.
func (s *state) judge(c *command.Command, index uint64) (before uint64, err error) {
	cut := s.cutAfter(len(s.commands))
	switch at, found := s.index[c.ID]; {
	case c.After >= index:
		return 0, fmt.Errorf("%w: the command was made after entry %d and is in entry %d", engine.ErrInvalid, c.After, index)
	case index > c.After+s.window, c.After < cut:
		return 0, ErrExpired
	case found && at+s.window > index && at > cut:
		return at, nil
	}
	return 0, nil
}

// note notes that entry index has carried a command out.
func (s *state) note(id command.ID, index uint64) {
	s.commands = append(s.commands, appliedCommand{index, id})
	s.index[id] = index
}
