package group

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/replica/raftlog"
)

// A node of the region that is promoted calls DropOthers, and then TakeOverAll, before it runs any group
// and before it hears anybody. Both find what they have done, and may be repeated after a crash.

// Opener opens a group of a node.
type Opener func(context.Context, *raftlog.Group) (*Group, error)

// alone opens a group that is not to be run; nil if the replica is empty.
func (open Opener) alone(ctx context.Context, log *raftlog.Group) (*Group, error) {
	g, err := open(ctx, log)
	if err != nil {
		return nil, err
	}
	if last, _ := log.LastIndex(); last == 0 { // it never fails
		return nil, nil
	}
	return g, nil
}

// DropOthers removes the replicas of a node that have entries, but for those with which groups go on:
// they may have entries that the replica of their group does not have. stay has these, by group; all of
// them are here.
func DropOthers(ctx context.Context, logs *raftlog.Store, stay map[uint64]uint64, open Opener) error {
	for again := true; again; { // what splits make is looked at too
		again = false
		for _, log := range logs.Groups() {
			if stay[log.ID()] == log.Replica() {
				continue
			}
			g, err := open.alone(ctx, log)
			if errors.Is(err, raftlog.ErrRemoved) {
				again = true // the end of a removal
				continue
			} else if err != nil {
				return err
			}
			if g == nil {
				continue
			}
			if err = g.Replay(ctx); err == nil {
				err = g.Destroy(ctx)
			}
			if err != nil {
				return fmt.Errorf("remove group %d: %w", log.ID(), err)
			}
			again = true
		}
	}
	return nil
}

// TakeOverAll has all groups that have entries on a node go on with their replica there alone, and
// returns how many they are. Empty replicas are removed.
func TakeOverAll(ctx context.Context, logs *raftlog.Store, open Opener) (int, error) {
	taken := make(map[uint64]*Group)
	for again := true; again; { // what splits make goes on too
		again = false
		for _, log := range logs.Groups() {
			if taken[log.ID()] != nil {
				continue
			}
			g, err := open.alone(ctx, log) // ends an installation
			if err != nil {
				return 0, err
			}
			if g == nil {
				continue
			}
			if err = Adopt(log); err != nil {
				return 0, err
			}
			if g, err = open(ctx, log); err != nil {
				return 0, err
			}
			if err = g.Replay(ctx); err != nil {
				return 0, fmt.Errorf("apply the entries of group %d: %w", log.ID(), err)
			}
			taken[log.ID()] = g
			again = true
		}
	}
	for _, log := range logs.Groups() {
		if g := taken[log.ID()]; g != nil {
			if err := g.TakeOver(); err != nil {
				return 0, err
			}
		} else if err := logs.Remove(log.ID()); err != nil {
			return 0, err
		}
	}
	return len(taken), nil
}
