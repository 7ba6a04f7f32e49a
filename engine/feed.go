package engine

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
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

// feed is a running loop over changes. One goroutine uses it, except for State.
type feed struct {
	store  feedStore
	ctx    context.Context
	o      feedOptions
	wait   *follower // if it follows
	since  int64
	until  []feedEntry // without Follow: what was visible when the feed began; it shows nothing above
	synced time.Time
	parts  []feedEntry
	orders fileOrders
	tables tableOrders

	// The end of each partition's window: up to there changes are visible and durable.
	windows map[partmap.PartitionID]uint64

	sources []feedSource
	found   []feedFound
	text    []byte

	// shared is what other goroutines may read.
	shared struct {
		sync.Mutex
		parts []feedEntry
		shown int64
	}
}

// feedOptions say what a feed shows.
type feedOptions struct {
	Container   string                 // its name, for errors
	ID          uint32                 // identifies the container in positions
	Levels      int                    // of its partition keys
	Range       partmap.Range          // of the key space; if it is empty, the one EPK that it begins at
	Wants       func(k *item.Key) bool // says whether the feed shows a key of the range
	AllVersions bool
	Followers   *followers // nil: the feed ends when it has shown what was visible when it began
	MostOrdered int        // versions put in order at once; 0: feedOrderVersions
	// CaughtUp is called by Run whenever everything visible has been shown: at the end, or
	// before the feed waits. It may call Position.
	CaughtUp func()
}

// feedChangeKind says what happened.
type feedChangeKind uint8

const (
	feedWritten feedChangeKind = iota // the only kind in a feed of latest versions
	feedCreated
	feedReplaced
	feedDeleted
	feedExpired
	feedDeletedPartition
)

// feedChange is a change. It may be kept.
type feedChange struct {
	Kind              feedChangeKind
	Seq, Previous     uint64 // Previous: of the version before, in a feed of all versions; 0: there was none
	Modified, Expires int64  // milliseconds
	Body, ID, PK      []byte
	Batch             *feedBatch
}

// feedBatch is what the changes of a batch have in common: their position, except for the
// sequence of one entry.
type feedBatch struct {
	position feedPosition
	entry    int // index of the entry of position that the batch belongs to
}

// Position returns the position behind the change of the batch with a sequence.
func (b *feedBatch) Position(seq uint64) feedPosition {
	p := b.position
	p.entries = slices.Clone(p.entries)
	p.entries[b.entry].seq = seq
	p.entries = joined(p.entries)
	return p
}

// feedFound is a change of a batch. Its body, id and partition key follow each other in
// feed.text.
type feedFound struct {
	kind              feedChangeKind
	seq, previous     uint64
	modified, expires int64
	body, id, pk      int
}

// feedExpiredError says that versions after a position were dropped.
type feedExpiredError struct {
	Oldest feedPosition // after which no version was dropped yet
}

// Error implements error.
func (e *feedExpiredError) Error() string { return "versions after the position were dropped" }

// newFeed begins a feed. The caller has entered the store.
func newFeed(ctx context.Context, store feedStore, from feedPosition, o feedOptions) (*feed, error) {
	f := &feed{store: store, ctx: ctx, o: o, since: from.since, orders: fileOrders{}, tables: tableOrders{}, windows: map[partmap.PartitionID]uint64{}}
	if o.Range.Empty() {
		f.o.Range.Max = successor(o.Range.Min)
	}
	if o.MostOrdered == 0 {
		f.o.MostOrdered = feedOrderVersions
	}
	if o.Followers == nil {
		f.until = f.visibleNow()
	}
	switch from.kind {
	case positionNow:
		f.parts = f.visibleNow()
	case positionAt:
		if from.container != o.ID {
			return nil, feedPositionError("of another container than " + strconv.Quote(o.Container))
		}
		var err error
		if f.parts, err = from.within(f.o.Range); err != nil {
			return nil, err
		}
	case positionTime:
		f.parts = []feedEntry{{rng: f.o.Range}}
		if o.AllVersions {
			f.parts = f.oldest()
			given := store.SequenceAt(from.since)
			if slices.ContainsFunc(f.parts, func(e feedEntry) bool { return e.seq > given }) {
				return nil, f.expired()
			}
		}
	default:
		f.parts = []feedEntry{{rng: f.o.Range}}
	}
	if o.Followers != nil {
		f.wait = o.Followers.add()
	}
	f.shared.parts = slices.Clone(f.parts)
	return f, nil
}

// visibleNow returns entries for the range of the feed, at the newest visible sequences.
func (f *feed) visibleNow() []feedEntry {
	return f.entriesAt(func(t *tree) uint64 { return t.visible.Load() })
}

// oldest returns entries for the range of the feed, at the oldest sequences after which no
// version was dropped.
func (f *feed) oldest() []feedEntry {
	return f.entriesAt(func(t *tree) uint64 { return t.changeFloor.Load() })
}

// expired returns the error of a position after which versions were dropped.
func (f *feed) expired() error {
	return &feedExpiredError{Oldest: feedPosition{kind: positionAt, container: f.o.ID, entries: f.oldest()}}
}

// entriesAt returns entries that cover the range of the feed. Each has the sequence that
// at returns for its partition.
func (f *feed) entriesAt(at func(*tree) uint64) []feedEntry {
	r := f.o.Range
	rt := f.store.Routing()
	var out []feedEntry
	for lo, hi := rt.Table().Overlapping(r); lo < hi; lo++ {
		t := rt.Partition(lo).Tree()
		e := feedEntry{rng: t.rng, seq: at(t)}
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

// Close ends a feed. It is called once.
func (f *feed) Close() {
	f.orders.close()
	if f.wait != nil {
		f.o.Followers.remove(f.wait)
	}
}

// State returns how many changes were shown, and the greatest distance, over all parts,
// from the sequence up to which the part was shown to the newest visible one. Changes
// that the feed has read but not yet passed on count as shown.
func (f *feed) State() (shown int64, behind uint64) {
	f.shared.Lock()
	defer f.shared.Unlock()
	return f.shared.shown, f.behind(f.shared.parts)
}

// note sets what State returns, after a batch.
func (f *feed) note() {
	f.shared.Lock()
	defer f.shared.Unlock()
	f.shared.parts = append(f.shared.parts[:0], f.parts...)
	f.shared.shown += int64(len(f.found))
}

// errReplaced says that other partitions have replaced a partition: its range is looked up
// again.
var errReplaced = errors.New("partition was replaced during a turn of a change feed")

// Run passes changes to show until everything visible was shown, or, if the feed follows,
// until its context ends. If show returns false, Run returns nil. Between the calls of
// show the feed holds nothing.
func (f *feed) Run(show func(feedChange) bool) error {
	for {
		shown, late := false, false
		for i := 0; i < len(f.parts); i++ {
			next, err := f.turn(i)
			if err == errReplaced {
				i--
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
			f.note()
			if !f.handOut(i, show) {
				return nil
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
			f.o.CaughtUp()
		}
		if f.wait == nil {
			return nil
		}
		if err := f.sleep(late); err != nil {
			return err
		}
	}
}

// Position returns where the feed is.
func (f *feed) Position() feedPosition {
	return feedPosition{kind: positionAt, container: f.o.ID, since: f.since, entries: joined(f.parts)}
}

// errLate says that a part has changes, but must wait until the feed may sync the
// log again.
var errLate = errors.New("change feed waits for more before it syncs the log")

// sleep waits for changes. If late is set, it waits until the feed may sync the
// log again.
func (f *feed) sleep(late bool) error {
	if late {
		timer := time.NewTimer(max(0, feedSyncEvery-time.Since(f.synced)))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-f.ctx.Done():
			return f.ctx.Err()
		case <-f.store.Closing():
			return f.store.Ended()
		}
	}
	f.wait.sleeping.Store(true)
	defer f.wait.sleeping.Store(false)
	if err := f.store.Ended(); err != nil {
		return err
	}
	if f.behind(f.parts) > 0 {
		return nil
	}
	select {
	case <-f.wait.wake:
		return nil
	case <-f.ctx.Done():
		return f.ctx.Err()
	case <-f.store.Closing():
		return f.store.Ended()
	}
}

// behind returns the greatest distance, over some parts, from the sequence up to which the
// part was shown to the newest visible one.
func (f *feed) behind(parts []feedEntry) (most uint64) {
	rt := f.store.Routing()
	for i := range parts {
		for lo, hi := rt.Table().Overlapping(parts[i].rng); lo < hi; lo++ {
			if at := rt.Partition(lo).Tree().visible.Load(); at > parts[i].seq {
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
	call, err := f.store.Enter(f.ctx)
	if err != nil {
		return turnNothing, err
	}
	defer call.Leave()
	p := f.partitionAt(&f.parts[i].rng.Min)
	t := p.Tree()
	if f.parts[i].rng.Max.Compare(&t.rng.Max) > 0 {
		f.cut(i, t.rng.Max)
	}
	e := &f.parts[i]
	to, err := f.window(p, e.seq)
	if err != nil {
		return turnNothing, err
	}
	for j := range f.parts {
		// Go no further than the next part of this partition that is ahead.
		if o := &f.parts[j]; o.seq > e.seq && o.seq < to && t.rng.Overlaps(o.rng) {
			to = o.seq
		}
	}
	if to <= e.seq {
		return turnNothing, nil
	}
	if err = p.Admit(f.ctx); err != nil {
		return turnNothing, err
	}
	for filled := fillNothing; filled != fillBatch; {
		if err = f.prepare(t, i); err != nil {
			return turnNothing, err
		}
		e = &f.parts[i]
		filled, err = f.fill(p, e, to)
		switch {
		case err != nil:
			return turnNothing, f.store.ReadError(err)
		case filled == fillReplaced:
			return turnNothing, errReplaced
		case filled == fillExpired:
			return turnNothing, f.expired()
		}
	}
	units := cost.Visit
	for j := range f.found {
		units += cost.Read(f.found[j].body)
	}
	p.Charge(units)
	switch ordered := f.orders.spend(e); {
	case ordered && e.seq < to:
		return turnAgain, nil
	case e.seq == to && f.cutOff(i):
		return turnCut, nil
	}
	return turnMore, nil
}

// partitionAt returns the partition that holds an EPK.
func (f *feed) partitionAt(at *partmap.EPK) feedPartition {
	rt := f.store.Routing()
	return rt.Partition(rt.Table().Find(at))
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
	t := f.partitionAt(&e.rng.Min).Tree()
	return rest.seq < e.seq && rest.rng.Min == e.rng.Max && rest.rng.Min.Compare(&t.rng.Max) < 0
}

// window returns the end of a partition's window: up to there, changes are visible
// and durable. The window stays the same until seq has reached its end.
func (f *feed) window(p feedPartition, seq uint64) (uint64, error) {
	t := p.Tree()
	if to := f.windows[t.id]; to > seq {
		return to, nil
	}
	to := min(t.visible.Load(), f.limit(t.rng))
	if to <= seq {
		return to, nil
	}
	if durable, lazy := p.Durable(); durable < to {
		if f.wait != nil && time.Since(f.synced) < feedSyncEvery {
			return 0, errLate
		}
		if err := f.store.Sync(lazy); err != nil {
			return 0, err
		}
		f.synced = time.Now()
	}
	f.windows[t.id] = to
	return to, nil
}

// limit returns the sequence above which nothing of a partition with a range is shown. If
// the partition has replaced two others since the feed began, their higher limit counts.
func (f *feed) limit(rng partmap.Range) (to uint64) {
	if f.wait != nil {
		return maxSequence
	}
	for i := range f.until {
		if f.until[i].rng.Overlaps(rng) {
			to = max(to, f.until[i].seq)
		}
	}
	return to
}

// handOut passes the batch of a part to the body of the loop, and returns whether the loop
// goes on.
func (f *feed) handOut(i int, show func(feedChange) bool) bool {
	if len(f.found) == 0 {
		return true
	}
	batch := &feedBatch{entry: i, position: feedPosition{
		kind: positionAt, container: f.o.ID, since: f.since, entries: slices.Clone(f.parts),
	}}
	text := append([]byte(nil), f.text...) // a copy: the caller may keep the changes
	for j := range f.found {
		n := &f.found[j]
		ch := feedChange{
			Kind: n.kind, Seq: n.seq, Previous: n.previous, Modified: n.modified, Expires: n.expires, Batch: batch,
		}
		ch.Body, text = text[:n.body:n.body], text[n.body:]
		ch.ID, text = text[:n.id:n.id], text[n.id:]
		ch.PK, text = text[:n.pk:n.pk], text[n.pk:]
		if !show(ch) {
			return false
		}
	}
	return true
}

// fillEnd is how an attempt to make a batch ends.
type fillEnd uint8

const (
	fillNothing  fillEnd = iota // the orders do not match the set of files any more: prepare must run again
	fillBatch                   // the batch is made
	fillReplaced                // other partitions have replaced the partition
	fillExpired                 // versions that the feed has not shown were dropped
)

// fill makes a batch. Errors are those of reads.
func (f *feed) fill(p feedPartition, e *feedEntry, to uint64) (fillEnd, error) {
	// A newer version hides one of the window, even if it lies above the window. It
	// must survive a crash: otherwise the feed would never show the hidden one.
	known, _ := p.Durable()
	known = max(known, to)
	t := p.Tree()
	guard := t.env.epoch.Enter()
	defer guard.Leave()
	defer f.closeSources()
	v := t.version.Load()
	if t.dropped.Load() {
		return fillReplaced, nil // v may be empty
	}
	if f.o.AllVersions && e.seq < t.changeFloor.Load() {
		return fillExpired, nil
	}
	if ready, err := f.openSources(v, e); !ready || err != nil {
		return fillNothing, err
	}
	now := f.store.NowMillis()
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
			return fillBatch, nil
		}
		if s.ends {
			// The versions of s behind this sequence are not in order yet.
			e.seq = s.seq
			return fillBatch, nil
		}
		own, err := s.read(&k, &ver)
		if err != nil {
			return fillNothing, err
		}
		last = ver.Seq
		if own && f.o.Wants(&k) && ver.Modified >= f.since {
			if err := f.take(v, &k, &ver, known, now); err != nil {
				return fillNothing, err
			}
		}
		s.next()
	}
	e.seq = to
	return fillBatch, nil
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
	if !shows(ver, now) {
		return nil
	}
	var newest item.Version
	if _, found, err := v.lookup(k, &epk, known, nil, true, &newest); err != nil || !found || newest.Seq != ver.Seq {
		return err
	}
	f.add(k, ver, feedWritten, 0)
	return nil
}

// takeVersion adds a version to the batch of a feed of all versions.
func (f *feed) takeVersion(v *version, k *item.Key, epk *partmap.EPK, ver *item.Version) error {
	if k.OfPartition() {
		f.add(k, ver, feedDeletedPartition, 0)
		return nil
	}
	var old item.Version
	_, found, err := v.lookup(k, epk, ver.Seq-1, nil, true, &old)
	if err != nil {
		return err
	}
	kind, previous := feedCreated, uint64(0)
	if found && !old.Deleted() {
		previous = old.Seq
		// Only the store itself deletes an item that has expired.
		expired := !shows(&old, ver.Modified)
		switch {
		case ver.Deleted() && expired:
			kind = feedExpired
		case !expired:
			kind = feedReplaced
		}
	}
	if ver.Deleted() && kind != feedExpired {
		if previous == 0 {
			return nil // a transaction has deleted what it had created
		}
		kind = feedDeleted
	}
	f.add(k, ver, kind, previous)
	return nil
}

// shows says whether a version is a document that has not expired.
func shows(v *item.Version, now int64) bool {
	return v.IsDocument() && (v.Expires == 0 || v.Expires > now)
}

func (f *feed) add(k *item.Key, ver *item.Version, kind feedChangeKind, previous uint64) {
	f.found = append(f.found, feedFound{
		kind: kind, seq: ver.Seq, previous: previous, modified: ver.Modified, expires: ver.Expires,
		body: len(ver.Body), id: len(k.ID), pk: len(k.PK),
	})
	f.text = append(append(append(f.text, ver.Body...), k.ID...), k.PK...)
}
