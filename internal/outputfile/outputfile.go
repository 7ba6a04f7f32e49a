package outputfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/manifest"
)

// OutsideStores refuses a file or directory to be written that would lie in the directory of a store, or below it: only the store
// puts files there. Directories of stores that the caller is about to make are among dirs; "" is none. A symbolic link counts as
// what it points to.
func OutsideStores(name string, dirs ...string) error {
	at := resolve(name)
	around := storeAround(at)
	for _, dir := range dirs {
		if dir != "" && around == "" && within(at, resolve(dir)) {
			around = dir
		}
	}
	if around != "" {
		return cli.Usagef("%s would lie in the store %s: name a file outside of it", name, around)
	}
	return nil
}

// storeAround returns the directory of the store in which a file lies, or that it is; "": it lies in none. A directory that is
// not there, or cannot be read, is no store.
func storeAround(name string) string {
	for ; !isStore(name); name = filepath.Dir(name) {
		if name == filepath.Dir(name) {
			return ""
		}
	}
	return name
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

// maxLinks bounds how many symbolic links are followed that point to nothing.
const maxLinks = 40

// resolve returns an absolute path without symbolic links. What does not exist keeps its name, below the directory that does.
func resolve(name string) string {
	at, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	missing := ""
	for links := 0; ; {
		if there, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(there, missing)
		}
		if to, err := os.Readlink(at); err == nil && links < maxLinks { // a file made by this name is made there
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(at), to)
			}
			at, links = to, links+1
			continue
		}
		above := filepath.Dir(at)
		if above == at {
			return filepath.Join(at, missing)
		}
		at, missing = above, filepath.Join(filepath.Base(at), missing)
	}
}

// within says whether a path is that of a directory or of something below it.
func within(name, dir string) bool {
	rel, err := filepath.Rel(dir, name)
	return err == nil && filepath.IsLocal(rel)
}
