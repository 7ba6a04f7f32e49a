package layout

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cleavestore/cleave/internal/manifest"
)

// StoreAround returns the directory of the store in which a directory lies, or that it is; "":
// it lies in none. A directory that is not there, or cannot be read, is no store.
func StoreAround(dir string) string {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return ""
	}
	for above := filepath.Dir(dir); !isStore(dir); dir, above = above, filepath.Dir(above) {
		if above == dir {
			return ""
		}
	}
	return dir
}

// isStore says whether a directory has a manifest and partitions. Other programs may name a file so.
func isStore(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, manifest.PartitionsDir)); err != nil {
		return false
	}
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		_, ok := manifest.ParseName(e.Name())
		return ok
	})
}
