package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/workload"
)

// inputs is where a sample comes from: NDJSON files, and containers of
// stores.
type inputs struct {
	names     []string
	container string // of stores; "": the only one
	limit     int64  // documents; 0: all
	stdin     io.Reader
	line      *cli.Line

	about   []string   // what was read, by input
	present [][]string // partition keys of the containers that were read
	read    int64      // documents of the present pass
}

// stdinName is what standard input is called in messages.
const stdinName = "standard input"

// each hands every document to add, which may keep none. What add refuses ends
// it with a findingError that names the place.
func (s *inputs) each(ctx context.Context, doing string, add func(doc []byte) error) error {
	s.read, s.about, s.present = 0, nil, nil
	for _, name := range s.names {
		if s.done() {
			break
		}
		var err error
		if name == "-" {
			err = s.lines(ctx, doing, workload.NewLines(s.stdin, stdinName, 0), 0, add)
		} else {
			err = s.named(ctx, doing, name, add)
		}
		if err != nil {
			return err
		}
	}
	s.line.Clear()
	return nil
}

func (s *inputs) done() bool { return s.limit > 0 && s.read >= s.limit }

// named reads a file or a store.
func (s *inputs) named(ctx context.Context, doing, name string, add func([]byte) error) error {
	if name == "" {
		return cli.Usagef("the name of an input is empty")
	}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) && len(s.names) > 1 {
		return cli.Usagef("there is no file or directory %s; a container of a store is named by --container", name)
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return s.store(ctx, doing, name, add)
	}
	lines, err := workload.OpenLines(name, 0)
	if err != nil {
		return err
	}
	size := int64(0)
	if info.Mode().IsRegular() {
		size = info.Size()
	}
	return s.lines(ctx, doing, lines, size, add)
}

// lines reads NDJSON and closes it. size is that of the file, 0 if it is not
// known.
func (s *inputs) lines(ctx context.Context, doing string, lines *workload.Lines, size int64, add func([]byte) error) (err error) {
	defer func() {
		if closeErr := lines.Close(); err == nil {
			err = closeErr
		}
	}()
	base := filepath.Base(lines.Name())
	s.about = append(s.about, base)
	progress := func() string {
		text := doing + " " + base
		if size > 0 {
			text += fmt.Sprintf(": %d%%", 100*lines.Consumed()/size)
		}
		return text + ", " + humanize.Count(s.read) + " documents"
	}
	for doc, err := range lines.All() {
		if err != nil {
			return findingError{err}
		}
		if err := s.take(ctx, doc, add, progress); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return findingError{lines.Refused(err)}
		}
		if s.done() {
			break
		}
	}
	return nil
}

// take hands on a document.
func (s *inputs) take(ctx context.Context, doc []byte, add func([]byte) error, progress func() string) error {
	if err := add(doc); err != nil {
		return err
	}
	if s.read++; s.read%1024 == 0 {
		s.line.Show(time.Now(), progress)
	}
	if s.read%1024 == 1 {
		return ctx.Err()
	}
	return nil
}

// store reads a container.
func (s *inputs) store(ctx context.Context, doing, dir string, add func([]byte) error) error {
	db, err := openStore(ctx, dir)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := s.choose(db, dir)
	if err != nil {
		return err
	}
	def := c.Def()
	if def.Synthetic == nil { // it is no candidate: others are judged by paths alone
		s.present = append(s.present, def.PartitionKey)
	}
	s.about = append(s.about, "container "+printable(c.Name())+" (partition key "+printable(def.KeyText())+")")
	snapshot, err := c.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snapshot.Close()
	progress := func() string {
		return doing + " container " + printable(c.Name()) + ": " + humanize.Count(s.read) + " documents"
	}
	for it, err := range snapshot.ScanAll(ctx, nil) {
		if err != nil {
			return readFailure(err)
		}
		if err := s.take(ctx, it.Body, add, progress); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return findingError{fmt.Errorf("%s: container %q: key %s, id %q: %w", dir, c.Name(), it.Key, it.ID, err)}
		}
		if s.done() {
			break
		}
	}
	return nil
}

// choose returns the container that is meant.
func (s *inputs) choose(db *engine.DB, dir string) (*engine.Container, error) {
	name := s.container
	if name == "" {
		var names []string
		for info := range db.Containers() {
			if info.Def.Kind == engine.JSON {
				names = append(names, info.Name)
			}
		}
		switch len(names) {
		case 0:
			return nil, cli.Usagef("%s: the store has no container of JSON documents", dir)
		case 1:
			name = names[0]
		default:
			return nil, cli.Usagef("%s: say with --container which of these it is: %s", dir, strings.Join(names, ", "))
		}
	}
	c, err := openContainer(db, name)
	if err == nil && c.Def().Kind != engine.JSON {
		return nil, cli.Usagef("container %q is opaque: its documents have no properties", name)
	}
	return c, err
}
