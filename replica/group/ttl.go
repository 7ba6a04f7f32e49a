package group

import "github.com/cleavestore/cleave/replica/command"

// ProposeTTL proposes a change of the default time to live. TTLRevision tells when it was applied. One whose
// revision is not above that of a change that the group has does nothing. Errors: ErrNotLeader, ErrBusy.
func (g *Group) ProposeTTL(t command.TTL) error {
	switch {
	case !g.IsLeader():
		return ErrNotLeader
	case g.HandingOver():
		return ErrBusy
	case t.Revision <= g.revision:
		return nil
	}
	return g.proposeControl(&command.Control{TTL: &t})
}

// TTLRevision returns the revision of the newest change of the default time to live that the
// group has applied, 0 if none was.
func (g *Group) TTLRevision() uint64 { return g.revision }

// noteTTL takes over the default time to live as the partition has it.
func (g *Group) noteTTL() error {
	if g.partition == 0 {
		return nil
	}
	t, err := g.cfg.Container.AppliedTTL(g.partition)
	if err == nil {
		g.revision, g.expires = t.Revision, t.TTL != 0
	}
	return err
}
