package engine

import (
	"fmt"

	"github.com/cleavestore/cleave/internal/definition"
)

// DefinitionError says that EnsureContainer found a container that does not match the
// definition. It matches ErrExists.
type DefinitionError struct {
	Container string
	Field     string // of ContainerDef, such as "DefaultTTL" or "Limits.ItemBytes"
	Have      string // the container's value
	Asked     string // the value that was asked for
	Change    string // how to change it
}

// Error implements error.
func (e *DefinitionError) Error() string {
	return fmt.Sprintf("container %q: %v with %s %s, asked for was %s: %s", e.Container, ErrExists, e.Field, e.Have, e.Asked, e.Change)
}

// Unwrap returns ErrExists.
func (e *DefinitionError) Unwrap() error { return ErrExists }

// compare returns a *DefinitionError for the first part of def that the container does
// not match.
func (c *Container) compare(def *definition.Def) error {
	have := c.Def()
	in := have.inner()
	if d := in.Compare(def); d != nil {
		return &DefinitionError{Container: c.name, Field: d.Field, Have: d.Have, Asked: d.Asked, Change: d.Change}
	}
	return nil
}
