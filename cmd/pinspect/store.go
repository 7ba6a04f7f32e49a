package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// errDamaged says that a store is there and cannot be opened as it is.
var errDamaged = errors.New("the store is damaged")

// openStore opens a store for reading its documents.
func openStore(ctx context.Context, dir string) (*engine.DB, error) {
	f, err := layout.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, _, err = f.LoadStore(ctx); err != nil {
		return nil, err
	}
	db, err := engine.Open(ctx, dir, &engine.Options{ReadOnly: true})
	if errors.Is(err, engine.ErrMissing) || errors.Is(err, engine.ErrCorrupt) {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return db, err
}

// openContainer returns a container that an argument names.
func openContainer(db *engine.DB, name string) (*engine.Container, error) {
	c, err := db.Container(name)
	if errors.Is(err, engine.ErrNoContainer) {
		return nil, cli.Usage(err)
	}
	return c, err
}

// openIn opens a store for reading, and a container of it.
func openIn(ctx context.Context, dir, name string) (*engine.DB, *engine.Container, error) {
	db, err := openStore(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	c, err := openContainer(db, name)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, c, nil
}

// readFailure says what the failure of a read means for the exit status.
func readFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, engine.ErrInvalid), errors.Is(err, engine.ErrTooLarge), errors.Is(err, engine.ErrNeedsScan):
		return cli.Usage(err)
	case errors.Is(err, context.Canceled), errors.As(err, new(outputError)):
		return err
	}
	return findingError{err}
}
