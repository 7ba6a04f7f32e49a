package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/humanize"
)

// QueryPlan says how a query would be answered.
type QueryPlan struct {
	Scope  string `json:"scope"`  // where the query looks, narrowed by the filter
	Filter string `json:"filter"` // as it was parsed
	Method string `json:"method"` // how the documents are found
	Order  string `json:"order"`  // how the results are put in order
	// Charge estimates the request units that all results take: 2.3 for each
	// partition, and a read for each document that is looked at.
	Charge float64 `json:"charge"`
	// Partitions are the physical partitions in which the query looks.
	Partitions []QueryPartitionPlan `json:"partitions"`
	// Suggest are patterns that the index policy of the container lacks. With them in
	// IndexPolicy.Include, Method would be Suggested. Empty if no index helps.
	Suggest          []string        `json:"suggest,omitempty"`
	Suggested        string          `json:"suggested,omitempty"`
	Composite        []string        `json:"composite,omitempty"`         // composite indexes that find documents or give the order
	SuggestComposite []CompositePath `json:"suggest_composite,omitempty"` // one that would give the order
}

// QueryPartitionPlan says what a query would read in one physical partition:
//
//	ID         partmap.PartitionID `json:"id"`
//	Versions   int64 `json:"versions"`   // in its files and memtables
//	Runs       int   `json:"runs"`
//	Sources    int   `json:"sources"`    // files and memtable parts in which indexes name candidates
//	NoIndex    bool  `json:"no_index"`   // documents are read: the filter or a file has no index
//	Candidates int64 `json:"candidates"` // that indexes name
type QueryPartitionPlan = exec.PartExplanation

// Explain says how a query would be answered. It asks the indexes, but reads no documents. So it does not know of strings
// that have their first 64 bytes in common: no index gives their order, and the query may read all of them.
func (c *Container) Explain(ctx context.Context, scope Scope, q Query) (QueryPlan, error) {
	r := c.Query(ctx, scope, q)
	r.q.NoScan = false
	e, narrow, err := r.prepare()
	if err != nil {
		return QueryPlan{}, err
	}
	defer e.Close()
	x, err := e.Explain()
	if err != nil {
		return QueryPlan{}, err
	}
	return QueryPlan{Scope: narrow.String(), Filter: r.selected.Where.String(), Method: x.Method, Order: x.Order, Charge: x.Charge, Suggest: x.Suggest, Suggested: x.Suggested, Composite: x.Composite, SuggestComposite: x.SuggestComposite, Partitions: x.Parts}, nil
}

// String returns the plan as lines for people.
func (p QueryPlan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scope       %s\nfilter      %s\ndocuments   %s\norder       %s\ncharge      about %.1f RU\n", p.Scope, p.Filter, p.Method, p.Order, p.Charge)
	for _, text := range p.Composite {
		fmt.Fprintf(&b, "composite   %s\n", text)
	}
	if len(p.SuggestComposite) > 0 {
		fmt.Fprintf(&b, "advice      the composite index (%s) would give the order\n", index.CompositeText(p.SuggestComposite))
	}
	for i, part := range p.Partitions {
		if i == 8 {
			fmt.Fprintf(&b, "…           %d more\n", len(p.Partitions)-i)
			break
		}
		fmt.Fprintf(&b, "partition   %d: %s in %s and memory", part.ID, humanize.Plural(part.Versions, "version", "versions"), humanize.Plural(part.Runs, "run", "runs"))
		if !part.NoIndex {
			fmt.Fprintf(&b, "; indexes name %s in %s", humanize.Plural(part.Candidates, "candidate", "candidates"), humanize.Plural(part.Sources, "place", "places"))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// String returns the figures on two lines for people.
func (s QueryStats) String() string {
	return fmt.Sprintf("%s of %s in %v, %.1f RU\n%s read (%s), %d named by indexes, in %s",
		humanize.Plural(s.Results, "result", "results"), humanize.Plural(s.Matched, "matching document", "matching documents"),
		s.Elapsed.Round(time.Microsecond), s.Charge, humanize.Plural(s.Documents, "document", "documents"),
		humanize.Plural(s.Bytes, "byte", "bytes"), s.Candidates, humanize.Plural(s.Partitions, "partition", "partitions"))
}
