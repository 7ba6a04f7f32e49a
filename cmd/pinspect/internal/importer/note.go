package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/vfs"
)

// A note says how far an import is, so that the same command goes on there after an
// interruption. It is a file beside those of the store, which ignores it, and is removed
// when the import has come to its end.
//
// Why nothing is lost or doubled: a note is written, atomically and durably, only after
// all documents before its position are durable. The log of a store has one order, and a
// synced write makes all writes before it durable; so the last document before a note is
// written synced. A crash leaves the old note or the new one, and all that either says is
// in the store. Documents behind the note that were written before the crash are written
// again by the same keys and ids.
//
// A note is believed only if the source is as it was, the container has the document that
// was written last before the note, and the sequence of the store is not lower than then.
// Otherwise the import begins with the first record, which costs time and no data.
type note struct {
	V         int    `json:"v"`
	Import    string `json:"import"` // hash of what the command line says
	Source    string `json:"source"`
	State     string `json:"source_state"` // hash of the names, sizes and times of its files
	Container string `json:"container"`
	// Of all records up to the position, over all runs.
	Read     int64 `json:"read"`
	Written  int64 `json:"written"`
	Rejected int64 `json:"rejected"`
	Bytes    int64 `json:"bytes"`
	Keyless  int64 `json:"without_key"`
	// The record at the position, and the document that was written last before it; an empty
	// ID: none was.
	At  string `json:"at"`
	Key string `json:"last_key"`
	ID  string `json:"last_id"`
	Seq uint64 `json:"last_seq"` // of the store
	// Rejects is the file of --rejects, which has so many bytes up to the position.
	Rejects      string `json:"rejects,omitempty"`
	RejectsBytes int64  `json:"rejects_bytes,omitempty"`
}

const (
	noteName    = "import.json"
	noteVersion = 1
	maxNote     = 1 << 20
	// A note is written after so many records or bytes of documents.
	noteRecords = 8192
	noteBytes   = 16 << 20
)

// identity returns the hash of what makes an import: another one has other records, or
// writes them otherwise.
func (c *Import) identity() string {
	source, err := filepath.Abs(c.Source)
	if err != nil {
		source = c.Source
	}
	text, _ := json.Marshal([]any{source, c.From, c.Container, c.paths(), c.With, c.KeepSystem, c.Opaque}) // of strings
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// sourceState returns a hash of the names, sizes and times of the files of a source: if it
// is what it was, the source has the same records in the same order. SQLite has a log
// beside its file, where a symbolic link leads. A reader may make an empty one.
func sourceState(source string) (string, error) {
	if target, err := filepath.EvalSymlinks(source); err == nil {
		source = target
	}
	h := sha256.New()
	add := func(name string, info fs.FileInfo) {
		fmt.Fprintf(h, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	}
	info, err := os.Stat(source)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		err = filepath.WalkDir(source, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || entry.Name() == "LOCK" {
				return err
			}
			file, err := entry.Info()
			if err == nil {
				add(name, file)
			}
			return err
		})
	} else {
		add("", info)
		switch log, logErr := os.Stat(source + "-wal"); {
		case logErr == nil && log.Size() > 0:
			add("-wal", log)
		case logErr != nil && !errors.Is(logErr, fs.ErrNotExist):
			err = logErr
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), err
}

// files runs do with the directory of the store.
func files(dir string, do func(vfs.FS) error) error {
	root, err := vfs.OpenRoot(dir)
	if err != nil {
		return err
	}
	if c, ok := root.(io.Closer); ok {
		defer c.Close() // nothing is written through it
	}
	return do(root)
}

// readNote returns the note of a store; nil: there is none that this program reads.
func readNote(dir string) (n *note, err error) {
	err = files(dir, func(root vfs.FS) error {
		text, readErr := vfs.ReadFile(root, noteName, maxNote)
		switch {
		case errors.Is(readErr, fs.ErrNotExist), errors.Is(readErr, vfs.ErrTooLarge):
			return nil
		case readErr != nil:
			return readErr
		}
		var read note
		if json.Unmarshal(text, &read) == nil && read.V == noteVersion {
			n = &read
		}
		return nil
	})
	return n, err
}

// write replaces the note of a store, durably.
func (n *note) write(dir string) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return files(dir, func(root vfs.FS) error {
		return vfs.WriteFileAtomic(root, noteName+".tmp", noteName, append(text, '\n'))
	})
}

// removeNote removes the note of a store, durably: one that came back after a power cut
// would make a later import of the same source skip records.
func removeNote(dir string) error {
	return files(dir, func(root vfs.FS) error {
		err := root.Remove(noteName)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		names, err := root.OpenDir(".")
		if err != nil {
			return err
		}
		return errors.Join(names.Sync(), names.Close())
	})
}

// valid tells why an import cannot go on behind the note; "": it can.
func (n *note) valid(ctx context.Context, db *engine.DB, container *engine.Container, identity, state string) (string, error) {
	if n.Import != identity {
		return "it was an import of other documents, or with other options", nil
	}
	if n.State != state {
		return "the source has changed since", nil
	}
	if n.ID == "" {
		return "", nil
	}
	key, err := engine.ParseKey(n.Key)
	if err != nil {
		return "its note, " + noteName + ", is damaged", nil
	}
	switch _, err = container.Read(ctx, key, n.ID); {
	case errors.Is(err, engine.ErrNotFound):
		return "the last document that it has written is gone", nil
	case err != nil:
		return "", err
	case db.Stats().LastSeq < n.Seq:
		return "the store has lost writes since", nil
	}
	return "", nil
}
