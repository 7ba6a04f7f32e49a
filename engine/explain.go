package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/cost"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/query"
)

// Plan says how a query would be answered.
type Plan struct {
	Scope  string `json:"scope"`  // where the query looks, narrowed by the filter
	Filter string `json:"filter"` // as it was parsed
	Method string `json:"method"` // how the documents are found
	Order  string `json:"order"`  // how the results are put in order
	// Charge estimates the request units that all results take: 2.3 for each
	// partition, and a read for each document that is looked at.
	Charge float64 `json:"charge"`
	// Partitions are the physical partitions in which the query looks.
	Partitions []PartitionPlan `json:"partitions"`
}

// PartitionPlan says what a query would read in one physical partition.
type PartitionPlan struct {
	ID       PartitionID `json:"id"`
	Versions int64       `json:"versions"` // in its files and memtables
	Runs     int         `json:"runs"`
	// Sources counts the files and memtable parts in which indexes name
	// candidates. It is 0 with NoIndex: then documents are read, because files have
	// no index for the present policy, or because the filter cannot use it.
	Sources    int   `json:"sources"`
	NoIndex    bool  `json:"no_index"`
	Candidates int64 `json:"candidates"` // that indexes name
}

// Explain says how a query would be answered. It asks the indexes, but reads no
// documents.
func (c *Container) Explain(ctx context.Context, scope Scope, q Query) (Plan, error) {
	r := c.Query(ctx, scope, q)
	r.q.NoScan = false
	e, err := r.prepare()
	if err != nil {
		return Plan{}, err
	}
	defer e.close()
	p := Plan{Scope: e.scopeText(), Filter: e.s.Where.String(), Method: e.method(), Order: e.orderMethod()}
	for i := range e.units {
		u := &e.units[i]
		err := e.inParts(e.ctx, u, func(part *partition, v *version, now int64, lo, hi *item.Key, whole bool) error {
			pp, err := e.explainPart(u, part, v, now, lo, hi, whole)
			reads := e.readsOf(&pp) * cost.Read(int(v.raw/max(1, pp.Versions)))
			if n := len(p.Partitions); u.same && n > 0 && p.Partitions[n-1].ID == pp.ID {
				same := &p.Partitions[n-1]
				if same.Sources, same.Candidates = same.Sources+pp.Sources, same.Candidates+pp.Candidates; !pp.NoIndex {
					p.Charge += reads
				}
				return err
			}
			p.Charge += cost.Visit + reads
			p.Partitions = append(p.Partitions, pp)
			return err
		})
		if err != nil {
			return Plan{}, err
		}
	}
	return p, nil
}

// scopeText describes the scope, and the keys in it that the filter leaves.
func (e *execution) scopeText() string {
	if e.keys == nil {
		return e.scope.String()
	}
	const most = 8
	text := fmt.Sprintf("%d keys of %s: ", len(e.keys), e.scope)
	for i, key := range e.keys[:min(most, len(e.keys))] {
		if i > 0 {
			text += ", "
		}
		text += key.String()
	}
	if len(e.keys) > most {
		text += ", …"
	}
	return text
}

// readsOf estimates how many documents the query reads in a partition.
func (e *execution) readsOf(pp *PartitionPlan) float64 {
	if e.s.Where.Never() {
		return 0
	}
	reads := pp.Versions
	if !pp.NoIndex {
		if reads = pp.Candidates; e.counts {
			reads = 0
		}
	}
	sure := e.s.Where.Op == query.All || e.look != nil && e.look.exact
	if sure && e.s.Limit > 0 && !e.s.Grouped() && (len(e.s.OrderBy) == 0 || e.ordered != nil) {
		reads = min(reads, int64(e.s.Limit+e.s.Offset))
	}
	return float64(reads)
}

// method says how documents are found.
func (e *execution) method() string {
	switch {
	case e.s.Where.Never():
		return "none: the filter is true for no document"
	case e.counts && e.look.plan.op == planAll:
		return "counted in indexes"
	case e.counts:
		return "found and counted in indexes"
	case e.look == nil && e.s.Where.Op == query.All:
		return "every document in scope is a result"
	case e.look == nil:
		return "every document in scope is read"
	case e.look.plan.op == planAll:
		return "every document in scope, the first in order by the index"
	case e.look.exact:
		return "found in indexes"
	}
	return "candidates from indexes, then read"
}

// orderMethod says how results are put in order.
func (e *execution) orderMethod() string {
	switch {
	case e.s.Grouped():
		return "groups by their values"
	case len(e.s.OrderBy) == 0:
		return "by key"
	case e.ordered != nil && e.s.Limit > 0 && !e.units[0].key.Valid():
		return "by index, the first sorted"
	}
	return "sorted"
}

// explainPart asks the indexes of a partition.
func (e *execution) explainPart(u *unit, p *partition, v *version, now int64, lo, hi *item.Key, whole bool) (PartitionPlan, error) {
	pp := PartitionPlan{ID: p.id, Runs: len(v.runs), Versions: int64(v.active.Versions()), NoIndex: true}
	for k := range v.frozen {
		pp.Versions += int64(v.frozen[k].Versions())
	}
	for _, run := range v.runs {
		pp.Versions += run.items()
	}
	if e.look == nil {
		return pp, nil
	}
	c := candidatesPool.Get().(*candidates)
	defer c.release()
	c.ctx, c.lookup, c.few = e.ctx, e.look, u.key.Valid()
	fits, err := c.open(p, v, u.at, now, lo, hi, whole)
	pp.NoIndex = !fits
	pp.Sources, pp.Candidates = len(c.sources), c.found
	return pp, err
}

// String returns the plan as lines for people.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scope       %s\nfilter      %s\ndocuments   %s\norder       %s\ncharge      about %.1f RU\n", p.Scope, p.Filter, p.Method, p.Order, p.Charge)
	for i, part := range p.Partitions {
		if i == 8 {
			fmt.Fprintf(&b, "…           %d more\n", len(p.Partitions)-i)
			break
		}
		fmt.Fprintf(&b, "partition   %d: %d versions in %d runs and memory", part.ID, part.Versions, part.Runs)
		if !part.NoIndex {
			fmt.Fprintf(&b, "; indexes name %d candidates in %d places", part.Candidates, part.Sources)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// String returns the figures on two lines for people.
func (s QueryStats) String() string {
	return fmt.Sprintf("%d results of %d matching documents in %v, %.1f RU\n%d documents read (%d bytes), %d named by indexes, in %d partitions",
		s.Results, s.Matched, s.Elapsed.Round(time.Microsecond), s.Charge, s.Documents, s.Bytes, s.Candidates, s.Partitions)
}
