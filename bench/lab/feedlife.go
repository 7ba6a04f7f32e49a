package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/harness"
)

// feedContainer is the container that lab feed writes to and follows.
const feedContainer = "docs"

// feedEnd is the id of the document that is put last.
const feedEnd = "end"

// feedLife is what a process of lab feed does: it opens the store, puts
// documents at a rate and follows the changes, until it is killed or its time is
// over and everything was shown.
type feedLife struct {
	Dir   string
	First int64  // number of the first document; the next ones count on
	From  string // position to follow from
	Rate  float64
	Bytes int
	For   time.Duration
	Cuts  []time.Duration // from the start on; there is one partition more after each
	Alone bool            // nobody follows
}

// feedWord is what a process tells, in one piece: what is cut off by its end was
// not told.
type feedWord struct {
	Opened time.Duration // the first word: how long that took
	// Of the writer: none from Asked on was begun, all below Put are acknowledged.
	Asked, Put int64
	At         time.Duration // since the start
	// Of the follower: what it has taken since its last word, and where it is then.
	Shown    []feedShown
	Position string
	// Of a split that was refused: why.
	Refused string
}

// feedShown is a change that was shown.
type feedShown struct {
	N   int64 // number of the document; -1: it is none that was put
	Lag int64 // nanoseconds since its put; 0: by an earlier process
}

// feedLifeCommand runs a process of lab feed, which says on standard input
// what to do and reads what it tells from standard output.
type feedLifeCommand struct{}

// Run runs the process.
func (*feedLifeCommand) Run(ctx context.Context, env *harness.Environment) error {
	l := new(feedLife)
	if err := gob.NewDecoder(env.Stdin).Decode(l); err != nil {
		return fmt.Errorf("lab feed runs this command: %w", err)
	}
	return l.run(ctx, env.Stdout)
}

// run lives.
func (l *feedLife) run(ctx context.Context, out io.Writer) (err error) {
	start := time.Now()
	db, err := engine.Open(ctx, l.Dir, &engine.Options{Durability: engine.Buffered})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := db.EnsureContainer(ctx, feedContainer, engine.ContainerDef{PartitionKey: []string{"/k"}})
	if err != nil {
		return err
	}
	b := &feedBench{feedLife: l, c: c, out: gob.NewEncoder(out)}
	if err = b.out.Encode(feedWord{Opened: time.Since(start), Asked: l.First, Put: l.First}); err != nil {
		return err
	}
	b.start, b.put = time.Now(), make([]int64, int(l.Rate*l.For.Seconds())+1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	works := []func(context.Context) error{b.write, b.follow, b.split}
	ends := make(chan error, len(works))
	for _, work := range works {
		go func() { ends <- work(ctx) }()
	}
	for range works {
		if e := <-ends; e != nil && err == nil {
			err = e
			stop()
		}
	}
	return err
}

// feedBench is a process at work.
type feedBench struct {
	*feedLife
	c     *engine.Container
	out   *gob.Encoder // safe for concurrent use
	start time.Time
	put   []int64 // when, in nanoseconds since the start; a change comes after its put
}

// feedBurst is how many puts are due together: a goroutine cannot sleep for less
// than a millisecond or so. One that is late puts at most feedMost at once.
const (
	feedBurst = time.Millisecond
	feedMost  = 1000
)

// appendFeedDocument makes the document with a number.
func appendFeedDocument(dst []byte, n int64, size int) []byte {
	dst = fmt.Appendf(dst, `{"id":"%d","k":"k%d","v":"`, n, n%1009)
	for len(dst) < size-2 {
		dst = append(dst, 'x')
	}
	return append(dst, `"}`...)
}

// write puts documents.
func (b *feedBench) write(ctx context.Context) error {
	var doc []byte
	n := int64(0)
	for n < int64(len(b.put)) {
		passed := time.Since(b.start)
		if passed >= b.For {
			break
		}
		due := min(int64(b.Rate*passed.Seconds()), int64(len(b.put)), n+feedMost)
		if n >= due {
			time.Sleep(feedBurst)
			continue
		}
		if err := b.out.Encode(feedWord{Asked: b.First + due, Put: b.First + n, At: passed}); err != nil {
			return err
		}
		for ; n < due; n++ {
			doc = appendFeedDocument(doc[:0], b.First+n, b.Bytes)
			b.put[n] = int64(time.Since(b.start))
			if _, err := b.c.Upsert(ctx, doc, nil); err != nil {
				return err
			}
		}
	}
	if err := b.out.Encode(feedWord{Asked: b.First + n, Put: b.First + n, At: time.Since(b.start)}); err != nil || b.Alone {
		return err
	}
	// One more change, which tells the follower to look at whether that is all.
	_, err := b.c.Upsert(ctx, []byte(`{"id":"`+feedEnd+`","k":"end"}`), nil)
	return err
}

// feedTell is how often the follower tells where it is, while changes come
// without a pause.
const feedTell = 20 * time.Millisecond

// follow follows the feed until the change that is put last was shown, and
// everything else.
func (b *feedBench) follow(ctx context.Context) error {
	if b.Alone {
		return nil
	}
	from, err := engine.ParsePosition(b.From)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var shown []feedShown
	var failed error
	told := time.Now()
	tell := func(at engine.ChangePosition) {
		failed = errors.Join(failed, b.out.Encode(feedWord{Shown: shown, Position: at.String()}))
		shown, told = shown[:0], time.Now()
	}
	ended := false
	o := &engine.ChangeOptions{Follow: true, Progress: func(at engine.ChangePosition) {
		if len(shown) > 0 || ended {
			tell(at)
		}
		if ended || failed != nil {
			stop()
		}
	}}
	var want []byte
	for ch, err := range b.c.Changes(ctx, engine.AllPartitions(), from, o) {
		if err != nil {
			if ended && ctx.Err() != nil {
				return failed
			}
			return errors.Join(failed, err)
		}
		if ch.ID == feedEnd {
			ended = true
			continue
		}
		n := feedNumber(ch.ID)
		one := feedShown{N: n}
		if want = appendFeedDocument(want[:0], n, b.Bytes); !bytes.Equal(ch.Body, want) {
			one.N = -1
		} else if at := n - b.First; at >= 0 && at < int64(len(b.put)) {
			one.Lag = max(1, int64(time.Since(b.start))-b.put[at])
		}
		if shown = append(shown, one); time.Since(told) >= feedTell {
			if tell(ch.Position()); failed != nil {
				return failed
			}
		}
	}
	return failed
}

// feedNumber returns the number of the document with an id, -1 if there is none.
func feedNumber(id string) (n int64) {
	for _, digit := range []byte(id) {
		if digit < '0' || digit > '9' || n > 1<<58 {
			return -1
		}
		n = 10*n + int64(digit-'0')
	}
	return n
}

// split splits the largest partition at each cut, unless an earlier process has.
func (b *feedBench) split(ctx context.Context) error {
	for i, at := range b.Cuts {
		select {
		case <-time.After(time.Until(b.start.Add(at))):
		case <-ctx.Done():
			return ctx.Err()
		}
		parts := b.c.Partitions()
		if len(parts) > i+1 {
			continue
		}
		largest := slices.MaxFunc(parts, func(a, b engine.PartitionStats) int { return cmp.Compare(a.Items, b.Items) })
		job, err := b.c.Split(ctx, largest.ID, nil)
		if err == nil {
			err = job.Wait(ctx)
		}
		if errors.Is(err, engine.ErrRefused) {
			err = b.out.Encode(feedWord{Refused: err.Error()})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
