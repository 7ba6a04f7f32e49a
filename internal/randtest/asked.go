package randtest

import "context"

// AskedContext is done once its Err has been asked more than Left times.
type AskedContext struct {
	context.Context
	Left int
}

// Err implements context.Context.
func (c *AskedContext) Err() error {
	if c.Left--; c.Left < 0 {
		return context.Canceled
	}
	return c.Context.Err()
}
