package exec

import (
	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/termset"
)

// A plan is wide in a file if evaluating it walks many terms: c.price > 10 may have as
// many as there are documents. Then it can take less to test documents one after the
// other, above all if only a few results are wanted. Which is less depends on how many
// documents match, which is known when it is too late. So a source with a wide plan
// guesses first: it takes all documents for candidates, until so many of them have not
// matched that evaluating the plan had taken no longer. Then it evaluates the plan. This
// takes at most twice as long as the better of both.
//
// The pages of a query are queries by themselves. index.Kept remembers for each file what
// the pages before have spent on guesses, and the evaluated plan. So all pages together
// evaluate the plan at most once, as long as it is kept.
const (
	// firstGuess is the number of ordinals of the first guess, leastGuess the least number
	// of any.
	firstGuess, leastGuess = 256, 8
	// Testing a document takes 1/testShare of what reading and testing it takes.
	testShare = 3
)

// worth returns how many documents can be tested in the time that evaluating a plan takes.
func worth(plan *termset.Plan, r *index.Reader) (int64, error) {
	terms, err := plan.Terms(r)
	return terms / Limits.TermsPerDocument, err
}

// weigh sets s.worth.
func (c *candidates) weigh(s *candidateSource, plan *termset.Plan) error {
	s.plan, s.worth = plan, 0
	if len(plan.Spans)+len(plan.Sub) == 0 {
		return nil
	}
	return s.Use(func(r *index.Reader) (err error) {
		s.worth, err = worth(plan, r)
		c.worth += s.worth
		return err
	})
}

// isWide says that the plan of a source is wide, in all sources of all units together, of which
// this one is taken for the mean: see Limits.
func (c *candidates) isWide(s *candidateSource) bool {
	return s.worth > 0 && c.worth*int64(max(1, c.units)) >= Limits.Wide
}

// toSpend returns how many documents that do not match may still be tested in place of
// evaluating the plan, given what the pages before have spent.
func (s *candidateSource) toSpend(spent int64) int64 { return s.worth - spent - s.spent() }

// spent is what the query has spent on guesses.
func (s *candidateSource) spent() int64 { return s.missed + s.met/testShare }

// guess returns the candidates among the ordinals of a source with a wide plan from lo, to
// one that it chooses. s.guessed says whether they are a guess.
func (c *candidates) guess(s *candidateSource, r *index.Reader, lo, hi uint32) (set *index.Set, to uint32, err error) {
	q := s.plan.Question()
	kept, _, spent := c.kept.Set(r, q)
	s.guessed = false
	if kept != nil {
		set = c.sets.Get(lo, hi)
		set.Take(kept)
		return set, hi, nil
	}
	left := s.toSpend(spent)
	switch {
	case int64(hi-lo) <= left:
		to = hi
	case left <= 0 || !c.stepwise && c.order == nil:
		set, err = c.answer(s.plan, r, lo, hi)
		return set, hi, err
	case c.order != nil:
		to = hi // restrict takes only the first of them
	default:
		if s.guesses == 0 {
			s.guesses = firstGuess
		}
		to = lo + uint32(min(int64(s.guesses), int64(hi-lo), max(left, leastGuess)))
		s.guesses = stepAfter(s.guesses, s.hi)
	}
	s.guessed = true
	set = c.sets.Get(lo, to)
	set.Fill()
	return set, to, nil
}

// answer evaluates a plan for the ordinals from lo to hi, and keeps its set if other pages
// may ask for it.
func (c *candidates) answer(plan *termset.Plan, r *index.Reader, lo, hi uint32) (*index.Set, error) {
	items := r.Info().Items
	if !c.paged || int64(items)/8 > index.KeptBytes/2 {
		return c.sets.Eval(plan, r, lo, hi)
	}
	q := plan.Question()
	if kept, _, _ := c.kept.Set(r, q); kept != nil {
		set := c.sets.Get(lo, hi)
		set.Take(kept)
		return set, nil
	}
	all, err := c.sets.Eval(plan, r, 0, items)
	if err != nil {
		return nil, err
	}
	c.kept.Keep(r, q, all)
	if lo == 0 && hi == items {
		return all, nil
	}
	set := c.sets.Get(lo, hi)
	set.Take(all)
	c.sets.Put(all)
	return set, nil
}

// tested counts the documents of the current source that were tested since the last call.
func (c *candidates) tested() {
	if c.tests == nil {
		return
	}
	if c.current != nil && c.current.guessed {
		missed := c.tests.missed - c.missed
		c.current.missed += missed
		c.current.met += c.tests.documents - c.seen - missed
	}
	c.missed, c.seen = c.tests.missed, c.tests.documents
}

// settle tells the pages that follow what a source has spent on guesses.
func (c *candidates) settle(s *candidateSource) {
	if n := s.spent(); n > 0 && c.isWide(s) && c.paged && s.Source != nil && s.Index != nil {
		c.kept.Spend(s.Index, s.plan.Question(), n)
	}
}

// present returns the ordinals of an index that the plan of termset.ValuesAt gives. all says that
// these are all ordinals: then the set may be nil.
func (c *candidates) present(r *index.Reader, plan *termset.Plan, lo, hi uint32) (set *index.Set, all bool, err error) {
	q := plan.Question()
	kept, full, _ := c.kept.Set(r, q)
	if full {
		return nil, true, nil
	}
	if set = c.sets.Get(lo, hi); kept != nil {
		set.Take(kept)
		return set, false, nil
	}
	items := r.Info().Items
	every := c.sets.Get(0, items)
	defer c.sets.Put(every)
	n, err := r.UnionCount(lsm.OrBackground(c.sets.Ctx), plan.Spans[0], every)
	c.sets.Terms += n
	if err != nil {
		return set, false, err
	}
	full = c.kept.Keep(r, q, every)
	set.Take(every)
	return set, full, nil
}
