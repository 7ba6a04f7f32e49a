package harness

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

// RunMark says what a run changes of a store and takes back at its end. It lies in
// a file beside those of the store, from before the first change until after the
// last one is taken back: what a run that was killed left behind is taken back by
// the command that opens the store next.
type RunMark struct {
	V         int     `json:"v"`
	Container string  `json:"container"`
	Before    float64 `json:"throughput_before_ru_per_s"`
	During    float64 `json:"throughput_during_ru_per_s"` // 0: the run leaves it as it is
	// Checkpoints: it makes checkpoints in checkpointDir, which did not exist.
	Checkpoints bool `json:"checkpoints"`
}

const (
	RunMarkName    = "pbench-run.json"
	RunMarkVersion = 1
	// NewestCheckpoint is the directory in CheckpointDir in which a run makes each of its checkpoints.
	NewestCheckpoint = "now"
)

// Begin writes the mark, durably, and makes the changes. After an error there are
// none.
func (m *RunMark) Begin(ctx context.Context, dir string, s Store) error {
	if m.Checkpoints {
		if err := checkCheckpoints(CheckpointDir(dir)); err != nil {
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
	if err = vfs.WriteFileAtomic(files, RunMarkName+".tmp", RunMarkName, append(text, '\n')); err != nil {
		return err
	}
	if m.Checkpoints {
		if err := os.Mkdir(CheckpointDir(dir), 0o777); err != nil {
			return errors.Join(err, os.Remove(filepath.Join(dir, RunMarkName)))
		}
	}
	if m.During > 0 {
		c, err := s.Container(m.Container)
		if err == nil {
			err = c.SetThroughput(ctx, m.During)
		}
		if err != nil {
			_, undoErr := m.Undo(context.WithoutCancel(ctx), dir, s)
			return errors.Join(err, undoErr)
		}
	}
	return nil
}

// Undo takes the changes back, as far as they were made, and removes the mark.
// done says what there was to take back. A throughput that somebody has set since
// stays.
func (m *RunMark) Undo(ctx context.Context, dir string, s Store) (done []string, err error) {
	if m.During > 0 {
		c, err := s.Container(m.Container)
		if err == nil && c.Def().Throughput == m.During {
			if err = c.SetThroughput(ctx, m.Before); err == nil {
				done = append(done, fmt.Sprintf("container %q has its throughput from before again", m.Container))
			}
		}
		if err != nil && !errors.Is(err, ErrNoContainer) {
			return done, err
		}
	}
	if m.Checkpoints {
		made := CheckpointDir(dir)
		if info, err := os.Lstat(made); err == nil && info.IsDir() {
			if err := os.RemoveAll(filepath.Join(made, NewestCheckpoint)); err != nil {
				return done, err
			}
			if os.Remove(made) == nil { // it is not empty if another program has put something there since
				done = append(done, made+" is removed")
			}
		}
	}
	return done, os.Remove(filepath.Join(dir, RunMarkName))
}

// TakeBack undoes what a run left that was killed.
func TakeBack(ctx context.Context, env *Environment, dir string, s Store) error {
	name := filepath.Join(dir, RunMarkName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var m RunMark
	if err = json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("%s: %w; delete it to go on", name, err)
	}
	if m.V != RunMarkVersion {
		return fmt.Errorf("%s: version %d: this program knows version %d", name, m.V, RunMarkVersion)
	}
	done, err := m.Undo(ctx, dir, s)
	for _, what := range done {
		env.Notef("a run before this one was killed: %s", what)
	}
	return err
}

// CheckpointDir is where checkpoints of a store are made, while a run makes some: on
// the same file system, and outside of the store, which may be given as "." or by a symbolic
// link. All names of a store give the same place.
func CheckpointDir(db string) string {
	if full, err := filepath.Abs(db); err == nil {
		db = full
	}
	if target, err := filepath.EvalSymlinks(db); err == nil {
		db = target
	}
	return filepath.Clean(db) + ".checkpoint"
}

// checkCheckpoints refuses a place for checkpoints that is taken.
func checkCheckpoints(dir string) error {
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		return Usagef("--checkpoint-every makes its checkpoints in %s, which exists", dir)
	}
	return nil
}
