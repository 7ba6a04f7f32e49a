package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
)

const (
	// maxQueryBytes bounds the results in an answer to a query; the last one may go past it.
	maxQueryBytes = 1 << 20
	// queriesAtOnce is how many queries of a client are evaluated at a time; others wait.
	queriesAtOnce = 8
	// longContinuation is the length above which a short continuation comes beside the other.
	longContinuation = 1000
)

// query answers a page of a query.
func (s *session) query(q *protocol.Request) {
	s.queries <- struct{}{}
	defer func() { <-s.queries }()
	l, err := s.lookIn(q)
	if err != nil {
		s.refuse(q, err)
		return
	}
	var p protocol.Page
	err = s.evaluate(l.c, &q.Read, &p)
	s.seen(q, l, err, func(h *protocol.Head, dst []byte) []byte { return h.AppendPage(dst, &p) })
}

// lookIn is look for a query. It is about keys in a range, of which all is to be here: what other groups of the node have may be
// behind, or be no more.
func (s *session) lookIn(q *protocol.Request) (l look, err error) {
	if l.hold, err = s.h.Hold(q.Group); err != nil {
		return l, err
	}
	if !s.h.HasRange(q.Group, q.Read.Container, q.Read.Query.Range) {
		return l, host.ErrNoGroup
	}
	l.c, err = s.h.DB().Container(q.Read.Container)
	return l, err
}

func (s *session) evaluate(c *engine.Container, r *protocol.ReadRequest, p *protocol.Page) error {
	parameters := map[string]any{}
	if len(r.Query.Parameters) > 0 {
		if err := json.Unmarshal([]byte(r.Query.Parameters), &parameters); err != nil {
			return fmt.Errorf("%w: parameters of the query: %w", engine.ErrInvalid, err)
		}
	}
	query, err := engine.ParseQuery(r.Query.Text, parameters)
	if err != nil {
		return err
	}
	scope := engine.AllPartitions()
	if r.Key.Valid() {
		scope = engine.PrefixOf(r.Key)
	}
	if scope, err = scope.Between(r.Query.Range.Min.String(), r.Query.Range.Max.String()); err != nil {
		return err
	}
	limit, left := int(min(max(r.Limit, 1), protocol.MaxResults)), query.Limit
	p.Continue, p.Done = r.Query.Continue, true
	goesOn := func(text string) string { return text }
	if query.Continue = r.Query.Continue; left > 0 { // the query has a limit of its own
		if left, query.Continue, err = cutLeft(r.Query.Continue, left); err != nil || left == 0 {
			return err
		}
		limit = min(limit, left)
		goesOn = func(text string) string { return strconv.Itoa(left-len(p.Rows)) + behindLeft + text }
	}
	if query.Limit = limit; limit != left {
		query.Limit++ // one more tells whether there are more
	}
	size := 0
	result := c.Query(s.ctx, scope, query)
	for it, failed := range result.All() {
		if failed != nil {
			return failed
		}
		if len(p.Rows) == limit || size > maxQueryBytes {
			p.Done = false
			break
		}
		p.Rows = append(p.Rows, protocol.Row{ETag: uint64(it.ETag), Body: bytes.Clone(it.Body)})
		size += len(it.Body)
		if len(p.Rows) == limit || size > maxQueryBytes {
			at := result.Continue()
			if p.Continue = goesOn(at); len(at) > longContinuation {
				p.Short = goesOn(result.ShortContinue())
			}
		}
	}
	stats := result.Stats()
	p.Documents, p.Bytes, p.Charge = uint64(stats.Documents), uint64(stats.Bytes), stats.Charge
	return nil
}

// behindLeft stands in the continuation of a query that has a limit of its own, between how many results are left of it and the
// continuation of the store.
const behindLeft = ":"

// cutLeft takes the continuation of a query with a limit apart. Without one all is left.
func cutLeft(text string, limit int) (left int, inner string, err error) {
	if text == "" {
		return limit, "", nil
	}
	before, inner, _ := strings.Cut(text, behindLeft)
	if left, err = strconv.Atoi(before); err != nil || left < 0 || left > limit {
		err = fmt.Errorf("%w: not what a query with a limit of %d gave", engine.ErrBadContinuation, limit)
	}
	return left, inner, err
}
