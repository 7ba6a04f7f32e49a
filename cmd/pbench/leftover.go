package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cleavestore/cleave/internal/vfs"
)

// runMark says what a run changes of a store and takes back at its end. It lies in
// a file beside those of the store, from before the first change until after the
// last one is taken back: what a run that was killed left behind is taken back by
// the command that opens the store next.
type runMark struct {
	V         int     `json:"v"`
	Container string  `json:"container"`
	Before    float64 `json:"throughput_before_ru_per_s"`
	During    float64 `json:"throughput_during_ru_per_s"` // 0: the run leaves it as it is
	// Checkpoints: it makes checkpoints in checkpointDir, which did not exist.
	Checkpoints bool `json:"checkpoints"`
}

const (
	runMarkName    = "pbench-run.json"
	runMarkVersion = 1
)

// begin writes the mark, durably, and makes the changes. After an error there are
// none.
func (m *runMark) begin(ctx context.Context, dir string, s store) error {
	if m.Checkpoints {
		if err := checkCheckpoints(checkpointDir(dir)); err != nil {
			return err
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	files, err := vfs.OpenRoot(dir)
	if err != nil {
		return err
	}
	if c, ok := files.(io.Closer); ok {
		defer c.Close() // nothing was written through it
	}
	if err = vfs.WriteFileAtomic(files, runMarkName+".tmp", runMarkName, append(text, '\n')); err != nil {
		return err
	}
	if m.Checkpoints {
		if err := os.Mkdir(checkpointDir(dir), 0o777); err != nil {
			return errors.Join(err, os.Remove(filepath.Join(dir, runMarkName)))
		}
	}
	if m.During > 0 {
		c, err := s.Container(m.Container)
		if err == nil {
			err = c.SetThroughput(ctx, m.During)
		}
		if err != nil {
			_, undoErr := m.undo(context.WithoutCancel(ctx), dir, s)
			return errors.Join(err, undoErr)
		}
	}
	return nil
}

// undo takes the changes back, as far as they were made, and removes the mark.
// done says what there was to take back. A throughput that somebody has set since
// stays.
func (m *runMark) undo(ctx context.Context, dir string, s store) (done []string, err error) {
	if m.During > 0 {
		c, err := s.Container(m.Container)
		if err == nil && c.Def().throughput == m.During {
			if err = c.SetThroughput(ctx, m.Before); err == nil {
				done = append(done, fmt.Sprintf("container %q has its throughput from before again", m.Container))
			}
		}
		if err != nil && !errors.Is(err, errNoContainer) {
			return done, err
		}
	}
	if m.Checkpoints {
		made := checkpointDir(dir)
		if _, err := os.Lstat(made); err == nil {
			if err := os.RemoveAll(made); err != nil {
				return done, err
			}
			done = append(done, made+" is removed")
		}
	}
	return done, os.Remove(filepath.Join(dir, runMarkName))
}

// takeBack undoes what a run left that was killed.
func takeBack(ctx context.Context, env *environment, dir string, s store) error {
	name := filepath.Join(dir, runMarkName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var m runMark
	if err = json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("%s: %w; delete it to go on", name, err)
	}
	if m.V != runMarkVersion {
		return fmt.Errorf("%s: version %d: this program knows version %d", name, m.V, runMarkVersion)
	}
	done, err := m.undo(ctx, dir, s)
	for _, what := range done {
		env.notef("a run before this one was killed: %s", what)
	}
	return err
}
