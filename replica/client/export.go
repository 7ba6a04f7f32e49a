package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/transfer"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/topology"
)

// errRange says that a replica has exported other keys than those of the description: the group has split since.
var errRange = errors.New("group has another range than that of its description")

// Export writes the content of a group to w, as engine.Container.ExportPartition has it, and returns
// the description of the group, whose range is that of the content, and the newest entry that is in it: everything is that was
// acknowledged before the call. A replica that does not lead is asked first. Not more than one export of a client
// runs at a time. An error of w is returned unchanged.
func (c *Client) Export(ctx context.Context, id uint64, w io.Writer) (g *topology.Group, index uint64, err error) {
	for look := (try{c: c}); ; look.count++ {
		var state *groupState
		if g, state = c.told(ctx, id); g == nil || state == nil || g.Epoch == 0 {
			return nil, 0, fmt.Errorf("group %d: %w", id, engine.ErrNotFound)
		}
		if index, err = c.exportOf(ctx, g, state, w); !errors.Is(err, errRange) {
			return g, index, err
		}
		look.pause()
		if err = look.sleep(ctx); err != nil {
			return g, 0, err
		}
	}
}

// exportOf exports a group as it was described. After errRange w has got nothing.
func (c *Client) exportOf(ctx context.Context, g *topology.Group, state *groupState, w io.Writer) (index uint64, err error) {
	leader := state.leader.Load()
	var nodes []uint64
	for _, n := range state.Replicas {
		if n != leader {
			nodes = append(nodes, n)
		}
	}
	var errs []error
	for _, node := range append(nodes, leader) {
		begun := false
		index, begun, err = c.exportFrom(ctx, node, uint64(g.ID), &g.Range, w)
		if err == nil || begun || ctx.Err() != nil || errors.Is(err, errRange) {
			return index, err
		}
		errs = append(errs, err)
	}
	return 0, errors.Join(errs...)
}

// ExportAlone is Export of what the replica on a node has, without asking a leader: for a group whose
// voters are lost. Writes that were acknowledged may be missing.
func (c *Client) ExportAlone(ctx context.Context, node, id uint64, w io.Writer) (index uint64, err error) {
	index, _, err = c.exportFrom(ctx, node, id, nil, w)
	return index, err
}

// exportFrom exports from one node. keys are those that the content is to have; nil: what the node has, and no leader is asked. begun
// says that w has got something.
func (c *Client) exportFrom(ctx context.Context, node, id uint64, keys *partmap.Range, w io.Writer) (index uint64, begun bool, err error) {
	c.reach(ctx, node)
	size, goesOn := uint64(0), false
	for at := uint64(0); at == 0 || at < size; {
		from := at
		if goesOn {
			from = protocol.StillExporting
		}
		r, _ := c.askFor(ctx, exportTime, node, protocol.Export, func(dst []byte, number uint64) []byte {
			return protocol.AppendExport(dst, number, id, from, keys == nil)
		})
		if err = errors.Join(r.err, r.Err); err != nil {
			return 0, begun, err
		}
		var chunk []byte
		if size, index, chunk, err = r.Export(); err != nil {
			return 0, begun, err
		}
		if goesOn = at == 0 && size == 0 && len(chunk) == 0; goesOn {
			continue
		}
		if len(chunk) == 0 {
			return index, begun, fmt.Errorf("%w: an export without content", protocol.ErrInvalid)
		}
		if at == 0 && keys != nil {
			if source, failed := transfer.NewReader(bytes.NewReader(chunk)); failed != nil {
				return index, begun, failed
			} else if source.Range != *keys {
				return index, begun, fmt.Errorf("group %d on node %d: %w", id, node, errRange)
			}
		}
		begun = true
		if _, err = w.Write(chunk); err != nil {
			return index, begun, err
		}
		at += uint64(len(chunk))
	}
	return index, begun, nil
}

// exportTime bounds how long a node may take for one answer. Before the first part it exports everything, and tells now and then that
// it has written more.
const exportTime = 10 * changeTime
