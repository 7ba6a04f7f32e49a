package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/measure"
)

// feedCommand measures how well a follower of the change feed keeps up with
// buffered writes, and what it sees if the process is killed meanwhile.
type feedCommand struct {
	Rate   harness.Count      `default:"100k" placeholder:"N" help:"Buffered puts a second; default ${default}."`
	For    time.Duration      `default:"10s" placeholder:"TIME" help:"How long to put; default ${default}."`
	Bytes  harness.ByteCount  `default:"200" placeholder:"SIZE" help:"Bytes of a document, at least 64; default ${default}."`
	Alone  bool               `help:"Put without a follower, to see what it costs the puts."`
	Splits int                `default:"1" placeholder:"N" help:"Splits meanwhile; default ${default}."`
	Kills  int                `default:"1" placeholder:"N" help:"How often the process is killed meanwhile, and another one goes on; default ${default}."`
	JSON   harness.JSONOutput `name:"json" placeholder:"FILE" help:"Write the figures as JSON; - is standard output, in place of the table."`
}

// Help returns what follows the short help.
func (*feedCommand) Help() string {
	return `
A process of its own puts documents into a temporary store at a steady rate, or as fast as it goes if that is less, and follows the change feed, which shows what is durable. It tells this one what was acknowledged, what it has taken of the feed, and the text of its position behind that. When it is killed (kill -9) another one opens the store, goes on with the feed from the last position told, and puts more.

A split cuts the partition that holds most. One that a kill comes before is made by the process after it. The report says how many were asked for and made: fewer, if there was no time for them, or one was refused.

The figures: puts and changes a second, how long after its put a change was shown, changes that came twice (behind a position that was told), that never came though their puts were acknowledged, that nobody had put, and acknowledged puts or shown changes that are not in the store at the end. Exit status 1: there were some.

Examples:

    lab feed
    lab feed --rate 20k --for 1m --splits 10 --kills 20
    lab feed --alone --kills 0`
}

// feedReport is what lab feed found.
type feedReport struct {
	V          int             `json:"v"`
	Workload   string          `json:"workload"` // "feed-follow"
	Machine    measure.Machine `json:"machine"`
	OfferedPS  float64         `json:"offered_per_s"`
	PutsPS     float64         `json:"puts_per_s"`
	Puts       int64           `json:"puts"` // acknowledged
	Changes    int64           `json:"changes"`
	Duplicates int64           `json:"duplicates"`
	Missing    int64           `json:"missing"`
	Invented   int64           `json:"invented"`
	Lost       int64           `json:"lost"`
	LagP50     float64         `json:"lag_p50_ms"`
	LagP99     float64         `json:"lag_p99_ms"`
	LagMax     float64         `json:"lag_max_ms"`
	Asked      int             `json:"splits_asked"`
	Splits     int             `json:"splits"`                  // that were made
	Refused    string          `json:"split_refused,omitempty"` // why one was not, the last time
	Kills      int             `json:"kills"`
	Late       int64           `json:"late"`        // changes that came after the kill of the process that put them
	OpenMax    float64         `json:"open_max_ms"` // of a store whose process was killed
}

// Run measures.
func (f *feedCommand) Run(ctx context.Context, env *harness.Environment) error {
	if f.Rate < 1 || f.For < time.Millisecond || f.Bytes < 64 || f.Bytes > 1<<20 || f.Splits < 0 || f.Kills < 0 {
		return harness.Usagef("--rate at least 1, --for at least 1ms, --bytes 64 to 1MiB, --splits and --kills not negative")
	}
	if err := f.JSON.Open(); err != nil {
		return err
	}
	defer f.JSON.Discard()
	var r *feedReport
	if err := harness.InTemporary(func(dir string) (err error) {
		r, err = f.measure(ctx, env, dir)
		return err
	}); err != nil {
		return err
	}
	if !f.JSON.ReplacesText() {
		env.PrintMachine(env.Stdout, r.Machine)
		r.print(env.Stdout)
	}
	if err := f.JSON.Write(env, r); err != nil {
		return err
	}
	if r.Duplicates+r.Missing+r.Invented+r.Lost > 0 {
		return fmt.Errorf("%d changes came twice, %d never, %d were never put, %d are lost", r.Duplicates, r.Missing, r.Invented, r.Lost)
	}
	return nil
}

func (f *feedCommand) measure(ctx context.Context, env *harness.Environment, dir string) (*feedReport, error) {
	r := &feedReport{V: 1, Workload: "feed-follow", Machine: measure.DescribeMachine(dir), OfferedPS: float64(f.Rate), Asked: f.Splits}
	j := feedJudge{r: r, lag: hdrhistogram.New(1, int64(time.Minute), 3), position: engine.FromStart().String()}
	store := filepath.Join(dir, "store")
	each := f.For / time.Duration(f.Kills+1)
	for i := range f.Kills + 1 {
		life := &feedLife{Dir: store, First: j.asked, From: j.position, Rate: float64(f.Rate), Bytes: int(f.Bytes), For: each, Alone: f.Alone}
		for n := range f.Splits {
			life.Cuts = append(life.Cuts, f.For*time.Duration(n+1)/time.Duration(f.Splits+1)-each*time.Duration(i))
		}
		last := i == f.Kills
		if !last {
			life.For += time.Minute // it does not come to that
		}
		if err := j.watch(ctx, env, life, each, !last); err != nil {
			return nil, err
		}
	}
	if err := j.inStore(ctx, store); err != nil {
		return nil, err
	}
	j.count()
	if f.Alone {
		r.Missing = 0
	}
	r.PutsPS = float64(r.Puts) / j.writing.Seconds()
	ms := func(n int64) float64 { return float64(n) / 1e6 }
	r.LagP50, r.LagP99, r.LagMax = ms(j.lag.ValueAtQuantile(50)), ms(j.lag.ValueAtQuantile(99)), ms(j.lag.Max())
	return r, nil
}

// feedJudge knows what was put and shown, by what processes have told.
type feedJudge struct {
	r        *feedReport
	numbers  []uint8 // of each document: how often it was shown, and flags
	asked    int64   // no document from here on was put
	put      int64   // those of the process below it are acknowledged
	first    int64   // of the process
	position string  // behind all that was shown
	writing  time.Duration
	lag      *hdrhistogram.Histogram
}

const (
	feedAcknowledged = 0x80
	feedStored       = 0x40
	feedCount        = 0x3F // bits of the count
)

// watch runs a process, and kills it when it has been at work for a time.
func (j *feedJudge) watch(ctx context.Context, env *harness.Environment, life *feedLife, after time.Duration, kill bool) error {
	var task bytes.Buffer
	if err := gob.NewEncoder(&task).Encode(life); err != nil {
		return err
	}
	cmd, err := selfCommand(ctx, "feed-life")
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stderr = &task, env.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err = cmd.Start(); err != nil {
		return err
	}
	j.first, j.put = life.First, life.First
	var killed atomic.Bool
	words := gob.NewDecoder(bufio.NewReader(out))
	var at time.Duration
	for {
		var w feedWord
		if words.Decode(&w) != nil {
			break // what the process says of its end counts
		}
		if w.Opened > 0 && j.first > 0 {
			j.r.OpenMax = max(j.r.OpenMax, float64(w.Opened)/1e6)
		}
		if w.Opened > 0 && kill {
			timer := time.AfterFunc(after, func() {
				killed.Store(true)
				_ = cmd.Process.Kill() // unless it has ended
			})
			defer timer.Stop()
		}
		at = max(at, w.At)
		j.take(&w)
	}
	j.writing += at
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return harness.ErrInterrupted
	case killed.Load():
		j.r.Kills++
		return nil
	case err != nil:
		return fmt.Errorf("the process that puts and follows: %w", err)
	case kill:
		return errors.New("the process that puts and follows ended before it was killed")
	}
	return nil
}

// take takes what a process tells.
func (j *feedJudge) take(w *feedWord) {
	if w.Asked > j.asked {
		j.numbers = append(j.numbers, make([]uint8, w.Asked-j.asked)...)
		j.asked = w.Asked
	}
	for ; j.put < w.Put; j.put++ {
		j.numbers[j.put] |= feedAcknowledged
		j.r.Puts++
	}
	if w.Position != "" {
		j.position = w.Position
	}
	if w.Refused != "" {
		j.r.Refused = w.Refused
	}
	for _, one := range w.Shown {
		j.r.Changes++
		if one.N < 0 || one.N >= j.asked {
			j.r.Invented++
			continue
		}
		if n := &j.numbers[one.N]; *n&feedCount > 0 {
			j.r.Duplicates++
		} else {
			*n++
		}
		if one.N < j.first {
			j.r.Late++
		} else {
			_ = j.lag.RecordValue(min(one.Lag, int64(time.Minute)))
		}
	}
}

// inStore looks at what is in the store at the end.
func (j *feedJudge) inStore(ctx context.Context, dir string) (err error) {
	db, err := engine.Open(ctx, dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := db.Container(feedContainer)
	if err != nil {
		return err
	}
	j.r.Splits = len(c.Partitions()) - 1
	for it, err := range c.ScanAll(ctx, &engine.ScanOptions{Borrow: true}) {
		if err != nil {
			return err
		}
		if n := feedNumber(it.ID); n >= 0 && n < j.asked {
			j.numbers[n] |= feedStored
		} else if it.ID != feedEnd {
			j.r.Invented++
		}
	}
	return nil
}

// count counts what has not come, and what is not there.
func (j *feedJudge) count() {
	for _, n := range j.numbers {
		if n&feedAcknowledged != 0 && n&feedCount == 0 {
			j.r.Missing++
		}
		if n&^feedStored != 0 && n&feedStored == 0 {
			j.r.Lost++
		}
	}
}

func (r *feedReport) print(w io.Writer) {
	fmt.Fprintf(w, "puts     %s, %s of %s offered, splits %d of %d, kills %d\n", humanize.Count(r.Puts), harness.FormatRate(r.PutsPS), harness.FormatRate(r.OfferedPS), r.Splits, r.Asked, r.Kills)
	if r.Splits < r.Asked && r.Refused != "" {
		fmt.Fprintf(w, "         a split was refused: %s\n", r.Refused)
	}
	fmt.Fprintf(w, "changes  %s, twice %s, missing %s, invented %s, lost %s\n", humanize.Count(r.Changes), humanize.Count(r.Duplicates), humanize.Count(r.Missing),
		humanize.Count(r.Invented), humanize.Count(r.Lost))
	fmt.Fprintf(w, "lag      p50 %s ms, p99 %s ms, max %s ms\n", humanize.Number(r.LagP50), humanize.Number(r.LagP99), humanize.Number(r.LagMax))
	if r.Kills > 0 {
		fmt.Fprintf(w, "kills    reopened in %s ms at most; %s came to the process after the one that had put them\n", humanize.Number(r.OpenMax), harness.Plural(r.Late, "change"))
	}
}

// selfCommand prepares a process of this program.
func selfCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	name, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, name, args...), nil
}
