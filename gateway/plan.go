package gateway

import (
	"errors"
	"net/http"

	"github.com/cleavestore/cleave/engine"
)

// queryPlan answers a request for the plan of a query.
func (c *call) queryPlan(k *container) error {
	return failf(http.StatusNotImplemented, "query plans are not served")
}

// planOf returns the plan of a query in JSON.
func (c *call) planOf(k *container, q *engine.Query) (string, error) {
	return "", errors.New("none")
}
