package engine

import "github.com/cleavestore/cleave/internal/cost"

// writeCharge returns the RU of a write that succeeds.
func writeCharge(d precondition, ifMatch ETag, deletes bool, bytes int) float64 {
	switch {
	case deletes:
		return cost.Delete
	case d == present || d == anything && ifMatch != 0:
		return cost.Replace(bytes)
	}
	return cost.Insert(bytes)
}

// charge returns the RU of the request if it succeeds.
func (r *request) charge() float64 {
	return writeCharge(r.precondition, r.ifMatch, r.ver.Deleted(), len(r.ver.Body))
}

// outcome returns the RU of the request, which ended with err.
func (r *request) outcome(err error) float64 {
	if err != nil {
		return cost.Failed
	}
	return r.charge()
}
