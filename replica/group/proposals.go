package group

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/replica/command"
)

// Outcome is what became of a proposal.
type Outcome struct {
	ID    command.ID
	Index uint64 // of the entry that the command was carried out in; 0: none
	// Duplicate says that entry Index had carried out, or refused, the command before.
	// Results are not known then.
	Duplicate bool
	Results   []engine.BatchResult
	// Err is nil if the command was carried out; each batch has a result. ErrUnknown: it may
	// be. Otherwise this proposal has done nothing; ErrNotLeader and ErrBusy say that it may
	// be made again.
	Err error
}

// Propose proposes a command; Work.Outcomes will have its outcome. The group keeps the
// command until then and sets its time. One whose id waits already is that one, and has its outcome. Errors: ErrNotLeader, ErrBusy;
// engine.ErrTooLarge; errors of Command.Build.
//
// Commands that are proposed while earlier ones have no outcome are gathered: Ready makes entries
// of them when these have theirs, or earlier after Hurry. The fewer entries there are, the fewer
// messages and syncs each command costs.
func (g *Group) Propose(c *command.Command) error {
	if !g.IsLeader() {
		return ErrNotLeader
	}
	if g.encoded[c.ID] != nil {
		return nil
	}
	if len(g.waiting) >= maxWaiting {
		return ErrBusy
	}
	if err := g.belongs(c); err != nil {
		return err
	}
	batches, err := c.Build(g.cfg.Container)
	if err != nil {
		return err
	}
	size, encoded := int64(0), c.Append(nil)
	for i, b := range batches {
		// The container refuses the key of a batch without operations only in the entry, and with it all commands there.
		if n := c.Batches[i].Key.Len(); n != g.levels {
			return fmt.Errorf("%w: partition key %s: number of levels %d, of container %q %d", engine.ErrInvalid, c.Batches[i].Key, n, g.cfg.Container.Name(), g.levels)
		}
		size += b.Size()
	}
	switch {
	case size > mostBatches, len(encoded) > mostEncoded:
		return fmt.Errorf("%w: a command of %d bytes with batches of %d, at most %d and %d are possible", engine.ErrTooLarge, len(encoded), size, mostEncoded, mostBatches)
	case g.bytes+len(encoded) > mostWaitingBytes:
		return ErrBusy
	}
	g.waiting, g.encoded[c.ID] = append(g.waiting, c), encoded
	g.bytes += len(encoded)
	return nil
}

// belongs returns why a command cannot be one of this group's.
func (g *Group) belongs(c *command.Command) error {
	if err := g.inRange(c); err != nil {
		return err
	}
	if len(c.Batches) < 2 {
		return nil
	}
	keys := make(map[engine.PartitionKey]struct{}, len(c.Batches))
	for i := range c.Batches {
		key := c.Batches[i].Key
		if keys[key] = struct{}{}; len(keys) <= i {
			return fmt.Errorf("%w: two batches of partition key %s in one command", engine.ErrInvalid, key)
		}
	}
	return nil
}

// inRange returns ErrRange if a command has keys of another group.
func (g *Group) inRange(c *command.Command) error {
	for i := range c.Batches {
		key := c.Batches[i].Key
		if epk := key.EPK(); !g.state.span().Contains(&epk) {
			return fmt.Errorf("group %d, partition key %s: %w", g.cfg.Log.ID(), key, ErrRange)
		}
	}
	return nil
}

const (
	// maxWaiting is how many commands wait for an entry at most, and mostWaitingBytes how many bytes they have.
	maxWaiting       = 4096
	mostWaitingBytes = 64 << 20
	// mostBatches is the size of the batches of one command, which is all that the container takes in an entry. mostEncoded is
	// that of the command itself: of a patch, or of a key with special characters, the batches count less. A message with
	// the entry fits into a frame.
	mostBatches = 8 << 20
	mostEncoded = 16 << 20
	// gatherBytes, gatherOps and gatherWeight bound what is gathered for one entry: the size of
	// the commands, their operations, and their size if each patch makes the largest item and each
	// operation has the partition key. So the container counts, which takes no more than 8 MiB in one
	// entry. A command that is larger has an entry of its own, so what the container says of the size
	// of an entry is about that command.
	gatherBytes  = 1 << 20
	gatherOps    = 4096
	gatherWeight = 7 << 20
)

// load is what commands count for in an entry.
type load struct{ bytes, ops, weight int }

// loadOf returns the load of a command whose encoding is b.
func loadOf(c *command.Command, b []byte) load {
	l := load{bytes: len(b), weight: len(b)}
	for i := range c.Batches {
		l.ops += len(c.Batches[i].Operations)
		l.weight += len(c.Batches[i].Operations) * len(c.Batches[i].Key.Encoded())
		for k := range c.Batches[i].Operations {
			if c.Batches[i].Operations[k].Kind == command.Patch {
				l.weight += definition.MaxItemBytes
			}
		}
	}
	return l
}

// gathering is an entry to which commands are added.
type gathering struct {
	load
	commands []*command.Command
	encoded  [][]byte
}

// add adds a command, whose encoding is b and whose load is l, if it fits.
func (e *gathering) add(c *command.Command, b []byte, l load) bool {
	l.bytes, l.ops, l.weight = e.bytes+l.bytes, e.ops+l.ops, e.weight+l.weight
	if len(e.commands) > 0 && (l.bytes > gatherBytes || l.ops > gatherOps || l.weight > gatherWeight) {
		return false
	}
	e.load, e.commands, e.encoded = l, append(e.commands, c), append(e.encoded, b)
	return true
}

// entriesOf distributes the commands that wait over entries: each to the first one that has room, behind those that have earlier
// batches of its keys. An entry has one batch of a key.
func (g *Group) entriesOf(commands []*command.Command) (entries []*gathering) {
	behind := make(map[engine.PartitionKey]int) // of each key: how many entries a command with it is behind
	for _, c := range commands {
		at, b := 0, g.encoded[c.ID]
		l := loadOf(c, b)
		for i := range c.Batches {
			at = max(at, behind[c.Batches[i].Key])
		}
		for at < len(entries) && !entries[at].add(c, b, l) {
			at++
		}
		if at == len(entries) {
			entries = append(entries, new(gathering))
			entries[at].add(c, b, l)
		}
		for i := range c.Batches {
			behind[c.Batches[i].Key] = at + 1
		}
	}
	return entries
}

// Waiting returns 0 if no commands wait for an entry. Otherwise it returns another number each time
// that entries have been made.
func (g *Group) Waiting() uint64 {
	if len(g.waiting) == 0 {
		return 0
	}
	return g.proposed + 1
}

// Hurry has the next Ready make entries of commands that wait, also if earlier ones have no outcome
// yet. A host calls it for commands that have waited for a while: a quorum may be far away.
func (g *Group) Hurry() { g.hurry = true }

// gather makes entries of the commands that wait.
func (g *Group) gather() error {
	if g.unwritten > 0 || len(g.proposals) > 0 && !g.hurry || g.HandingOver() {
		return nil
	}
	g.hurry = false
	if len(g.waiting) > 0 && !g.IsLeader() {
		g.giveUp()
		return nil
	}
	now, entries := g.cfg.Now(), g.entriesOf(g.waiting)
	clear(g.encoded)
	g.waiting, g.bytes = nil, 0
	for _, e := range entries {
		for i, c := range e.commands {
			c.Time = now
			command.Stamp(e.encoded[i], now)
		}
		err := g.guard(func() error { return g.node.Propose(command.Gather(nil, e.encoded)) })
		if err != nil && !errors.Is(err, raft.ErrProposalDropped) {
			return err
		}
		for _, c := range e.commands {
			if err != nil {
				g.outcomes = append(g.outcomes, Outcome{ID: c.ID, Err: ErrBusy})
				continue
			}
			g.proposed++
			g.proposals[c.ID] = g.proposed
		}
	}
	return nil
}

// giveUp ends the proposals of a replica that is not the leader any more.
func (g *Group) giveUp() {
	ids := make([]command.ID, 0, len(g.proposals))
	for id := range g.proposals {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b command.ID) int { return int(g.proposals[a]) - int(g.proposals[b]) })
	for _, id := range ids {
		g.outcomes = append(g.outcomes, Outcome{ID: id, Err: ErrUnknown})
	}
	clear(g.proposals)
	for _, c := range g.waiting {
		g.outcomes = append(g.outcomes, Outcome{ID: c.ID, Err: ErrNotLeader})
	}
	clear(g.encoded)
	g.waiting, g.bytes, g.late, g.passing = nil, 0, nil, false // their callers begin new reads
}
