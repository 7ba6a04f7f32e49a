package client

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cleavestore/cleave/engine"
)

// Session is what has been written and seen, as an entry of each group. Reads at the level
// Session see at least that. Its methods are safe for concurrent use.
//
// An entry of a group stays true when the group splits. The right half begins behind the entry
// of the split with all that the whole group had. So a replica of the right half has everything
// of its keys that was seen of the whole group, and a read demands nothing of a group that the
// session does not have. Later entries of the whole group, which goes on as the left
// half, do not concern the right half.
//
// A session may have a group that the client does not know, from a token of another client that
// has heard of a split. Then the client asks the nodes. If none knows the group, reads at the level Session are strong: a quorum tells the replica
// that is asked of the split.
type Session struct {
	mu     sync.Mutex
	at     map[uint64]uint64
	joined map[uint64]bool   // groups from tokens, until the client is known to know them
	behind map[uint64]uint64 // groups that a read at the level Session has found behind the session: the entry that they had
}

// NewSession returns a session that has seen nothing.
func NewSession() *Session {
	return &Session{at: make(map[uint64]uint64), joined: make(map[uint64]bool), behind: make(map[uint64]uint64)}
}

// Session returns the client's own session, in which its methods are. It is monotonic: reads at
// the level Session never go back behind what the client has written or read before, at any level.
func (c *Client) Session() *Session { return c.own }

// Token returns the session as a text: group:-1#entry for each group, with commas between
// them. It is empty if nothing has been seen.
func (s *Session) Token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, group := range slices.Sorted(maps.Keys(s.at)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d:-1#%d", group, s.at[group])
	}
	return b.String()
}

// maxToken bounds the groups of a token.
const maxToken = 100_000

// Join adds what a token says to the session. Error: engine.ErrInvalid; then nothing is added.
func (s *Session) Join(token string) error {
	if token == "" {
		return nil
	}
	if strings.Count(token, ",") >= maxToken {
		return fmt.Errorf("%w: the session token has more than %d groups", engine.ErrInvalid, maxToken)
	}
	more := make(map[uint64]uint64)
	for part := range strings.SplitSeq(token, ",") {
		id, rest, found := strings.Cut(part, ":-1#")
		group, err := strconv.ParseUint(id, 10, 64)
		index, other := strconv.ParseUint(rest, 10, 64)
		if !found || err != nil || other != nil || group == 0 {
			return fmt.Errorf("%w: %.80q in a session token", engine.ErrInvalid, part)
		}
		more[group] = max(more[group], index)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for group, index := range more {
		if _, known := s.at[group]; !known {
			s.joined[group] = true
		}
		s.at[group] = max(s.at[group], index)
	}
	return nil
}

// note notes that an entry of a group was written or seen.
func (s *Session) note(group, index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[group] = max(s.at[group], index)
}

// lacking notes that a group has come to an entry only, though a read at the level Session has demanded a later one of it.
func (s *Session) lacking(group, index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind[group] = index
}

// Ahead returns a group of which the session has an entry that the cluster does not have, and the newest entry that there is: a
// quorum has confirmed to a read at the level Session that this is all. Entries were lost, such as in the promotion of
// a region, or the session is that of another cluster. A session that was found ahead stays so. 0: there is no such group.
func (s *Session) Ahead() (group, newest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for group, newest = range s.behind {
		return group, newest
	}
	return 0, 0
}

// of returns the newest entry of a group that was written or seen, 0 if none was.
func (s *Session) of(group uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[group]
}

// stranger reports whether the session has a group that is not known.
func (s *Session) stranger(known func(uint64) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for group := range s.joined {
		if known(group) {
			delete(s.joined, group)
		}
	}
	return len(s.joined) > 0
}
