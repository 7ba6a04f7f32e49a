package replicated

import (
	"context"
	"fmt"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/protocol"
)

// request is what the calls of a request share: its level, and what they have written and seen.
type request struct {
	level   protocol.Level
	session *client.Session
}

type requestKey struct{}

var levels = map[string]protocol.Level{
	"Strong": protocol.Strong, "BoundedStaleness": protocol.Bounded, "Session": protocol.Session,
	"ConsistentPrefix": protocol.Prefix, "Eventual": protocol.Eventual,
}

// Begin implements gateway.Sessions.
func (s *Store) Begin(ctx context.Context, level, token string) (context.Context, error) {
	if err := s.Err(); err != nil {
		return nil, unavailable(err)
	}
	r := &request{level: levels[level], session: client.NewSession()}
	if r.level == 0 {
		return nil, fmt.Errorf("%w: consistency level %q", engine.ErrInvalid, level)
	}
	if err := r.session.Join(token); err != nil {
		return nil, err
	}
	return context.WithValue(ctx, requestKey{}, r), nil
}

// Token implements gateway.Sessions.
func (s *Store) Token(ctx context.Context) string {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r.session.Token()
	}
	return ""
}

// sessionAhead is the sub-status of an answer 404 to a session that has seen what the cluster does not have.
const sessionAhead = 1002

// ahead returns a group of which the session of a request has an entry that the cluster does not have, and the newest one that there
// is. 0: no read of the request has found one.
func ahead(ctx context.Context) (group, newest uint64) {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r.session.Ahead()
	}
	return 0, 0
}

// view returns how a call reads. What this gateway has written and read for others counts for a client without a
// token too.
func (s *Store) view(ctx context.Context) client.View {
	v := s.c.View(protocol.Strong)
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		v.Also, v.Session, v.Level = v.Session, r.session, r.level
	}
	return v
}

// newest is view at the level strong.
func (s *Store) newest(ctx context.Context) client.View {
	v := s.view(ctx)
	v.Level = protocol.Strong
	return v
}
