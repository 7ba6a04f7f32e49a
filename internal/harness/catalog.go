package harness

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
	Containers map[string]Origin `json:"containers"`
}

// Origin says what the documents of a container are.
type Origin struct {
	Generator workload.Params `json:"generator"`
	Documents int64           `json:"documents"` // those with indexes below it exist
}

const (
	CatalogName    = "pbench.json"
	catalogVersion = 1
)

// ReadCatalog returns the catalog of a store; an absent one is empty.
func ReadCatalog(dir string) (catalog, error) {
	c := catalog{V: catalogVersion}
	name := filepath.Join(dir, CatalogName)
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

// SetOrigin notes the origin of a container; nil: it has none.
func SetOrigin(dir, container string, o *Origin) error {
	c, err := ReadCatalog(dir)
	if err != nil {
		return err
	}
	_, known := c.Containers[container]
	if o == nil && !known {
		return nil
	}
	if c.Containers == nil {
		c.Containers = make(map[string]Origin)
	}
	delete(c.Containers, container)
	if o != nil {
		c.Containers[container] = *o
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, CatalogName)
	if err := os.WriteFile(name+".tmp", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}
