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
	// cut takes the power away while the child writes. It is called before the child
	// is killed.
	cut() error
	// again makes what is durable readable, after the child's end.
	again() error
	// full takes the space of what lies below the store, but for a little, and
	// returns the file that does: when it goes, the space is back.
	full() (ballast string, err error)
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
func (p *plain) full() (string, error) {
	return "", fmt.Errorf("%s: a directory is not filled", p.root)
}
func (p *plain) remove() { os.RemoveAll(p.root) }

// fill makes a file that leaves some bytes of its file system free.
func fill(name string, leave int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	piece := make([]byte, 1<<20)
	var n int64
	for err == nil {
		_, err = f.Write(piece)
		n += int64(len(piece))
	}
	return f.Truncate(max(n-int64(len(piece))-leave, 0))
}
