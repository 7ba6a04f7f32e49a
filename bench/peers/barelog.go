package main

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// bareLog is Cleave's log alone: what a synced put of Cleave cannot be faster
// than. It takes part in the rows about synced puts, and is no peer.
var bareLog = candidate{
	name: "log", probe: true,
	about:    func() string { return "cleave/wal " + revision() },
	settings: "only the log of Cleave, for synced puts: a probe, no peer",
	open:     openBareLog,
}

// logStore is a log to which documents are appended. It reads nothing.
type logStore struct {
	log    *wal.Log
	synced bool
	stop   context.CancelFunc
	made   chan error // how the making of spare files ended
}

// errOnlyWrites says that the log alone has no documents.
var errOnlyWrites = errors.New("the log alone cannot read")

func openBareLog(ctx context.Context, dir string, m mode) (store, error) {
	fs, err := vfs.CreateRoot(dir)
	if err != nil {
		return nil, err
	}
	recovery, err := wal.Recover(ctx, fs, ".", wal.State{}, wal.Options{}, func(*wal.Record) error { return nil })
	if err != nil {
		return nil, err
	}
	log, err := wal.Create(fs, ".", recovery, recovery.LastSeq+1, wal.Options{})
	if err != nil {
		return nil, err
	}
	making, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &logStore{log: log, synced: m.Synced, stop: stop, made: make(chan error, 1)}
	go func() { s.made <- s.makeSpares(making) }()
	return s, nil
}

// makeSpares makes log files ahead, as the engine does.
func (s *logStore) makeSpares(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.log.SpareWanted():
			if err := s.log.MakeSpare(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

func (s *logStore) Upsert(_ context.Context, _ partmap.Key, id string, doc []byte) error {
	_, pos, err := s.log.Append(1, wal.TypeWrite, 1, []byte(id), doc)
	if err != nil {
		return err
	}
	return s.log.Wait(pos, s.synced)
}

func (s *logStore) Read(context.Context, partmap.Key, string, []byte) ([]byte, error) {
	return nil, errOnlyWrites
}

func (s *logStore) Scan(context.Context, partmap.Key, string, int, func([]byte)) error {
	return errOnlyWrites
}

func (s *logStore) Load(ctx context.Context, docs iter.Seq[document]) error {
	for doc := range docs {
		if err := s.Upsert(ctx, doc.key, doc.id, doc.body); err != nil {
			return err
		}
	}
	return nil
}

func (s *logStore) Settle(context.Context) (time.Duration, error) { return 0, s.log.Sync() }

func (s *logStore) Close() error {
	s.stop()
	err := <-s.made
	_, closeErr := s.log.Close()
	return errors.Join(err, closeErr)
}
