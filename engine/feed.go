package engine

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"slices"
	"time"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// A feed divides its range into parts. A part is a range of keys in one physical
// partition, with the sequence up to which the feed has shown it. The parts take
// turns. In its turn, a part shows batches one by one:
//
//  1. The window begins at the sequence of the part. It ends at the newest visible
//     sequence of the partition. The log is synced up to there, unless it was.
//  2. The versions that files have in the window are put in order (feedorder.go),
//     outside of any guard and in steps, so that no file is held for long.
//  3. In an epoch guard, the memtables and the ordered files are merged by
//     sequence, and the changes of a batch are copied.
//  4. Outside of the guard, the changes are passed to the loop.
//
// After a split, a part can span several partitions: then it is cut. Neighbouring
// parts with the same sequence are joined.
//
// A part is also cut if its files have more versions in the window than are put in
// order at once. Its first logical partitions come first, up to the end of the
// window, then other parts, then the rest. So the memory of the feed is bounded,
// files are read range by range, and the head of each version is read once.
//
// A partition can have several parts, after a merge of partitions or a cut. A part
// that is behind first catches up with the next one, so that they can be joined.
const (
	feedBatchItems  = 512
	feedBatchBytes  = 64 << 10
	feedBatchPassed = 8192 // versions looked at for one batch
	// feedSyncEvery is the least time between two syncs of the log by a feed that
	// follows. Until then it waits for more changes.
	feedSyncEvery = 10 * time.Millisecond
)

// feed is a running loop over changes.
type feed struct {
	c      *Container
	ctx    context.Context
	scope  Scope
	rng    partmap.Range
	o      ChangeOptions
	wait   *follower // if it follows
	shared feedShared
	since  int64
	until  []feedEntry // without Follow: what was visible when the feed began; it shows nothing above
	synced time.Time
	parts  []feedEntry
	orders fileOrders
	tables tableOrders

	// The end of each partition's window: up to there changes are visible and durable.
	windows map[PartitionID]uint64

	sources []feedSource
	found   []feedFound
	text    []byte
}

// feedFound is a change of a batch. Its body, id and key follow each other in
// feed.text.
type feedFound struct {
	found
	kind     ChangeKind
	previous uint64
}

func (c *Container) newFeed(ctx context.Context, s Scope, from Position, o *ChangeOptions) (*feed, error) {
	call, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer call.Leave()
	f := &feed{c: c, ctx: ctx, since: from.since, orders: fileOrders{}, tables: tableOrders{}, windows: map[PartitionID]uint64{}}
	if o != nil {
		f.o = *o
	}
	if f.o.AllVersions && c.def.ChangeRetention == 0 {
		return nil, invalidf("AllVersions: container %q has no ChangeRetention", c.name)
	}
	if f.scope, err = s.check(c); err != nil {
		return nil, err
	}
	if f.rng, err = f.scope.bounds(); err != nil {
		return nil, err
	}
	if f.scope.kind == scopeOne {
		f.rng.Max = successor(f.rng.Min)
	}
	if !f.o.Follow {
		f.until = c.visibleNow(f.rng)
	}
	switch from.kind {
	case positionNow:
		f.parts = c.visibleNow(f.rng)
	case positionAt:
		if from.container != c.feedID() {
			return nil, invalidf("position: of another container than %q", c.name)
		}
		if f.parts, err = from.within(f.rng); err != nil {
			return nil, err
		}
	case positionTime:
		f.parts = []feedEntry{{rng: f.rng}}
		if f.o.AllVersions {
			oldest := c.oldestPosition(f.rng)
			if f.parts = oldest.entries; slices.ContainsFunc(f.parts, func(e feedEntry) bool { return e.seq > c.db.marks.since(from.since) }) {
				return nil, &PositionExpiredError{Oldest: oldest}
			}
		}
	default:
		f.parts = []feedEntry{{rng: f.rng}}
	}
	if f.o.Follow {
		if c.db.opts.ReadOnly {
			return nil, ErrReadOnly
		}
		f.wait = c.followers.add()
	}
	f.shared.begin(f)
	c.feeds.add(f)
	return f, nil
}

// feedID identifies the container in positions. For a replicated container it is
// made from the name: all replicas have the same sequences, so a position of one is
// good for the others.
func (c *Container) feedID() uint32 {
	if c.def.Replicated {
		return crc32.Checksum([]byte(c.name), castagnoli)
	}
	return c.id
}

// oldestPosition returns the oldest position of a range after which no version was
// dropped.
func (c *Container) oldestPosition(r partmap.Range) Position {
	return Position{kind: positionAt, container: c.feedID(), entries: c.entriesAt(r, func(p *partition) uint64 { return p.changeFloor.Load() })}
}

// visibleNow returns entries for a range, at the newest visible sequences.
func (c *Container) visibleNow(r partmap.Range) []feedEntry {
	return c.entriesAt(r, func(p *partition) uint64 { return p.visible.Load() })
}

// entriesAt returns entries that cover a range. Each has the sequence that at
// returns for its partition.
func (c *Container) entriesAt(r partmap.Range, at func(*partition) uint64) []feedEntry {
	rt := c.routing.Load()
	var out []feedEntry
	for lo, hi := rt.table.Overlapping(r); lo < hi; lo++ {
		p := rt.parts[lo]
		e := feedEntry{rng: p.rng, seq: at(p)}
		if e.rng.Min.Compare(&r.Min) < 0 {
			e.rng.Min = r.Min
		}
		if e.rng.Max.Compare(&r.Max) > 0 {
			e.rng.Max = r.Max
		}
		out = append(out, e)
	}
	return joined(out)
}

func (f *feed) close() {
	f.orders.close()
	f.c.feeds.remove(f)
	if f.wait != nil {
		f.c.followers.remove(f.wait)
	}
}

// run is the loop. It returns errStopped when its body ended it.
func (f *feed) run(yield func(Change, error) bool) error {
	for {
		shown, late := false, false
		for i := 0; i < len(f.parts); i++ {
			next, err := f.turn(i)
			if err == errMoved {
				i-- // the partition was replaced: look its range up again
				continue
			}
			if err == errLate {
				late = true
				continue
			}
			if err != nil {
				return err
			}
			shown = shown || next != turnNothing
			f.shared.note(f.parts, len(f.found))
			if err := f.handOut(i, yield); err != nil {
				return err
			}
			switch next {
			case turnAgain:
				i--
			case turnCut:
				i++
			}
		}
		f.orders.sweep(f.parts)
		f.parts = joined(f.parts)
		if shown {
			continue
		}
		if !late {
			f.shared.caughtUp(f.c.db)
		}
		if !late && f.o.Progress != nil {
			f.o.Progress(f.position())
		}
		if !f.o.Follow {
			return nil
		}
		if err := f.sleep(late); err != nil {
			return err
		}
	}
}

// position returns where the feed is.
func (f *feed) position() Position {
	return Position{kind: positionAt, container: f.c.feedID(), since: f.since, entries: joined(f.parts)}
}

// errLate says that a part has changes, but must wait until the feed may sync the
// log again.
var errLate = errors.New("change feed waits for more before it syncs the log")

// sleep waits for changes. If late is set, it waits until the feed may sync the
// log again.
func (f *feed) sleep(late bool) error {
	db := f.c.db
	if late {
		timer := time.NewTimer(max(0, feedSyncEvery-time.Since(f.synced)))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-f.ctx.Done():
			return f.ctx.Err()
		case <-db.work.ctx.Done():
			return ErrClosed
		}
	}
	f.wait.sleeping.Store(true)
	defer f.wait.sleeping.Store(false)
	if f.c.dropped.Load() {
		return f.c.gone()
	}
	if err := db.writable(); err != nil {
		return err // nothing more will come
	}
	if f.behind() > 0 {
		return nil
	}
	select {
	case <-f.wait.wake:
		return nil
	case <-f.ctx.Done():
		return f.ctx.Err()
	case <-db.work.ctx.Done():
		return ErrClosed
	}
}

// behind returns the greatest distance, over all parts, from the sequence up to
// which the part was shown to the newest visible one.
func (f *feed) behind() uint64 { return f.c.behind(f.parts) }

func (c *Container) behind(parts []feedEntry) (most uint64) {
	rt := c.routing.Load()
	for i := range parts {
		for lo, hi := rt.table.Overlapping(parts[i].rng); lo < hi; lo++ {
			if at := rt.parts[lo].visible.Load(); at > parts[i].seq {
				most = max(most, at-parts[i].seq)
			}
		}
	}
	return most
}

// turnEnd is how a turn of a part ends.
type turnEnd uint8

const (
	turnNothing turnEnd = iota // there is nothing new
	turnMore                   // the part has advanced
	turnAgain                  // it has advanced and goes on at once: the next versions are in order
	turnCut                    // it has advanced to the end of its window; the part cut off from it waits
)

// turn makes a batch of a part. If the part spans several partitions, turn first
// cuts it at the end of the first one.
func (f *feed) turn(i int) (end turnEnd, err error) {
	f.found, f.text = f.found[:0], f.text[:0]
	call, err := f.c.enter(f.ctx)
	if err != nil {
		return turnNothing, err
	}
	defer call.Leave()
	rt := f.c.routing.Load()
	p := rt.parts[rt.table.Find(&f.parts[i].rng.Min)]
	if f.parts[i].rng.Max.Compare(&p.rng.Max) > 0 {
		f.cut(i, p.rng.Max)
	}
	e := &f.parts[i]
	to, err := f.window(p, e.seq)
	if err != nil {
		return turnNothing, err
	}
	for j := range f.parts {
		// Go no further than the next part of this partition that is ahead.
		if o := &f.parts[j]; o.seq > e.seq && o.seq < to && p.rng.Overlaps(o.rng) {
			to = o.seq
		}
	}
	if to <= e.seq {
		return turnNothing, nil
	}
	m := p.meter.Load()
	if m != nil {
		for err = m.admit(p); err != nil; err = m.admit(p) {
			if err = f.c.db.untilAdmitted(f.ctx, err); err != nil {
				return turnNothing, err
			}
		}
	}
	for done := false; !done; {
		if err = f.prepare(p, i); err != nil {
			return turnNothing, err
		}
		e = &f.parts[i]
		done, err = f.fill(p, e, to)
		if err == errMoved || errors.Is(err, ErrPositionExpired) || errors.Is(err, ErrClosed) {
			return turnNothing, err
		}
		if err != nil {
			return turnNothing, f.c.db.readError(err)
		}
	}
	if m != nil {
		charge := cost.Visit
		for j := range f.found {
			charge += cost.Read(f.found[j].body)
		}
		m.charge(f.c.db.uptime(), charge)
	}
	switch ordered := f.orders.spend(e); {
	case ordered && e.seq < to:
		return turnAgain, nil
	case e.seq == to && f.cutOff(i):
		return turnCut, nil
	}
	return turnMore, nil
}

// cut cuts a part in two. The upper half joins the next part if the two are
// adjacent and have the same sequence. Otherwise it becomes a part of its own.
func (f *feed) cut(i int, at partmap.EPK) {
	e := &f.parts[i]
	rest := *e
	e.rng.Max, rest.rng.Min = at, at
	if i+1 < len(f.parts) && f.parts[i+1].seq == rest.seq && f.parts[i+1].rng.Min == rest.rng.Max {
		f.parts[i+1].rng.Min = at
		return
	}
	f.parts = slices.Insert(f.parts, i+1, rest)
}

// cutOff says whether the next part was cut off from this one: it is adjacent, in
// the same partition, and has a lower sequence.
func (f *feed) cutOff(i int) bool {
	if i+1 == len(f.parts) {
		return false
	}
	e, rest := &f.parts[i], &f.parts[i+1]
	rt := f.c.routing.Load()
	p := rt.parts[rt.table.Find(&e.rng.Min)]
	return rest.seq < e.seq && rest.rng.Min == e.rng.Max && rest.rng.Min.Compare(&p.rng.Max) < 0
}

// window returns the end of a partition's window: up to there, changes are visible
// and durable. The window stays the same until seq has reached its end.
func (f *feed) window(p *partition, seq uint64) (uint64, error) {
	if to := f.windows[p.id]; to > seq {
		return to, nil
	}
	to := min(p.visible.Load(), f.limit(p))
	db := f.c.db
	if to <= seq || db.log == nil {
		return to, nil
	}
	if durable, lazy := p.durable(); durable < to {
		if f.o.Follow && time.Since(f.synced) < feedSyncEvery {
			return 0, errLate
		}
		if err := db.log.Wait(lazy, true); err != nil {
			return 0, db.uncertain(err)
		}
		f.synced = time.Now()
	}
	f.windows[p.id] = to
	return to, nil
}

// durable returns a sequence: the visible writes up to it survive a crash. Once the
// log is synced up to lazy, all writes that are visible now survive one.
func (p *partition) durable() (seq uint64, lazy wal.Position) {
	visible := p.visible.Load()
	if p.db.log == nil {
		return visible, 0
	}
	// Writes that asked for a sync become visible after it.
	p.mu.Lock()
	lazy = p.mu.lazy
	p.mu.Unlock()
	if p.db.log.Synced() >= lazy {
		return visible, lazy
	}
	return p.install.flushedSeq.Load(), lazy
}

// limit returns the sequence above which nothing of a partition is shown. If the
// partition has replaced two others since the feed began, their higher limit counts.
func (f *feed) limit(p *partition) (to uint64) {
	if f.o.Follow {
		return maxSequence
	}
	for i := range f.until {
		if f.until[i].rng.Overlaps(p.rng) {
			to = max(to, f.until[i].seq)
		}
	}
	return to
}

// handOut passes the batch of a part to the body of the loop.
func (f *feed) handOut(i int, yield func(Change, error) bool) error {
	if len(f.found) == 0 {
		return nil
	}
	batch := &changeBatch{entry: i, position: Position{
		kind: positionAt, container: f.c.feedID(), since: f.since, entries: slices.Clone(f.parts),
	}}
	text := append([]byte(nil), f.text...) // a copy: the caller may keep the changes
	for j := range f.found {
		var ch Change
		ch, text = f.found[j].change(text)
		ch.batch = batch
		if !yield(ch, nil) {
			return errStopped
		}
	}
	return nil
}

// change makes a Change from the first bytes of text, and returns the rest of text.
func (n *feedFound) change(text []byte) (Change, []byte) {
	ch := Change{Kind: n.kind, Previous: n.previous}
	ch.Body, text = text[:n.body:n.body], text[n.body:]
	ch.ID, text = stringOf(text[:n.id]), text[n.id:]
	ch.Key, text = keyOf(stringOf(text[:n.pk])), text[n.pk:]
	ch.Seq = n.seq
	if n.kind < ChangeDeleted {
		ch.ETag = ETag(n.seq)
	}
	ch.Modified, ch.Expires = time.UnixMilli(n.modified), timeOf(n.expires)
	ch.Charge = cost.Read(n.body)
	return ch, text
}

// fill makes a batch. It returns false if the orders do not match the set of files
// any more: prepare must run again.
func (f *feed) fill(p *partition, e *feedEntry, to uint64) (done bool, err error) {
	db := f.c.db
	// A newer version hides one of the window, even if it lies above the window. It
	// must survive a crash: otherwise the feed would never show the hidden one.
	known, _ := p.durable()
	known = max(known, to)
	guard := db.env.epoch.Enter()
	defer guard.Leave()
	defer f.closeSources()
	v := p.version.Load()
	if p.dropped.Load() {
		return false, p.gone() // v may be empty
	}
	if floor := p.changeFloor.Load(); f.o.AllVersions && e.seq < floor {
		return false, &PositionExpiredError{Oldest: f.c.oldestPosition(f.rng)}
	}
	if ready, err := f.openSources(v, e); !ready || err != nil {
		return false, err
	}
	now := f.c.nowMillis()
	var k item.Key
	var ver item.Version
	last := e.seq
	for passed := 0; ; passed++ {
		s := f.nextSource()
		if s == nil || s.seq > to {
			break
		}
		if s.seq == last && !s.ends { // the same write, in memory and in a file
			s.next()
			continue
		}
		if passed == feedBatchPassed || len(f.found) == feedBatchItems || len(f.text) >= feedBatchBytes {
			e.seq = last
			return true, nil
		}
		if s.ends {
			// The versions of s behind this sequence are not in order yet.
			e.seq = s.seq
			return true, nil
		}
		own, err := s.read(&k, &ver)
		if err != nil {
			return false, err
		}
		last = ver.Seq
		if own && f.wants(&k) && ver.Modified >= f.since {
			if err := f.take(v, &k, &ver, known, now); err != nil {
				return false, err
			}
		}
		s.next()
	}
	e.seq = to
	return true, nil
}

// wants says whether a key is in scope and not that of a claim.
func (f *feed) wants(k *item.Key) bool {
	if f.c.isClaim(k) {
		return false
	}
	switch f.scope.kind {
	case scopeOne:
		return bytes.Equal(k.PK, f.scope.key.Encoded())
	case scopePrefix:
		return bytes.HasPrefix(k.PK, f.scope.key.Encoded())
	}
	return true
}

// take adds a version to the batch, if the feed shows it.
func (f *feed) take(v *version, k *item.Key, ver *item.Version, known uint64, now int64) error {
	epk, err := partmap.EPKFromBytes(k.EPK)
	if err != nil {
		return err
	}
	if f.o.AllVersions {
		return f.takeVersion(v, k, &epk, ver)
	}
	if !visible(ver, now) {
		return nil
	}
	var newest item.Version
	if _, found, err := v.lookup(k, &epk, known, nil, true, &newest); err != nil || !found || newest.Seq != ver.Seq {
		return err
	}
	f.add(k, ver, ChangeWritten, 0)
	return nil
}

// takeVersion adds a version to the batch of a feed of all versions.
func (f *feed) takeVersion(v *version, k *item.Key, epk *partmap.EPK, ver *item.Version) error {
	if k.OfPartition() {
		f.add(k, ver, ChangeDeletedPartition, 0)
		return nil
	}
	var old item.Version
	_, found, err := v.lookup(k, epk, ver.Seq-1, nil, true, &old)
	if err != nil {
		return err
	}
	kind, previous := ChangeCreated, uint64(0)
	if found && !old.Deleted() {
		previous = old.Seq
		// Only the store itself deletes an item that has expired.
		expired := !visible(&old, ver.Modified)
		switch {
		case ver.Deleted() && expired:
			kind = ChangeExpired
		case !expired:
			kind = ChangeReplaced
		}
	}
	if ver.Deleted() && kind != ChangeExpired {
		if previous == 0 {
			return nil // a transaction has deleted what it had created
		}
		kind = ChangeDeleted
	}
	f.add(k, ver, kind, previous)
	return nil
}

func (f *feed) add(k *item.Key, ver *item.Version, kind ChangeKind, previous uint64) {
	f.found = append(f.found, feedFound{kind: kind, previous: previous, found: found{
		seq: ver.Seq, modified: ver.Modified, expires: ver.Expires, body: len(ver.Body), id: len(k.ID), pk: len(k.PK),
	}})
	f.text = append(append(append(f.text, ver.Body...), k.ID...), k.PK...)
}
