package exec

import (
	"context"
	"slices"
	"sync"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/internal/termset"
)

// candidates is a cursor over the documents of a partition that a plan names, in key
// order. It follows the rules of lsm.Cursor: from open to close it is used inside epoch
// guards in which its version is still that of the partition.
type candidates struct {
	*lookup
	few   bool // the scope is one logical partition
	order *indexOrder

	ctx     context.Context // nil: never cancelled
	sets    termset.Sets
	set     lsm.Sources
	version *lsm.Version // nil: closed
	lo, hi  *item.Key
	limits  [2]item.KeyCopy // buffers of lo and hi
	fits    bool            // the sources of version have indexes for the policy
	opened  bool            // they are open, and at no key yet
	sources []*candidateSource
	free    []*candidateSource // for reuse
	current *candidateSource
	failure error
	found   int64  // candidates that the plan named, of all sources
	counted int64  // how many of these were only counted
	learnt  int64  // see alike.bytes
	keys    []byte // order keys of candidateSource.hits
	lent    bool   // others have keys too
	ties    int    // how many candidates of candidateSource.tied, the first by key, are still wanted; 0: all
	// onlyCount says that only the number of candidates is wanted.
	onlyCount bool
	// stepwise says that the caller may stop after a few candidates: the plan is
	// evaluated for further ordinals only as next needs them.
	stepwise bool
	paged    bool        // other queries are likely to ask for more of the same
	sure     bool        // only what the plan gives may be candidates: nothing is guessed
	kept     *index.Kept // of the store
	tests    *tester     // of the candidates; nil: it is not known which match
	missed   int64       // tests.missed at the last call of tested
	seen     int64       // tests.documents at that call
	worth    int64       // of all sources
	units    int         // of the query
}

// Each step of ordinals that are evaluated is stepGrowth times as long as the one before.
const stepGrowth = 8

// stepAfter returns the size of the step after a step, at most hi.
func stepAfter(step, hi uint32) uint32 {
	if step > hi/stepGrowth {
		return hi
	}
	return step * stepGrowth
}

var candidatesPool = sync.Pool{New: func() any { return new(candidates) }}

// release returns c to the pool, with its buffers.
func (c *candidates) release() {
	c.close()
	c.sets.Ctx = nil
	c.sets.Terms = 0
	keys := c.keys[:0]
	if c.lent {
		keys = nil
	}
	*c = candidates{sets: c.sets, set: c.set, limits: c.limits, sources: c.sources, free: c.free, keys: keys}
	candidatesPool.Put(c)
}

// lookup says how indexes answer a query.
type lookup struct {
	policy *index.Compiled
	plan   *termset.Plan
	exact  bool // every document that the plan names is wanted

	composites []string // composite indexes that the plan uses
}

// candidateSource is a source with the candidates that the plan names in it.
type candidateSource struct {
	*lsm.Source
	lo, hi uint32           // the ordinals in scope
	lazy   bool             // the plan is evaluated step by step
	next   *candidateSource // lazy: whose keys come after all of this one's; it waits until this one is at its end
	to     uint32           // the plan was evaluated for the ordinals before it
	step   uint32           // number of ordinals to evaluate next
	set    *index.Set       // ordinals of the candidates; nil: a memtable without an index
	hits   []orderHit       // candidates in set whose order key is known from a term, by ordinal
	tied   []uint32         // candidates in set with the last term that was taken: see ties
	count  int64            // number of candidates in set
	full   bool             // set has all ordinals from lo to hi
	alike  *alike           // what is learnt of the candidates' order; nil: nothing
	loose  bool             // set is of indexOrder.rest: the order selects those with a term of its span

	plan    *termset.Plan // that gives set
	worth   int64         // see termset.Plan.worth
	guessed bool          // candidates may not match even if the plan is exact
	missed  int64         // documents that have not matched, while guessed
	met     int64         // documents that have matched, while guessed
	guesses uint32        // number of ordinals to guess next; 0: firstGuess

	ok  bool
	at  uint32
	mem memtable.Cursor // over a memtable without an index
	end *item.Key       // of mem; nil: none
	key item.Key
	ver item.Version
}

// begin makes a context that of the candidates.
func (c *candidates) begin(ctx context.Context) { c.ctx, c.sets.Ctx, c.set.Ctx = ctx, ctx, ctx }

// open is prepare, and leaves out what is not needed in an order.
func (c *candidates) open(p Part, v *lsm.Version, at uint64, past lifetime.Past, lo, hi *item.Key, whole bool) (bool, error) {
	fits, err := c.prepare(p, v, at, past, lo, hi, whole)
	if !fits || err != nil {
		return false, err
	}
	if c.order != nil {
		if err := c.order.restrict(c); err != nil {
			return false, err
		}
	}
	c.name()
	return true, nil
}

// name counts the candidates that were found.
func (c *candidates) name() {
	for _, s := range c.sources {
		if s.set != nil && !s.guessed {
			c.found += s.count
		}
	}
}

// prepare evaluates the plan for the keys from lo, inclusive, to hi, exclusive, which all
// belong to the partition. whole says that these are all keys of the partition. prepare
// returns false if indexes cannot answer, for instance because a file has no index for
// the policy: then the documents must be read.
func (c *candidates) prepare(p Part, v *lsm.Version, at uint64, past lifetime.Past, lo, hi *item.Key, whole bool) (bool, error) {
	c.close()
	c.version, c.sets.Ctx = v, c.ctx
	c.lo, c.hi, c.kept = lo, hi, &p.Data().Env.Kept
	if err := c.set.Open(p.Data(), v, at, past, c.policy, !c.few, lo, hi); err != nil {
		return false, err
	}
	c.set.Ctx = c.ctx
	for _, s := range c.set.List {
		if s.Table == nil && !s.Indexed() {
			return false, nil
		}
	}
	p.Data().Sought(v, c.set.Runs())
	for _, s := range c.set.List {
		if err := c.add(s, at, whole); err != nil {
			return false, err
		}
	}
	for i, cs := range c.sources {
		if cs.set == nil {
			continue // a memtable without an index
		}
		if c.onlyCount && c.few && (!cs.VectorsKnown() || cs.worth > int64(cs.hi-cs.lo)) {
			return false, nil
		}
		if c.stepwise && c.order == nil && !c.sure {
			cs.lazy, cs.to, cs.step = true, cs.lo, Limits.FirstStep
			if i > 0 && cs.Follows(c.sources[i-1].Source) {
				c.sources[i-1].next = cs
			}
			continue
		}
		if err := c.evaluate(cs, cs.lo, cs.hi); err != nil {
			return false, err
		}
		if cs.full {
			cs.count = int64(cs.hi - cs.lo)
		} else {
			cs.count = int64(cs.set.Count())
		}
		if cs.count > 0 && c.onlyCount && c.few {
			if err := c.checkPartition(cs); err != nil {
				return false, err
			}
		}
	}
	c.dropEmpty()
	c.fits = true
	return true, nil
}

// add adds a source, unless it has no ordinals in scope, or its candidates were only to be
// counted, and are.
func (c *candidates) add(s *lsm.Source, at uint64, whole bool) (err error) {
	cs := c.source(s)
	if s.Table != nil {
		cs.mem.Reset(s.Table, at)
		if s.Clip != nil && item.Compare(&s.Clip.Hi, c.hi) < 0 {
			cs.end = &s.Clip.Hi
		}
		c.sources = append(c.sources, cs)
		return nil
	}
	if cs.lo, cs.hi = s.Lo, s.Hi; !whole {
		cut := s.Cut
		if c.few {
			cut = s.CutPartition
		}
		if cs.lo, cs.hi, err = cut(c.lo, c.hi); err != nil {
			return err
		}
	}
	if cs.lo >= cs.hi {
		c.spare(cs)
		return nil
	}
	cs.to = cs.hi
	if c.onlyCount && !c.few {
		known, err := c.countTerms(cs)
		if err != nil {
			return err
		}
		if known {
			c.counted += cs.count
			c.spare(cs)
			return nil
		}
	}
	cs.set = c.sets.Get(cs.lo, cs.lo)
	c.sources = append(c.sources, cs)
	return c.weigh(cs, c.planOf(cs))
}

// dropEmpty drops the sources without candidates.
func (c *candidates) dropEmpty() {
	kept := c.sources[:0]
	for _, cs := range c.sources {
		if cs.set != nil && !cs.lazy && cs.count == 0 {
			c.spare(cs)
			continue
		}
		kept = append(kept, cs)
	}
	clear(c.sources[len(kept):])
	c.sources = kept
}

// source returns an empty candidateSource for a source.
func (c *candidates) source(s *lsm.Source) *candidateSource {
	cs := new(candidateSource)
	if n := len(c.free); n > 0 {
		cs, c.free = c.free[n-1], c.free[:n-1]
	}
	cs.Source, cs.end = s, c.hi
	return cs
}

// spare keeps a candidateSource for reuse.
func (c *candidates) spare(s *candidateSource) {
	s.mem.Reset(nil, 0)
	if s.set != nil {
		c.sets.Put(s.set)
	}
	*s = candidateSource{mem: s.mem, hits: s.hits[:0], tied: s.tied[:0]}
	c.free = append(c.free, s)
}

// extend evaluates the next step of a source, from its present ordinal or the end of the
// last step, whichever is later.
func (c *candidates) extend(s *candidateSource) error {
	lo := max(s.at, s.to)
	s.to = s.hi
	if !c.isWide(s) && s.hi-lo > s.step {
		s.to = lo + s.step
		if s.to > Limits.FirstStep {
			s.to &^= Limits.FirstStep - 1 // end at a container of the bitmap
		}
		s.step = stepAfter(s.step, s.hi)
	}
	err := c.evaluate(s, lo, s.to)
	n := int64(s.set.Count())
	if s.count += n; !s.guessed {
		c.found += n
	}
	return err
}

// planOf returns the plan that a source evaluates.
func (c *candidates) planOf(s *candidateSource) *termset.Plan {
	if o := c.order; o != nil && o.rest != nil && !c.few && int64(s.hi-s.lo) > int64(o.most) {
		s.loose = true
		return o.rest
	}
	return c.plan
}

// evaluate sets s.set to the candidates among the ordinals of a source from lo,
// inclusive, to hi, exclusive. It leaves dead versions out. For one logical partition
// (few) it keeps versions that other sources overwrite, unless the candidates are only
// counted: move checks each of them. Where it fails it may leave any set, but one that no other
// source has, and not nil, which is for memtables.
func (c *candidates) evaluate(s *candidateSource, lo, hi uint32) error {
	plan := s.plan
	c.sets.Put(s.set)
	s.set = nil // a memory fault ends Use before there is another
	err := s.Use(func(r *index.Reader) (err error) {
		switch {
		case !c.isWide(s):
			s.set, err = c.sets.Eval(plan, r, lo, hi)
		case c.sure:
			s.set, err = c.answer(plan, r, lo, hi)
		default:
			s.set, hi, err = c.guess(s, r, lo, hi)
			s.to = hi
		}
		return err
	})
	if s.set == nil {
		s.set = c.sets.Get(lo, lo)
	}
	if err != nil || plan.Op != termset.All && s.set.Empty() {
		return err
	}
	if !c.few {
		if clean, cleanErr := s.Clean(); clean || cleanErr != nil {
			s.full = clean && plan.Op == termset.All && lo == s.lo && hi == s.hi
			return cleanErr
		}
	}
	dead := c.sets.Get(lo, hi)
	defer c.sets.Put(dead)
	if c.few && !c.onlyCount {
		err = s.DeadHere(dead)
	} else {
		err = s.Dead(dead, c.lo, c.hi)
	}
	s.set.AndNot(dead)
	return err
}

// checkPartition sets the count of a source to 0 if its candidates are of another logical
// partition than the scope. All candidates of the source are of the same one.
func (c *candidates) checkPartition(s *candidateSource) error {
	at, _ := s.set.Next(s.lo)
	err := s.Source.Version(at, &s.key, &s.ver)
	if err == nil && !item.SamePartition(&s.key, c.lo) {
		s.count = 0
	}
	return err
}

// countTerms counts the candidates of a source as the lengths of its postings, minus the
// dead versions in them. It returns false if it cannot: some version of the source is out
// of scope or newer than what the query sees, or a document can have several of the
// terms.
func (c *candidates) countTerms(s *candidateSource) (known bool, err error) {
	if !c.exact || !s.whole() || !c.plan.Countable() || s.MaxSeq() > s.Source.Set.At {
		return false, nil
	}
	clean, err := s.Clean()
	if err != nil {
		return false, err
	}
	var dead *index.Set
	if !clean {
		dead = c.sets.Get(s.lo, s.hi)
		defer c.sets.Put(dead)
		if err = s.Dead(dead, c.lo, c.hi); err != nil {
			return false, err
		}
	}
	err = s.Use(func(r *index.Reader) (err error) {
		s.count, known, err = c.plan.CountTerms(&c.sets, r, dead)
		return err
	})
	c.found += s.count
	return known, err
}

// whole says whether all versions of the source are in scope.
func (s *candidateSource) whole() bool { return s.lo == 0 && s.hi == s.Index.Info().Items }

// close releases the sources.
func (c *candidates) close() {
	c.tested()
	for _, s := range c.sources {
		c.settle(s)
		c.keepOrder(s)
		c.spare(s)
	}
	clear(c.sources)
	c.set.Reset()
	c.counted, c.ties, c.worth, c.learnt = 0, 0, 0, 0
	c.version, c.fits, c.opened, c.sources, c.current, c.failure = nil, false, false, c.sources[:0], nil, nil
}

// seek goes to the first candidate at or after a key, or after it if inclusive is false.
func (c *candidates) seek(from *item.Key, inclusive bool) {
	waits := false // the source waits for the one before
	for _, s := range c.sources {
		if waits {
			s.ok, waits = false, s.next != nil
			continue
		}
		if s.set == nil {
			c.start(s, from)
		} else if from == c.lo {
			s.at = s.lo
			c.move(s)
		} else {
			at, _, err := s.Cut(from, nil)
			if err != nil {
				c.failure = err
				return
			}
			s.at = at
			c.move(s)
		}
		if !inclusive && s.ok && item.Compare(&s.key, from) == 0 {
			c.forward(s)
		}
		waits = s.ok && s.next != nil
	}
	c.pick()
}

// advance goes to the next candidate of a source, or of those that wait for it.
func (c *candidates) advance(s *candidateSource) {
	c.forward(s)
	for !s.ok && s.next != nil && c.failure == nil {
		s = s.next
		s.at = s.lo
		c.move(s)
	}
}

// start goes to the first candidate of a memtable without an index at or after a key.
func (c *candidates) start(s *candidateSource, from *item.Key) {
	if s.Clip != nil && item.Compare(from, &s.Clip.Lo) < 0 {
		from = &s.Clip.Lo
	}
	s.ok = s.mem.SeekGE(from)
	c.skipHidden(s)
}

// forward goes to the next candidate of a source.
func (c *candidates) forward(s *candidateSource) {
	if s.set == nil {
		s.ok = s.mem.Next()
		c.skipHidden(s)
		return
	}
	s.at++
	c.move(s)
}

// move goes to the first candidate of a source at or after the ordinal s.at.
func (c *candidates) move(s *candidateSource) {
	for ; ; s.at++ {
		at, ok := s.set.Next(s.at)
		for !ok && s.to < s.hi && c.failure == nil {
			if c.failure = c.extend(s); c.failure == nil {
				at, ok = s.set.Next(s.at)
			}
		}
		if s.at, s.ok = at, ok; !s.ok || c.failure != nil {
			s.ok = false
			return
		}
		var err error
		if c.stepwise || c.order != nil {
			err = s.Source.Show(s.at, &s.key, &s.ver)
		} else {
			err = s.Source.Version(s.at, &s.key, &s.ver)
		}
		if err != nil {
			c.failure, s.ok = err, false
			return
		}
		if c.few && !item.SamePartition(&s.key, c.lo) {
			s.ok = false // all of these are of another logical partition, whose EPK has the same head
			return
		}
		if !c.few || !c.hidden(s) {
			return
		}
		if c.failure == nil {
			c.failure = c.sets.Ended()
		}
	}
}

// settle goes to the first key of a memtable, at or after the present one, whose version
// no other source overwrites.
func (c *candidates) skipHidden(s *candidateSource) {
	for ; s.ok; s.ok = s.mem.Next() {
		if s.ok = item.Compare(s.mem.Key(), s.end) < 0; !s.ok {
			return
		}
		s.key, s.ver = *s.mem.Key(), *s.mem.Version()
		if !c.hidden(s) {
			return
		}
		if c.failure == nil {
			c.failure = c.sets.Ended()
		}
		if c.failure != nil {
			s.ok = false
			return
		}
	}
}

// hidden says whether another source overwrites the candidate.
func (c *candidates) hidden(s *candidateSource) bool {
	hidden, err := s.Source.Set.Deleted.Hides(&s.key, &s.ver)
	if err == nil && !hidden {
		hidden, err = s.Overwritten(&s.key)
	}
	if err != nil {
		c.failure = err
	}
	return hidden && err == nil
}

// pick finds the source with the next candidate. No two sources are at the same key: all
// versions of a key but the newest are dead.
func (c *candidates) pick() {
	c.current = nil
	for _, s := range c.sources {
		if s.ok && (c.current == nil || item.CompareNear(&s.key, &c.current.key) < 0) {
			c.current = s
		}
	}
	if c.order != nil && c.current != nil {
		c.order.key, c.order.source = c.orderKey(c.current), c.current
	}
}

func (c *candidates) Valid() bool { return c.current != nil && c.failure == nil }

func (c *candidates) Top() (*item.Key, *item.Version) { return &c.current.key, &c.current.ver }

func (c *candidates) Known() bool { return c.exact && c.current.set != nil && !c.current.guessed }

func (c *candidates) Err() error { return c.failure }

func (c *candidates) Next() {
	c.tested()
	if c.ties > 0 && c.current.isTied() {
		if c.ties--; c.ties == 0 {
			c.dropTies()
		}
	}
	c.advance(c.current)
	c.pick()
}

// isTied says whether the candidate that the source is at is in tied.
func (s *candidateSource) isTied() bool {
	_, tied := slices.BinarySearch(s.tied, s.at)
	return s.ok && tied
}

// dropTies removes the tied candidates that were not reached yet.
func (c *candidates) dropTies() {
	for _, s := range c.sources {
		skip := s != c.current && s.isTied()
		for _, at := range s.tied {
			s.set.Remove(at)
		}
		if skip {
			c.move(s)
		}
	}
}

// count returns the number of candidates; ok is false if it is not known without looking
// at each. In one logical partition, count calls match for the versions in memtables
// without an index.
func (c *candidates) count(match func(*item.Key, *item.Version) bool) (n int64, ok bool, err error) {
	if !c.exact || c.few && !c.onlyCount {
		return 0, false, nil
	}
	n = c.counted
	for _, s := range c.sources {
		if s.set != nil {
			n += s.count
			continue
		}
		if !c.few {
			return 0, false, nil
		}
		for c.start(s, c.lo); s.ok; c.advance(s) {
			if lsm.Shown(&s.ver, c.set.Past) && match(&s.key, &s.ver) {
				n++
			}
		}
	}
	return n, true, c.failure
}

// findCandidates moves the candidates to the first one of the next batch of a scan. It
// returns false if indexes cannot answer for the version.
func (s *scanner) findCandidates(p Part, v *lsm.Version, at uint64, past lifetime.Past) (bool, error) {
	c := s.candidates
	if c.version == v {
		if c.opened {
			c.opened = false
			c.seek(c.lo, true)
		} else if c.fits {
			c.Next()
		}
		return c.fits, nil
	}
	lo, hi := s.limits(&c.limits, p)
	if fits, err := c.open(p, v, at, past, lo, hi, !s.onlyKey && s.within == nil); !fits || err != nil {
		return false, err
	}
	if s.bounded && item.Compare(lo, &s.bound.Key) < 0 {
		c.seek(&s.bound.Key, s.inclusive)
	} else {
		c.seek(lo, true)
	}
	return true, nil
}

// limits returns the keys that bound the part of a partition that a scan reads. It may
// copy them into copies.
func (s *scanner) limits(copies *[2]item.KeyCopy, p Part) (lo, hi *item.Key) {
	if s.onlyKey {
		end := s.bound.Key
		end.ID = bytesOfID(s.ids.Lo)
		copies[0].Set(&end)
		end.ID = lastID(&s.ids)
		copies[1].Set(&end)
		return &copies[0].Key, &copies[1].Key
	}
	within := s.within
	if within == nil {
		within = keybounds.New(p.Data().Range, s.h.Levels())
	}
	return &within.Lo, &within.Hi
}
