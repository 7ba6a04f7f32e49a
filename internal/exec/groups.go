package exec

import (
	"context"
	"sync"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/query"
)

// runGroups gives the results of groups and aggregates.
func (e *Execution) runGroups(yield func(*Row) bool) error {
	var mu sync.Mutex
	all := e.Select.Grouper()
	err := e.each(func() (func(context.Context, int) error, func() error) {
		groups := e.Select.Grouper()
		t := e.tester()
		accept := func(k *item.Key, v *item.Version, known bool) ([]byte, bool, error) {
			if t.match(k, v, known) {
				groups.Add(t.values())
			}
			return nil, false, checkGroups(groups)
		}
		work := func(ctx context.Context, i int) error {
			if e.counts {
				done, err := e.countUnit(ctx, &e.units[i], groups, t)
				if done || err != nil {
					return err
				}
			}
			return e.scan(ctx, &e.units[i], nil, 0, nil, accept, func(*Row) bool { return true })
		}
		return work, func() error {
			t.done()
			mu.Lock()
			defer mu.Unlock()
			all.Merge(groups)
			return checkGroups(all)
		}
	})
	if err != nil {
		return err
	}
	for _, key := range all.Keys() {
		if e.After != nil && key <= string(e.After.Order) {
			continue
		}
		var ok bool
		if e.group.Body, ok = all.Append(nil, key); !ok {
			continue
		}
		if err := e.give(&e.group, Position{Order: []byte(key)}, yield); err != nil {
			return err
		}
	}
	return nil
}

func checkGroups(g *query.Grouper) error {
	if g.Bytes() > Limits.GroupMemory {
		return &fault.LimitError{What: "groups of a query", Size: g.Bytes(), Limit: Limits.GroupMemory, Kind: fault.ErrTooLarge}
	}
	return nil
}
