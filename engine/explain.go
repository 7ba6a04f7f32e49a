package engine

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Plan says how a query would be answered.
type Plan struct {
	Scope      string          `json:"scope"` // what is looked at, as the filter narrows it
	Filter     string          `json:"filter"`
	Method     string          `json:"method"` // how the documents are found
	Order      string          `json:"order"`  // how they are put in order
	Partitions []PartitionPlan `json:"partitions"`
}

// PartitionPlan says what a query would meet in one physical partition.
type PartitionPlan struct {
	ID       PartitionID `json:"id"`
	Versions int64       `json:"versions"` // in its files and memtables, as far as they are in scope by the partition
	Runs     int         `json:"runs"`
}

// Explain says how a query would be answered, without answering it.
func (c *Container) Explain(ctx context.Context, scope Scope, q Query) (Plan, error) {
	r := c.Query(ctx, scope, q)
	r.q.NoScan = false
	e, err := r.prepare()
	if err != nil {
		return Plan{}, err
	}
	defer e.close()
	p := Plan{Scope: e.scope.String(), Filter: e.s.Where.String(), Method: "every document in scope is read", Order: "by key"}
	switch {
	case e.s.Grouped():
		p.Order = "groups by their values"
	case len(e.s.OrderBy) > 0:
		p.Order = "sorted"
	}
	guard := c.db.epoch.Enter()
	defer guard.Leave()
	rt := c.routing.Load()
	for i := range e.units {
		lo, hi := rt.table.Overlapping(e.units[i].rng)
		if e.scope.kind == scopeOne {
			lo = rt.table.Find(&e.units[i].rng.Min)
			hi = lo + 1
		}
		for _, part := range rt.parts[lo:hi] {
			v := part.version.Load()
			pp := PartitionPlan{ID: part.id, Runs: len(v.runs), Versions: int64(v.active.Versions())}
			for k := range v.frozen {
				pp.Versions += int64(v.frozen[k].Versions())
			}
			for _, run := range v.runs {
				pp.Versions += run.items()
			}
			p.Partitions = append(p.Partitions, pp)
		}
	}
	return p, nil
}

// String returns the plan as lines for people.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scope       %s\nfilter      %s\ndocuments   %s\norder       %s\n", p.Scope, p.Filter, p.Method, p.Order)
	for i, part := range p.Partitions {
		if i == 8 {
			fmt.Fprintf(&b, "…           %d more\n", len(p.Partitions)-i)
			break
		}
		fmt.Fprintf(&b, "partition   %d: %d versions in memory and %d runs\n", part.ID, part.Versions, part.Runs)
	}
	return b.String()
}

// String returns the figures on two lines for people.
func (s QueryStats) String() string {
	return fmt.Sprintf("%d results of %d matching documents in %v\n%d documents read (%d bytes) in %d partitions",
		s.Results, s.Matched, s.Elapsed.Round(time.Microsecond), s.Documents, s.Bytes, s.Partitions)
}
