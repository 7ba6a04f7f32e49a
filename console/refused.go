package console

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// refusedRow is a logical partition of which calls were refused, because they would have
// consumed more than its limit.
type refusedRow struct {
	Key     string  `json:"key"`
	Refused int64   `json:"refused"` // calls, since Since
	Limit   float64 `json:"limit_ru_per_s"`
	Units   float64 `json:"consumed_ru"` // since Since
	Wait    int64   `json:"wait_ns"`     // until the next call is admitted
	Since   int64   `json:"since"`       // milliseconds since the Unix epoch
}

// Bounds of the search for logical partitions with refused calls.
const (
	refusedRows  = 10
	refusedAsked = 128 // keys: the hottest ones, and those with limits of their own
	refusedTime  = 250 * time.Millisecond
	refusedEvery = 3 * time.Second
)

// refusedKeys keeps the logical partitions with refused calls of the containers that a page
// asked for lately. Its mutex is held while one request looks for them.
type refusedKeys struct {
	mu sync.Mutex
	of map[string]refusedFound
}

type refusedFound struct {
	taken   time.Time
	limited bool
	rows    []refusedRow
}

// find returns whether logical partitions of a container have limits of their throughput,
// and the ones with refused calls, as they were a moment ago. It asks the hottest ones and
// those with limits of their own.
func (k *refusedKeys) find(ctx context.Context, c *engine.Container) (limited bool, rows []refusedRow, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if have, ok := k.of[c.Name()]; ok && time.Since(have.taken) < refusedEvery {
		return have.limited, have.rows, nil
	}
	found := refusedFound{rows: []refusedRow{}}
	if found.limited, found.rows, err = lookForRefused(ctx, c); err != nil {
		return false, nil, err
	}
	found.taken = time.Now()
	if k.of == nil || len(k.of) > watchedContainers {
		k.of = make(map[string]refusedFound)
	}
	k.of[c.Name()] = found
	return found.limited, found.rows, nil
}

func lookForRefused(ctx context.Context, c *engine.Container) (limited bool, rows []refusedRow, err error) {
	rows = []refusedRow{}
	everyKey := c.Def().Limits.LogicalPartitionThroughput > 0
	asked := make(map[string]engine.PartitionKey)
	for key, limits := range c.LimitedKeys() {
		if limits.Throughput > 0 && len(asked) < refusedAsked/2 {
			asked[key.String()] = key
		}
	}
	if everyKey {
		for _, hot := range c.Hot(refusedAsked) {
			if len(asked) < refusedAsked {
				asked[hot.Key.String()] = hot.Key
			}
		}
	}
	limited = everyKey || len(asked) > 0
	within, cancel := context.WithTimeout(ctx, refusedTime)
	defer cancel()
	for name, key := range asked {
		u, usageErr := c.Usage(within, key, nil)
		if errors.Is(usageErr, context.DeadlineExceeded) && ctx.Err() == nil {
			break // those that were asked
		}
		if errors.Is(usageErr, engine.ErrCorrupt) {
			continue // the page shows the damage elsewhere
		}
		if usageErr != nil {
			return false, nil, usageErr
		}
		if u.Throttled > 0 {
			rows = append(rows, refusedRow{name, u.Throttled, u.Limits.Throughput, finite(u.Units), int64(u.RetryAfter), milliseconds(u.Since)})
		}
	}
	slices.SortFunc(rows, func(a, b refusedRow) int { return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Key, b.Key)) })
	return limited, cut(rows, 0, refusedRows), nil
}
