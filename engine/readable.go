package engine

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/partmap"
)

// ScanReadable returns what can be read of a container, or of one logical partition if
// pk is valid, in the order of ScanAll. It scans as usual until it meets damage; from
// there it reads past damage as Repair does. Afterwards report says what was returned,
// what could not be read, and how many documents were left out because a newer version,
// or a delete, may lie in what is damaged. It is meant for stores that are open
// ReadOnly: past damage it shows the newest versions, and keeps the memory they are in
// until the loop ends or the store is closed. In a store that is open for writing, what the
// body of the loop calls must not wait for memory, as writes, Compact and Close may. Items are
// safe to keep. At most one error comes, as the last pair.
func (c *Container) ScanReadable(ctx context.Context, pk PartitionKey, report *RepairReport) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if report == nil {
			yield(Item{}, invalidf("ScanReadable: no report is given"))
			return
		}
		*report = RepairReport{}
		state, loop, err := c.beginLoop(nil)
		if err != nil {
			yield(Item{}, err)
			return
		}
		defer loop.Leave()
		own := state.keys.Own(pk)
		if begin := state.db.watch("scan", c.name); begin != nil {
			defer begin()()
		}
		var last Item
		left := false
		take := func(it Item, _ error) bool {
			last = it
			report.Documents++
			report.Bytes += int64(len(it.Body))
			left = !yield(it, nil)
			return !left
		}
		show := func(r *exec.Row) bool { return give(state, take, r) }
		past := salvage{report: report, Salvager: lsm.Salvager{Ctx: ctx}}
		var failure error
		// The scan must see the state that is read past the damage.
		if opts := state.timeScan(nil, nil); !own.Valid() {
			failure = exec.ScanAll(ctx, state.host(), &opts, show)
		} else if failure = state.checkPartitionKey(own); failure == nil {
			first, end := itemKey(own, ""), itemKey(own, "")
			end.ID = lsm.AfterAllIDs
			past.After, past.Before = &first, &end
			failure = exec.ScanKey(ctx, state.host(), own, item.IDRange{}, &opts, show)
		}
		if failure == nil || left {
			return
		}
		if !lsm.Unreadable(failure) && !errors.Is(failure, ErrIO) {
			yield(Item{}, failure)
			return
		}
		if last.ID != "" {
			after := itemKey(last.Key, last.ID)
			past.After = &after
		}
		if err := past.loop(ctx, state, show); err != nil && err != errLeft {
			yield(Item{}, err)
		}
	}
}

// itemKey returns the key of an item.
func itemKey(pk PartitionKey, id string) item.Key {
	epk := partmap.HashEncoded(pk.Encoded())
	return item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: pk.Encoded(), ID: bytesOf(id)}
}

// errLeft says that the caller has left the loop.
var errLeft = errors.New("the loop was left")

// salvage reads partitions past what cannot be read.
type salvage struct {
	lsm.Salvager
	report   *RepairReport
	progress func(RepairReport) // nil: nobody is told
}

// loop shows what can be read of a container. Close waits while it reads, and not for show.
func (s *salvage) loop(ctx context.Context, c *Container, show func(*exec.Row) bool) error {
	call, err := c.enterAgain(ctx)
	if err != nil {
		return err
	}
	inside := true
	defer func() {
		if inside {
			call.Leave()
		}
	}()
	s.Give = func(k *item.Key, v *item.Version) error {
		row := exec.Row{
			Key: keyOf(string(k.PK)), ID: string(k.ID), Seq: v.Seq, Modified: v.Modified, Expires: v.Expires,
			Charge: cost.Read(len(v.Body)), Body: bytes.Clone(v.Body),
		}
		call.Leave()
		if inside = false; !show(&row) {
			return errLeft
		}
		call, err = c.enterAgain(ctx)
		inside = err == nil
		return err
	}
	for at, end := partmap.MinEPK(), partmap.MaxEPK(); at.Compare(&end) < 0; {
		rt := c.routing.Load()
		p := rt.parts[rt.table.Find(&at)]
		lo := keybounds.At(&at, c.levels())
		if s.After == nil || item.Compare(s.After, &lo) < 0 {
			s.After = &lo // a partition that others were merged into begins before
		}
		switch err := s.partition(p); {
		case err == nil:
			at = p.Range.Max
		case err != lsm.ErrMoved:
			return err
		}
	}
	return nil
}

// partition reads a partition. It returns lsm.ErrMoved if others have replaced it.
func (s *salvage) partition(p *partition) error {
	s.Past, s.Claims = p.Past(), p.c.unique != nil
	s.Uncertain = &s.report.Uncertain
	s.Lost = func(f *lsm.File, why error) { s.report.Lost = append(s.report.Lost, p.damageOf(f, true, why)) }
	s.Pause = func() {
		if s.progress != nil {
			s.progress(*s.report)
		}
	}
	if why := p.here(); why != nil && s.Before == nil { // one logical partition lies elsewhere
		s.Lost(&lsm.File{Min: p.Range.Min, Max: p.Range.Max, Name: p.Dir}, why)
		return nil
	}
	if err := s.Read(&p.Tree); err != lsm.ErrMoved {
		return err
	}
	return p.gone()
}
