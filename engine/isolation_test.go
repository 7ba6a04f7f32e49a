package engine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestIsolation runs transactions beside each other, with splits, merges,
// flushes, other writes and deletes of the whole key in between, and checks their histories exactly:
// each item is a list to which transactions append their numbers. Then
//
//  1. a list that was read at sequence R is what was committed to it up to R, in
//     order, and the transaction's own numbers behind it;
//  2. what was acknowledged before a transaction began is seen by it;
//  3. numbers of transactions that were refused appear nowhere;
//  4. of two that overlap and wrote the same list, one was refused;
//  5. of those that asked for it, what was read is what it was when they
//     committed, lists that were absent and whole ranges included.
func TestIsolation(t *testing.T) {
	seed := newSeed(t)
	histories := *historiesFlag
	if histories == 0 {
		histories = amount(6, 6, 2)
	}
	for i := range histories {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			for _, found := range isolation(t, seed+uint64(i)) {
				t.Error(found)
			}
		})
	}
}

var historiesFlag = flag.Int("histories", 0, "how many histories TestIsolation checks; 0: the usual number")

const isolationLists = 8

// transaction is what a history knows of one.
type transaction struct {
	number       int64
	acknowledged uint64 // highest sequence that was acknowledged before it began
	read         uint64 // R
	commit       uint64 // lowest sequence of its writes; 0: it wrote nothing
	serializable bool
	lists        map[int]string // what it read
	appends      []int
	deletes      bool // it is no transaction: it deletes all lists
}

// isolation runs a history and returns what is wrong with it.
func isolation(t *testing.T, seed uint64) []string {
	ctx := context.Background()
	opts := testOptions(nil)
	opts.fs, opts.manual, opts.Durability = nil, false, Buffered
	opts.lookedAhead = runtime.Gosched // others may come in between
	db, err := Open(ctx, t.TempDir(), opts)
	must(t, err)
	defer db.Close()
	c, err := db.CreateContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2})
	must(t, err)
	var (
		numbers, acknowledged atomic.Int64
		mu                    sync.Mutex
		history               []transaction
		refused               []int64
		workers               sync.WaitGroup
	)
	const perWorker = 60
	for w := range 4 {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			for range perWorker {
				tx := transaction{number: numbers.Add(1), serializable: rng.IntN(2) == 0}
				err := tx.run(ctx, c, rng, &acknowledged)
				mu.Lock()
				if errors.Is(err, ErrConflict) {
					refused = append(refused, tx.number)
				} else {
					history = append(history, tx)
				}
				mu.Unlock()
				if err != nil && !errors.Is(err, ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	var shaking sync.WaitGroup
	shaking.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 99))
		for {
			select {
			case <-done:
				return
			default:
			}
			shake(t, db, c, rng)
		}
	})
	workers.Wait()
	close(done)
	shaking.Wait()
	return checkIsolation(history, refused)
}

// shake changes how the container is stored.
func shake(t *testing.T, db *DB, c *Container, rng *rand.Rand) {
	ctx := context.Background()
	for i := range 5 { // so that there is something to split
		if _, err := c.Upsert(ctx, doc("x", fmt.Sprint("other", i, rng.IntN(50)), 1), nil); err != nil {
			t.Error(err)
		}
	}
	parts := c.Partitions()
	var job *ReshapeJob
	var err error
	switch rng.IntN(4) {
	case 0:
		err = db.Flush(ctx)
	case 1:
		err = db.Compact(ctx)
	case 2:
		job, err = c.Split(ctx, parts[rng.IntN(len(parts))].ID, nil)
	default:
		if len(parts) > 1 {
			i := rng.IntN(len(parts) - 1)
			job, err = c.Merge(ctx, parts[i].ID, parts[i+1].ID)
		}
	}
	if err == nil && job != nil {
		err = job.Wait(ctx)
	}
	if err != nil && !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

var isolationKey = StringKey("lists")

func listID(n int) string { return "l" + strconv.Itoa(n) }

func listDoc(n int, list string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"k":"lists","list":%q}`, listID(n), list)
}

// listOf returns the list that a document holds.
func listOf(body []byte) string {
	_, list, _ := strings.Cut(string(body), `"list":"`)
	return strings.TrimSuffix(list, `"}`)
}

func (x *transaction) run(ctx context.Context, c *Container, rng *rand.Rand, acknowledged *atomic.Int64) error {
	fn := func(tx *Tx) error {
		x.read, x.lists, x.appends = tx.Seq(), make(map[int]string), nil
		if rng.IntN(3) == 0 {
			from := rng.IntN(isolationLists)
			for n := from; n < isolationLists; n++ {
				x.lists[n] = "" // absent, unless the scan shows it
			}
			for it, err := range tx.Scan(IDRange{From: listID(from)}, nil) {
				if err != nil {
					return err
				}
				n, _ := strconv.Atoi(it.ID[1:])
				x.lists[n] = listOf(it.Body)
			}
		}
		for range rng.IntN(3) {
			if _, err := x.list(tx, rng.IntN(isolationLists)); err != nil {
				return err
			}
		}
		if rng.IntN(4) == 0 {
			return nil
		}
		for _, n := range rng.Perm(isolationLists)[:1+rng.IntN(3)] {
			list, err := x.list(tx, n)
			if err != nil {
				return err
			}
			if err := tx.Upsert(listDoc(n, list+fmt.Sprint(x.number, ",")), nil); err != nil {
				return err
			}
			x.appends = append(x.appends, n)
			if again, err := tx.Read(listID(n)); err != nil || listOf(again.Body) != list+fmt.Sprint(x.number, ",") {
				return fmt.Errorf("own write: %s, %w", again.Body, err)
			}
		}
		return nil
	}
	x.acknowledged = uint64(acknowledged.Load())
	acknowledge := func(seq uint64) {
		for old := acknowledged.Load(); old < int64(seq) && !acknowledged.CompareAndSwap(old, int64(seq)); old = acknowledged.Load() {
		}
	}
	if rng.IntN(25) == 0 {
		meta, err := c.deleteLogicalPartition(ctx, isolationKey, nil)
		x.commit, x.deletes = meta.Seq, true
		acknowledge(meta.Seq)
		return err
	}
	if rng.IntN(5) == 0 {
		err := c.View(ctx, isolationKey, func(tx *Tx) error {
			x.read, x.lists = tx.Seq(), make(map[int]string)
			runtime.Gosched() // for writes above it
			for n := range isolationLists {
				if _, err := x.list(tx, n); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
	metas, err := c.UpdateWith(ctx, isolationKey, &UpdateOptions{Serializable: x.serializable}, fn)
	if len(metas) > 0 {
		x.commit = metas[0].Seq
		acknowledge(metas[len(metas)-1].Seq)
	}
	return err
}

// list reads a list and notes it.
func (x *transaction) list(tx *Tx, n int) (string, error) {
	runtime.Gosched() // others come in between, whatever the machine has to do
	it, err := tx.Read(listID(n))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	list := listOf(it.Body)
	x.lists[n] = list
	return list, nil
}

func checkIsolation(history []transaction, refused []int64) (found []string) {
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	slices.SortFunc(history, func(a, b transaction) int { return int(int64(a.commit) - int64(b.commit)) })
	// at returns a list as of a sequence.
	at := func(n int, seq uint64) (list string) {
		for _, x := range history {
			switch {
			case x.commit == 0 || x.commit > seq:
			case x.deletes:
				list = ""
			case slices.Contains(x.appends, n):
				list += fmt.Sprint(x.number, ",")
			}
		}
		return list
	}
	committed := 0
	for i, x := range history {
		if x.read < x.acknowledged && !x.deletes {
			wrong("%d read at %d, %d was acknowledged before", x.number, x.read, x.acknowledged)
		}
		for n, list := range x.lists {
			if want := at(n, x.read); list != want {
				wrong("%d read list %d at %d as %q, want %q", x.number, n, x.read, list, want)
			}
			if want := at(n, x.commit-1); x.commit != 0 && x.serializable && list != want {
				wrong("%d read list %d as %q; when it committed it was %q", x.number, n, list, want)
			}
			for _, number := range refused {
				if strings.Contains(","+list, fmt.Sprintf(",%d,", number)) {
					wrong("%d sees %d, which was refused", x.number, number)
				}
			}
		}
		if x.commit == 0 {
			continue
		}
		committed++
		for _, y := range history[:i] {
			if y.commit != 0 && y.commit > x.read && slices.ContainsFunc(x.appends, func(n int) bool { return y.deletes || slices.Contains(y.appends, n) }) {
				wrong("%d and %d overlap and wrote the same list", y.number, x.number)
			}
		}
	}
	if committed < len(history)/4 {
		wrong("only %d of %d transactions wrote something", committed, len(history))
	}
	return found
}
