package engine

import (
	"context"

	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/partmap"
)

// execQuery is a query that was checked.
type execQuery struct {
	s        *query.Select
	scope    execScope
	snapshot execSnapshot // nil: each physical partition is seen at its newest sequence
	after    *position    // results begin after it; nil: with the first
	noScan   bool         // fail if documents would have to be read one by one
}

// execScope is where a query looks.
type execScope struct {
	// key is the key of one logical partition, or the prefix of the keys of several; the
	// zero key stands for the whole container.
	key partmap.Key
	// keys are keys, or prefixes of keys, in key-space order: results have one of them.
	// nil: all in the scope may be results.
	keys []partmap.Key
	// apart says that each of keys is read for itself, however many there are.
	apart bool
}

// one says whether the scope is one logical partition of a container whose keys have
// this many levels.
func (s *execScope) one(levels int) bool { return s.key.Valid() && s.key.Len() == levels }

// progress is how far a query has come.
type progress struct {
	stats execStats
	at    position // of the newest result, if begun
	begun bool
}

// execStats counts the work of a query. Package engine documents the fields.
type execStats struct {
	Partitions                            int
	Documents, Bytes, Candidates, Matched int64
	Results                               int64
	Passes                                int
	Charge                                float64
}

// position returns the place of the newest result, nil if there was none.
func (p *progress) position() *position {
	if !p.begun {
		return nil
	}
	return &p.at
}

// begin plans a query and pins the sequences at which it reads. The caller is inside a
// call on the container, and closes the execution if err is nil. The execution writes to
// to until then.
func begin(ctx context.Context, h execHost, q *execQuery, to *progress) (*execution, error) {
	e := &execution{execQuery: *q, ctx: ctx, h: h, to: to, skip: q.s.Offset, left: q.s.Limit}
	if e.left == 0 {
		e.left = int(^uint(0) >> 1)
	}
	if e.after != nil {
		e.skip = 0
	}
	if err := e.plan(); err != nil {
		return nil, err
	}
	if err := e.pin(); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}
