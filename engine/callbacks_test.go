package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// writerFunc is a function as an io.Writer.
type writerFunc func(p []byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

// readerFunc is a function as an io.Reader.
type readerFunc func(p []byte) (int, error)

func (r readerFunc) Read(p []byte) (int, error) { return r(p) }

// TestCallbacksThatDoNotReturn has each function that the embedder hands in panic,
// or end its goroutine: nothing of the store is held afterwards, what was held
// back by it too; writes go on and Close comes to its end.
func TestCallbacksThatDoNotReturn(t *testing.T) {
	ctx := context.Background()
	key := StringKey("a")
	calls := map[string]func(s *callbackStore, leave func()) error{
		"scan": func(s *callbackStore, leave func()) error { return loop(s.c.Scan(ctx, key, IDRange{}, nil), leave) },
		"borrowing scan": func(s *callbackStore, leave func()) error {
			return loop(s.c.Scan(ctx, key, IDRange{}, &ScanOptions{Borrow: true}), leave)
		},
		"scan of all": func(s *callbackStore, leave func()) error { return loop(s.c.ScanAll(ctx, nil), leave) },
		"read many": func(s *callbackStore, leave func()) error {
			return loop(s.c.ReadMany(ctx, []ItemIdentity{{key, "1"}}), leave)
		},
		"query": func(s *callbackStore, leave func()) error {
			return loop(s.c.Query(ctx, AllPartitions(), Query{}).All(), leave)
		},
		"changes": func(s *callbackStore, leave func()) error {
			return loop(s.c.Changes(ctx, AllPartitions(), FromStart(), nil), leave)
		},
		"progress of changes": func(s *callbackStore, leave func()) error {
			return loop(s.c.Changes(ctx, AllPartitions(), FromStart(), &ChangeOptions{Progress: func(ChangePosition) { leave() }}), func() {})
		},
		"logical partitions": func(s *callbackStore, leave func()) error { return loop(s.c.LogicalPartitions(ctx), leave) },
		"containers": func(s *callbackStore, leave func()) error {
			for range s.db.Containers() {
				leave()
			}
			return nil
		},
		"borrow": func(s *callbackStore, leave func()) error {
			return s.c.Borrow(ctx, key, "1", func(Item) error { leave(); return nil })
		},
		"view": func(s *callbackStore, leave func()) error {
			return s.c.View(ctx, key, func(tx *Tx) error { leave(); return nil })
		},
		"scan in a view": func(s *callbackStore, leave func()) error {
			return s.c.View(ctx, key, func(tx *Tx) error { return loop(tx.Scan(IDRange{}, nil), leave) })
		},
		"update": func(s *callbackStore, leave func()) error {
			return s.c.Update(ctx, key, func(tx *Tx) error {
				if err := tx.Upsert(doc("1", "a", 2), nil); err != nil {
					return err
				}
				leave()
				return nil
			})
		},
		"documents of a load": func(s *callbackStore, leave func()) error {
			return second(s.c.Load(ctx, func(yield func([]byte, error) bool) {
				if yield(doc("2", "a", 2), nil) {
					leave()
				}
			}, nil))
		},
		"progress of a load": func(s *callbackStore, leave func()) error {
			return second(s.c.Load(ctx, func(yield func([]byte, error) bool) { yield(doc("2", "a", 2), nil) },
				&LoadOptions{Progress: func(LoadStats) { leave() }}))
		},
		"writer of a backup": func(s *callbackStore, leave func()) error {
			return second(s.db.Backup(ctx, writerFunc(func(p []byte) (int, error) { leave(); return len(p), nil }), nil))
		},
		"progress of a backup": func(s *callbackStore, leave func()) error {
			return second(s.db.Backup(ctx, io.Discard, &BackupOptions{Progress: func(BackupProgress) { leave() }}))
		},
		"writer of an export": func(s *callbackStore, leave func()) error {
			return second(s.c.ExportPartition(ctx, s.c.Partitions()[0].ID, writerFunc(func(p []byte) (int, error) { leave(); return len(p), nil })))
		},
		"reader of an installation": func(s *callbackStore, leave func()) error {
			image := bytes.NewReader(s.image)
			return second(s.docs.InstallPartition(ctx, readerFunc(func(p []byte) (int, error) {
				if image.Len() < len(s.image)/2 {
					leave()
				}
				return image.Read(p[:min(len(p), 10)])
			})))
		},
		"clock of a read": func(s *callbackStore, leave func()) error {
			s.tick = leave
			defer func() { s.tick = func() {} }()
			return second(s.c.Read(ctx, key, "expiring"))
		},
		"listener of events": func(s *callbackStore, leave func()) error {
			s.flushed = leave
			return s.db.Flush(ctx)
		},
	}
	for name, call := range calls {
		for way, end := range map[string]func(){"panics": func() { panic("of the embedder") }, "ends its goroutine": runtime.Goexit} {
			t.Run(name+" "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newCallbackStore(t)
					left := false
					done := make(chan error, 1)
					go func() {
						defer close(done)
						defer func() { _ = recover() }()
						done <- call(s, func() { left = true; end() })
					}()
					synctest.Wait()
					if err := <-done; !left || err != nil {
						t.Fatalf("%v; the callback was called: %v", err, left)
					}
					if n := s.db.env.Pins.Live(); len(n) > 0 {
						t.Errorf("sequences %v are held", n)
					}
					s.flushed = func() { s.told = true }
					must(t, second(s.c.Upsert(ctx, doc("after", "a", 1), nil)))
					must(t, s.db.Flush(ctx))
					closed := background(s.db.Close)
					synctest.Wait()
					must(t, s.ended("Close", closed))
					if !s.told {
						t.Error("the listener is not called any more")
					}
				})
			})
		}
	}
}

// loop calls leave for each pair.
func loop[T any](pairs func(func(T, error) bool), leave func()) error {
	for _, err := range pairs {
		if err != nil {
			return err
		}
		leave()
	}
	return nil
}

// callbackStore is a store that calls what the test says.
type callbackStore struct {
	*replicaStore
	c             *Container
	tick, flushed func()
	told          bool
}

func newCallbackStore(t *testing.T) *callbackStore {
	s := &callbackStore{tick: func() {}, flushed: func() {}}
	opts := testOptions(vfs.NewMem())
	opts.clock = func() time.Time { s.tick(); return time.Now() }
	opts.Events = &EventListener{Flushed: func(FlushEvent) { s.flushed() }}
	s.replicaStore = newReplicaStore(t, opts)
	var err error
	s.c, err = s.db.CreateContainer(t.Context(), "c", ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry})
	must(t, err)
	must(t, second(s.c.Upsert(t.Context(), doc("1", "a", 1), nil)))
	must(t, second(s.c.Upsert(t.Context(), doc("expiring", "a", 1), &WriteOptions{TTL: time.Hour})))
	return s
}

// TestLoggerThatPanics fails a store whose logger panics: the write that meets it
// has its error, and the store can be read and closed.
func TestLoggerThatPanics(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	opts := testOptions(faulty)
	opts.Logger = slog.New(panicHandler{})
	db, c := openStore(t, opts)
	upsert(t, c, "a", 10)
	faulty.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpSync {
			return errInjected
		}
		return nil
	})
	if _, err := c.Upsert(t.Context(), smallDocument("b", "a", 10), nil); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("%v, want ErrOutcomeUnknown", err)
	}
	if _, err := c.Read(t.Context(), StringKey("a"), "a"); err != nil {
		t.Error(err)
	}
	_ = db.Close()
}

type panicHandler struct{ slog.Handler }

func (panicHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (panicHandler) Handle(context.Context, slog.Record) error { panic("of the embedder") }

// TestCopyOfDropped drops a container of a copy that nobody closes: no sequence is
// held any more.
func TestCopyOfDropped(t *testing.T) {
	for _, dropped := range []string{"plain", "copy"} {
		s := newReplicaStore(t, testOptions(vfs.NewMem()))
		must(t, s.fill(1))
		_, err := copied(t.Context(), s.plain, "copy", ContainerDef{PartitionKey: []string{"/id"}})
		must(t, err)
		if len(s.db.env.Pins.Live()) == 0 {
			t.Fatal("the copy holds nothing: the test reached too little")
		}
		must(t, s.db.DropContainer(t.Context(), dropped))
		if held := s.db.env.Pins.Live(); len(held) > 0 {
			t.Errorf("with %q dropped, sequences %v are held", dropped, held)
		}
	}
}
