package engine

import (
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/internal/testenv"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

func init() {
	testenv.Put = func(options any, e *testenv.Env) {
		o := options.(*Options)
		o.env, o.clock, o.pause, o.manual = e, e.Clock, e.Pause, e.Manual
	}
}

// watch tells package cleavetest what the caller is about to open. begin is nil if no
// test wants to know.
func (db *DB) watch(what, container string) (begin func() (end func())) {
	if db.opts.env != nil {
		begin = db.watchNow(what, container)
	}
	return begin
}

// watchNow is apart, so that watch is inlined.
func (db *DB) watchNow(what, container string) (begin func() (end func())) {
	return db.opts.env.Watch(tested{db}, fmt.Sprintf("%s of container %q", what, container))
}

// tested is a DB as package cleavetest sees it.
type tested struct{ db *DB }

func (s tested) Public() any           { return s.db }
func (s tested) On() vfs.FS            { return s.db.opts.fs }
func (s tested) Close() error          { return s.db.Close() }
func (s tested) ListenerPanics() int64 { return s.db.counters.listenerPanics.Load() }

// UseUpLog implements testenv.Store.
func (s tested) UseUpLog() error {
	for s.db.log != nil { // nil: read-only
		if _, _, err := s.db.log.Append(0, wal.TypeVouch, 0, nil, nil); errors.Is(err, ErrDiskFull) {
			return s.db.log.Sync()
		} else if err != nil {
			return err
		}
	}
	return nil
}
