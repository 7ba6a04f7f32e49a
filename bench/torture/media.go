package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// medium is where a store lies.
type medium interface {
	name() string
	dir() string // of the store
	// cut takes the power away, whoever writes. It is called before the child
	// is killed.
	cut() error
	// again makes what is durable readable, after the child's end.
	again() error
	remove()
}

// plain is a directory: there the power cannot be cut.
type plain struct{ root string }

func newPlain() (medium, error) {
	root, err := os.MkdirTemp("", "torture-")
	return &plain{root}, err
}

func (p *plain) name() string { return "directory" }
func (p *plain) dir() string  { return filepath.Join(p.root, "store") }
func (p *plain) cut() error   { return fmt.Errorf("%s: the power of a directory cannot be cut", p.root) }
func (p *plain) again() error { return nil }
func (p *plain) remove()      { os.RemoveAll(p.root) }
