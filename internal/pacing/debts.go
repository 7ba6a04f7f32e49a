package pacing

// Debts is the backlog behind a flush, compaction or rewrite.
type Debts struct {
	Buffers float64 // of a flush: part of the write buffers that is filled
	Runs    float64 // of a compaction: how far compactions of its partition are behind, 0 to 1
	Files   int     // of a rewrite: files without an index, or with a large foreign part
}

// Shares of a processor.
const (
	rewriteShare = 0.50 // with one file to be rewritten
	mostRewrite  = 0.75 // with manyFiles
	manyFiles    = 16
	mostShare    = 0.80 // of any work

	PressureFrom = 0.80 // part of the write buffers from which on writes slow down
	buffersFrom  = 0.50 // part of the write buffers above which the share of a flush grows
)

// Share returns the part of a processor that the work must get: 0 without a backlog,
// mostShare if writers wait for it or soon will. With more, no writer would be woken in time.
func (d Debts) Share() float64 {
	s := max(between(d.Buffers, buffersFrom, PressureFrom), d.Runs)
	if d.Files > 0 {
		s = max(s, rewriteShare+(mostRewrite-rewriteShare)*between(float64(d.Files), 1, manyFiles))
	}
	return min(s, mostShare)
}

// between scales n: 0 up to from, 1 from to on, linear in between.
func between(n, from, to float64) float64 { return max(0, min(1, (n-from)/(to-from))) }
