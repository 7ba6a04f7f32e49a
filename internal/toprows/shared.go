package toprows

import "sync"

// Shared are the Rows of several goroutines.
type Shared struct {
	mu sync.Mutex
	Rows
}

// Offer is Rows.Offer.
func (s *Shared) Offer(r *Row) {
	s.mu.Lock()
	s.Rows.Offer(r)
	s.mu.Unlock()
}

// Wants is Rows.Wants.
func (s *Shared) Wants(key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Rows.Wants(key)
}

// Last returns a key behind which no row is kept any more, nil if there is none yet.
func (s *Shared) Last() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rows) < s.Most {
		return s.End
	}
	s.heap()
	return s.rows[0].Key
}
