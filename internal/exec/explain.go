package exec

import (
	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/internal/termset"
	"github.com/cleavestore/cleave/partmap"
)

// Explanation says how a query would be answered. Package engine documents the fields.
type Explanation struct {
	Method, Order string
	Charge        float64
	Parts         []PartExplanation
	// Suggest are patterns that the index policy lacks, with which Method would be
	// Suggested.
	Suggest   []string
	Suggested string
	// Composite are the composite indexes that are used, SuggestComposite is one with which
	// the results would come in their order.
	Composite        []string
	SuggestComposite []index.CompositePath
}

// PartExplanation says what a query would read in one physical partition.
type PartExplanation struct {
	ID       partmap.PartitionID `json:"id"`
	Versions int64               `json:"versions"` // in its files and memtables
	Runs     int                 `json:"runs"`
	// Sources counts the files and memtable parts in which indexes name candidates. It is
	// 0 with NoIndex: then documents are read, because files have no index for the present
	// policy, or because the filter cannot use it.
	Sources    int   `json:"sources"`
	NoIndex    bool  `json:"no_index"`
	Candidates int64 `json:"candidates"` // that indexes name
}

// Explain asks the indexes, but reads no documents.
func (e *Execution) Explain() (x Explanation, err error) {
	x.Method, x.Order = e.method(), e.orderMethod()
	x.Suggest, x.Suggested = e.suggest(x.Method)
	x.Composite, x.SuggestComposite = e.composites(), e.suggestComposite()
	for i := range e.units {
		u := &e.units[i]
		err := e.inParts(e.ctx, u, func(p Part, v *lsm.Version, past lifetime.Past, lo, hi *item.Key, whole bool) error {
			px, err := e.explainPart(u, p, v, past, lo, hi, whole)
			reads := e.readsOf(&px) * cost.Read(int(v.RawBytes/max(1, px.Versions)))
			if n := len(x.Parts); u.same && n > 0 && x.Parts[n-1].ID == px.ID {
				same := &x.Parts[n-1]
				if same.Sources, same.Candidates = same.Sources+px.Sources, same.Candidates+px.Candidates; !px.NoIndex {
					x.Charge += reads
				}
				return err
			}
			x.Charge += cost.Visit + reads
			x.Parts = append(x.Parts, px)
			return err
		})
		if err != nil {
			return Explanation{}, err
		}
	}
	return x, nil
}

// readsOf estimates how many documents the query reads in a partition.
func (e *Execution) readsOf(px *PartExplanation) float64 {
	if e.Select.Where.Never() {
		return 0
	}
	reads := px.Versions
	if !px.NoIndex {
		if reads = px.Candidates; e.counts {
			reads = 0
		}
	}
	sure := e.Select.Where.Op == query.All || e.look != nil && e.look.exact
	if sure && e.Select.Limit > 0 && !e.Select.Grouped() && (len(e.Select.OrderBy) == 0 || e.byIndex()) {
		reads = min(reads, int64(e.Select.Limit+e.Select.Offset))
	}
	return float64(reads)
}

// method says how documents are found.
func (e *Execution) method() string {
	switch {
	case e.Select.Where.Never():
		return "none: the filter is true for no document"
	case e.counts && e.look.plan.Op == termset.All:
		return "counted in indexes"
	case e.counts:
		return "found and counted in indexes"
	case (e.look == nil || e.look.plan.Op == termset.All && !e.look.exact) && (e.Select.Where.Op != query.All || e.Sorts || e.Sifts):
		if e.byIndex() {
			return "documents are read in the order of the index, until enough match"
		}
		return "every document in scope is read"
	case e.byIndex() && e.look.plan.Op == termset.All:
		return "every document in scope, the first in order by the index"
	case e.look == nil || e.look.plan.Op == termset.All:
		return "every document in scope is a result"
	case e.look.exact:
		return "found in indexes"
	}
	return "candidates from indexes, then read"
}

// orderMethod says how results are put in order.
func (e *Execution) orderMethod() string {
	switch {
	case e.Select.Grouped():
		return "groups by their values"
	case e.Sorts:
		return "sorted"
	case len(e.Select.OrderBy) == 0:
		return "by key"
	case e.byIndex() && e.ordered.composite != nil:
		return "by the composite index"
	case e.byIndex():
		return "by index, the first sorted"
	}
	return "sorted"
}

// byIndex says whether an index gives the first results in their order, so that the
// others are not looked at.
func (e *Execution) byIndex() bool {
	limit := e.limit()
	return e.ordered != nil && limit > 0 && e.Select.Offset <= maxIndexOrder-limit && len(e.units) > 0 && !e.units[0].key.Valid()
}

// explainPart asks the indexes of a partition.
func (e *Execution) explainPart(u *unit, p Part, v *lsm.Version, past lifetime.Past, lo, hi *item.Key, whole bool) (PartExplanation, error) {
	px := PartExplanation{ID: p.Data().ID, Runs: len(v.Runs), Versions: int64(v.Active.Versions()), NoIndex: true}
	for k := range v.Frozen {
		px.Versions += int64(v.Frozen[k].Versions())
	}
	for _, run := range v.Runs {
		px.Versions += run.Items()
	}
	if e.look == nil {
		return px, nil
	}
	c := candidatesPool.Get().(*candidates)
	defer c.release()
	c.ctx, c.lookup, c.few, c.sure = e.ctx, e.look, u.key.Valid(), true
	fits, err := c.open(p, v, u.at, past, lo, hi, whole)
	px.NoIndex = !fits
	px.Sources, px.Candidates = len(c.sources), c.found
	return px, err
}
