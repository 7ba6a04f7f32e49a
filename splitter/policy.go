package splitter

// Policy says when a partition is cut without being asked.
type Policy struct {
	MaxBytes int64   // a partition that holds more is cut; 0: none is
	MaxLoad  float64 // so is one that consumes more RU/s; 0: none is
}

// State is what the policy looks at.
type State struct {
	Bytes     int64   // of the documents that the partition holds
	Inherits  bool    // it still holds what its parents left it
	RefusedAt int64   // Bytes when a cut was refused last; 0: none was
	Load      float64 // RU/s that the partition consumes, sustained
}

// Due reports whether to cut the partition now. One that was refused is tried
// again when it has grown by a quarter.
func (p Policy) Due(s State) bool {
	return p.MaxBytes > 0 && s.Bytes > p.MaxBytes && !s.Inherits && (s.RefusedAt == 0 || s.Bytes/5*4 >= s.RefusedAt)
}

// Hot reports whether to cut the partition at the median of its load.
func (p Policy) Hot(s State) bool { return p.MaxLoad > 0 && s.Load > p.MaxLoad && !s.Inherits }
