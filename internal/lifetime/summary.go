package lifetime

import "math"

// Summary says when versions expire, for estimates. The zero Summary is that of none.
type Summary struct {
	Own     Spread // of versions with a time of their own: when they expire
	Default Spread // of other versions, where they follow the default: when they were written
}

// Spread is a number of time stamps, in milliseconds.
type Spread struct{ Items, First, Last int64 }

// Join adds a share, from 0 to 1, of another summary. Of what expires it rounds up: a part may have all of it.
func (s *Summary) Join(of *Summary, share float64) {
	s.Own.join(of.Own, int64(math.Ceil(float64(of.Own.Items)*share)))
	if of.Default.Items > 0 { // the share is an estimate, and Aged is none
		s.Default.join(of.Default, max(1, int64(float64(of.Default.Items)*share)))
	}
}

// Gone estimates how many versions have expired.
func (s *Summary) Gone(p Past) int64 { return s.Own.upTo(p.Expired) + s.Default.upTo(p.Before-1) }

// Aged says whether a version without a time of its own may have expired. Unlike Gone it is no
// estimate: if it is false, none has.
func (s *Summary) Aged(p Past) bool { return s.Default.Items > 0 && s.Default.First < p.Before }

// join adds n stamps between those of another spread.
func (s *Spread) join(of Spread, n int64) {
	if n == 0 {
		return
	}
	if s.Items == 0 {
		s.First, s.Last = of.First, of.Last
	}
	s.Items += n
	s.First, s.Last = min(s.First, of.First), max(s.Last, of.Last)
}

// upTo estimates how many stamps are at or before a time, as if they were spread evenly: one at
// least if the first is.
func (s *Spread) upTo(at int64) int64 {
	switch {
	case s.Items == 0 || at < s.First:
		return 0
	case at >= s.Last:
		return s.Items
	}
	return max(1, int64(float64(s.Items)*float64(at-s.First)/float64(s.Last-s.First)))
}
