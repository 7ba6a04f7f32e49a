package gateway

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway/internal/keyrange"
	"github.com/cleavestore/cleave/gateway/internal/statement"
	"github.com/cleavestore/cleave/internal/queryplan"
)

// Clients carry out queries over several physical partitions themselves, by a plan: they
// send the rewritten query to each partition and put the results together.

// queryPlan answers a request for the plan of a query.
func (c *call) queryPlan(k *container) error {
	text, parameters, err := c.readQuery()
	if err != nil {
		return err
	}
	s, err := k.parse(text, c.withFunctions(k, text, parameters))
	if err != nil {
		return err
	}
	plan, err := c.planOf(k, s)
	if err != nil {
		return k.outcome(err)
	}
	c.charge = metaCharge
	return c.answerJSON(http.StatusOK, plan)
}

// planOf returns the plan of a query, for the physical partitions in which its filter can be
// true.
func (c *call) planOf(k *container, s *statement.Statement) (*queryplan.Plan, error) {
	p, err := queryplan.Of(s.Text, s.Parameters)
	if err != nil {
		return nil, badf("%v", err)
	}
	parts, before := k.ranges(c.o.Clock(), false)
	if c.planning != nil {
		c.planning()
	}
	explained, err := k.items.Explain(c.ctx, engine.AllPartitions(), s.Query)
	if err != nil {
		return nil, err
	}
	// If partitions split or merge meanwhile, Explain speaks of others than parts has.
	if _, after := k.ranges(c.o.Clock(), false); after != before {
		return p, nil
	}
	version := k.record.Definition.PartitionKey.Version
	var some []queryplan.Range
	for i := range parts {
		if slices.ContainsFunc(explained.Partitions, func(p engine.QueryPartitionPlan) bool { return rangeID(p.ID) == parts[i].ID }) {
			some = append(some, queryplan.Range{Min: keyrange.Show(version, parts[i].Min), Max: keyrange.Show(version, parts[i].Max), MinInclusive: true})
		}
	}
	if n := len(some); n > 0 && n < len(parts) {
		p.Ranges = some
	}
	return p, nil
}

// planText returns a plan in JSON, "" if there is none.
func (c *call) planText(k *container, s *statement.Statement) string {
	plan, err := c.planOf(k, s)
	if err != nil {
		return ""
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return ""
	}
	return string(text)
}
