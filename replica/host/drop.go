package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/group"
)

// A container is dropped on a node when the node hears of it. What names it is its number, which is
// the upper half of the ids of its groups and never given again: a container that is made later under
// the name has another number, other groups, and another container in the store.
//
//  1. dropped.json has the number, durably, as one of which things are still to go. This is the
//     decision. From here on the node makes no replica with the number: not by a message (join), not
//     by a split that is under way (began), not by the description or containers.json. Clients that
//     ask for one of the groups are told that there is no such container.
//  2. The replicas end, each when the worker that serves it has done what it was at. Commands that are
//     under way have an outcome that is not known.
//  3. The container goes from the store, in one step of the manifest of that.
//  4. The logs go, also of right halves that splits have made meanwhile, in one manifest of the logs.
//  5. dropped.json says, durably, that nothing is left.
//
// A crash before 1 leaves the container as it was: the node hears of the drop again, since the metadata
// store keeps it for good. After 1 the next Open does 3 to 5 before it makes any container or opens any
// replica. Each step finds what it has done: a container that is not in the store is no error in 3, and
// 4 drops the logs that are there. Until 5 AddContainer refuses another container of the name, so the
// one that 3 finds in the store under the name is always the one that was dropped.
//
// 3 before 4: a log without a partition is nobody's after 1, and a partition without a log would be
// a loss (ErrLost) if the number were not in dropped.json.
//
// A node that was down at all of this has the container when it starts. Its replicas find no others:
// those that have heard of the drop ignore their messages. So they lead nothing, unless a quorum of
// them has not heard; see package meta for what follows from that. When the node hears, it does 1 to 5.

const (
	droppedName  = "dropped.json"
	droppedTemp  = "dropped.json.tmp"
	droppedBytes = 1 << 30 // what is written must be read again
)

// Dropped is a container that was dropped.
type Dropped struct {
	Number uint64 `json:"number"`
	Name   string `json:"name"`
	// Pending says that what the node has of it is still to go.
	Pending bool `json:"pending,omitempty"`
}

// drops has the containers that were dropped, by their numbers. It is immutable once it is shared.
type drops map[uint64]Dropped

// loadDropped takes in which containers were dropped.
func (h *Host) loadDropped() error {
	all := make(drops)
	b, err := vfs.ReadFile(h.fs, droppedName, droppedBytes)
	if err != nil && !errors.Is(err, fault.ErrMissing) {
		return err
	}
	if err == nil {
		var row []Dropped
		if err = json.Unmarshal(b, &row); err != nil {
			return fmt.Errorf("%s: %w: %w", h.fs.Path(droppedName), engine.ErrCorrupt, err)
		}
		for _, d := range row {
			all[d.Number] = d
		}
	}
	h.dropped.Store(&all)
	return nil
}

// noteDropped notes, durably, what has become of a container. joining is held, or the host is not
// open yet.
func (h *Host) noteDropped(d Dropped) error {
	all := maps.Clone(*h.dropped.Load())
	all[d.Number] = d
	b, err := json.MarshalIndent(all.sorted(), "", "  ")
	if err != nil {
		return err
	}
	if err = vfs.WriteFileAtomic(h.fs, droppedTemp, droppedName, append(b, '\n')); err == nil {
		h.dropped.Store(&all)
	}
	return err
}

func (all drops) sorted() []Dropped {
	return slices.SortedFunc(maps.Values(all), func(a, b Dropped) int { return cmp.Compare(a.Number, b.Number) })
}

// Dropped returns the containers of which this node knows that they were dropped, by their numbers.
func (h *Host) Dropped() []Dropped { return h.dropped.Load().sorted() }

// WasDropped reports whether the container of a group was dropped, as far as this node knows.
func (h *Host) WasDropped(id uint64) bool {
	_, is := (*h.dropped.Load())[id>>32]
	return is
}

// DropContainer removes what the node has of the container with a number, whose name the caller knows.
// It returns when nothing is left, and may be called again, also for a container that the node never had.
// After an error it is to be called again; the next Open goes on too.
func (h *Host) DropContainer(ctx context.Context, number uint64, name string) error {
	h.dropping.Lock()
	defer h.dropping.Unlock()
	d, err := h.decideDrop(number, name)
	if err != nil || !d.Pending {
		return err
	}
	var ended []chan struct{}
	for _, r := range h.replicas.all() {
		if r.def.ID>>32 == number {
			done := make(chan struct{})
			ended = append(ended, done)
			r.call(r.drop, func() { close(done) })
		}
	}
	for _, done := range ended {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.stop:
			return ErrClosed
		}
	}
	if err = h.clearDropped(ctx, d); err == nil {
		h.cfg.Logger.Info("a container was dropped", "node", h.cfg.Node, "container", d.Name, "number", number, "replicas", len(ended))
	}
	return err
}

// decideDrop is step 1.
func (h *Host) decideDrop(number uint64, name string) (Dropped, error) {
	h.joining.Lock()
	defer h.joining.Unlock()
	if h.closing.Load() {
		return Dropped{}, ErrClosed
	}
	if d, known := (*h.dropped.Load())[number]; known {
		return d, nil
	}
	now := h.description()
	d := Dropped{Number: number, Name: name}
	if known := now.ContainerOf(number << 32); known != "" {
		d.Name, d.Pending = known, true
	}
	if err := h.noteDropped(d); err != nil {
		return d, err
	}
	h.described.Store(now.Without(number))
	delete(h.adding, number)
	return d, nil
}

// DropEverywhere drops a container in the whole cluster, as Config.Drop does. Error: ErrChange, if the
// cluster has no metadata store; those of Config.Drop.
func (h *Host) DropEverywhere(ctx context.Context, name string, number uint64) error {
	if h.cfg.Drop == nil {
		return fmt.Errorf("container %q: the cluster has no metadata store, so its containers stay: %w", name, ErrChange)
	}
	return h.cfg.Drop(ctx, name, number)
}

// drop ends the replica, whose container was dropped.
func (r *replica) drop() {
	r.refuse(group.ErrUnknown)
	if !r.gone {
		r.leave()
	}
}

// clearDropped does steps 3 to 5.
func (h *Host) clearDropped(ctx context.Context, d Dropped) error {
	if err := h.db.DropContainer(ctx, d.Name); err != nil && !errors.Is(err, engine.ErrNoContainer) {
		return fmt.Errorf("drop container %q: %w", d.Name, err)
	}
	if err := h.log.Discard(func(id uint64) bool { return id>>32 == d.Number }); err != nil {
		if errors.Is(err, fault.ErrOutcomeUnknown) {
			h.fail(err)
		}
		return err
	}
	h.joining.Lock()
	defer h.joining.Unlock()
	d.Pending = false
	return h.noteDropped(d)
}

// clearAllDropped ends, at the start, what a crash has interrupted.
func (h *Host) clearAllDropped(ctx context.Context) error {
	for _, d := range h.Dropped() {
		if d.Pending {
			if err := h.clearDropped(ctx, d); err != nil {
				return err
			}
		}
	}
	return nil
}
