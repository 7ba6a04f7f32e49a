package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cleavestore/cleave/internal/workload"
)

// catalog remembers, in a file beside those of the store, which generator
// filled a container, so that a later run knows the ids and keys without
// reading them.
type catalog struct {
	V          int               `json:"v"`
	Containers map[string]origin `json:"containers"`
}

// origin says what the documents of a container are.
type origin struct {
	Generator workload.Params `json:"generator"`
	Documents int64           `json:"documents"` // those with indexes below it exist
}

const (
	catalogName    = "pbench.json"
	catalogVersion = 1
)

// readCatalog returns the catalog of a store; an absent one is empty.
func readCatalog(dir string) (catalog, error) {
	c := catalog{V: catalogVersion}
	name := filepath.Join(dir, catalogName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("%s: %w; delete it to go on", name, err)
	}
	if c.V != catalogVersion {
		return c, fmt.Errorf("%s: version %d: this program knows version %d; delete it to go on", name, c.V, catalogVersion)
	}
	return c, nil
}

// setOrigin notes the origin of a container; nil: it has none.
func setOrigin(dir, container string, o *origin) error {
	c, err := readCatalog(dir)
	if err != nil {
		return err
	}
	_, known := c.Containers[container]
	if o == nil && !known {
		return nil
	}
	if c.Containers == nil {
		c.Containers = make(map[string]origin)
	}
	delete(c.Containers, container)
	if o != nil {
		c.Containers[container] = *o
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, catalogName)
	if err := os.WriteFile(name+".tmp", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}
