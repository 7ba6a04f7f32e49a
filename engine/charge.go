package engine

import "github.com/cleavestore/cleave/internal/cost"

// charge returns the RU of the request if it succeeds.
func (r *request) charge() float64 {
	return r.precondition.Charge(r.ifMatch, r.ver.Deleted(), len(r.ver.Body))
}

// outcome returns the RU of the request, which ended with err.
func (r *request) outcome(err error) float64 {
	if err != nil {
		return cost.Failed
	}
	return r.charge()
}
