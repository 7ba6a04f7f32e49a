package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/protocol"
)

const (
	registerCount = 6
	accounts      = 5
	bankSum       = accounts * 100
	patience      = 4 * time.Second // of a client with a call
	breath        = 4 * time.Millisecond
	perSequence   = 400
	boundedAge    = 2 * time.Second
	recovery      = 40 * time.Second // of the cluster, after the last fault
)

// workload is the clients.
type workload struct {
	s     *nodeSet
	j     *judge
	cl    *client.Client
	near  []*client.Client // of each node
	stop  atomic.Bool
	acks  atomic.Int64
	tasks sync.WaitGroup
	feeds []*feed
	ends  context.CancelFunc // of the feed that follows

	mu      sync.Mutex
	logs    map[string]*sequence
	owners  map[string][]int // of each unique item: who was told that it is his
	counter struct{ acked, unknown atomic.Int64 }
}

type document struct {
	ID string `json:"id"`
	K  string `json:"k"`
	N  int    `json:"n"`
}

func (d document) body() []byte {
	b, _ := json.Marshal(d) // of a string and a number
	return b
}

var everyLevel = []protocol.Level{protocol.Strong, protocol.Bounded, protocol.Session, protocol.Prefix, protocol.Eventual}

// outcome says what a client knows of its write.
type outcome int

const (
	refused outcome = iota // it was not carried out, and never will be
	carried
	unknown
)

// write writes.
func (w *workload) write(c client.View, key string, ops ...command.Operation) (outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := c.Batch(ctx, container, engine.StringKey(key), ops...)
	switch {
	case err == nil:
		w.acks.Add(1)
		return carried, nil
	case errors.Is(err, client.ErrUnknown), errors.Is(err, client.ErrResults):
		return unknown, err
	}
	return refused, err
}

func (w *workload) read(c client.View, key, id string) (n int, found bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	it, err := c.Read(ctx, container, engine.StringKey(key), id)
	if errors.Is(err, engine.ErrNotFound) {
		return 0, false, nil
	} else if err != nil {
		return 0, false, err
	}
	var d document
	if err := json.Unmarshal(it.Body, &d); err != nil || d.ID != id || d.K != key {
		w.j.check(false, "item %s of %s has %q", id, key, it.Body)
	}
	return d.N, true, nil
}

func (w *workload) scan(c client.View, key string) (docs []document, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	items, _, err := c.Scan(ctx, container, engine.StringKey(key), "", protocol.MaxScan)
	for _, it := range items {
		var d document
		if json.Unmarshal(it.Body, &d) != nil {
			w.j.check(false, "item %s of %s has %q", it.ID, key, it.Body)
		}
		docs = append(docs, d)
	}
	return docs, err
}

func upsert(d document) command.Operation {
	return command.Operation{Kind: command.Upsert, Body: d.body()}
}

func create(d document) command.Operation {
	return command.Operation{Kind: command.Create, Body: d.body()}
}

func add(id string, by int) command.Operation {
	return command.Operation{Kind: command.Patch, ID: id, Edits: []command.Edit{{Kind: command.EditIncrement, Path: "/n", By: float64(by)}}}
}

// prepare makes what must be there before the clients begin.
func (w *workload) prepare(ctx context.Context) error {
	var bank []command.Operation
	for i := range accounts {
		bank = append(bank, upsert(document{fmt.Sprint("a", i), "bank", 100}))
	}
	v := w.cl.View(protocol.Strong)
	for end := time.Now().Add(30 * time.Second); ; {
		_, err := v.Batch(ctx, container, engine.StringKey("bank"), bank...)
		if err == nil {
			_, err = v.Batch(ctx, container, engine.StringKey("counter"), upsert(document{"c", "counter", 0}))
		}
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
	}
}

// start starts the clients.
func (w *workload) start(seed uint64) {
	run := func(number int, do func(rng *rand.Rand, n int)) {
		rng := rand.New(rand.NewPCG(seed, uint64(number)))
		w.tasks.Go(func() {
			for n := 0; !w.stop.Load(); n++ {
				do(rng, n)
				time.Sleep(breath)
			}
		})
	}
	number := 0
	for range 6 {
		number++
		me := number
		run(me, func(rng *rand.Rand, n int) { w.register(me, rng, n) })
	}
	for range 2 {
		number++
		me := number
		run(me, func(rng *rand.Rand, n int) { w.append(me, rng, n) })
	}
	for range 3 {
		number++
		me := number
		run(me, func(rng *rand.Rand, n int) { w.unique(me, rng, n) })
	}
	for range 2 {
		number++
		run(number, w.transfer)
		number++
		run(number, w.increment)
	}
	for range 2 {
		number++
		me := number
		own := client.View{Client: w.cl, Session: client.NewSession(), Level: protocol.Session}
		newest := new(level)
		seen := 0
		key := fmt.Sprint("s", me)
		run(me, func(rng *rand.Rand, _ int) { w.session(own, newest, &seen, key, rng) })
		number++
		bounded := client.View{Session: client.NewSession(), Level: protocol.Bounded, Bounds: protocol.Bounds{Age: boundedAge, Entries: 1 << 40}}
		run(number, func(rng *rand.Rand, _ int) {
			bounded.Client = w.near[rng.IntN(len(w.near))]
			at := time.Now()
			if n, _, err := w.read(bounded, key, "i"); err == nil {
				least := newest.least(at.Add(-boundedAge))
				w.j.check(n >= least && n <= newest.most(), "a bounded read of %s sees %d; %d was acknowledged %v before it", key, n, least, boundedAge)
			}
		})
	}
}

// startFeeds starts two who follow the changes: one all the time, and one that ends again and again.
func (w *workload) startFeeds(seed uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	w.ends = cancel
	follows, goesOn := w.newFeed("a feed that follows"), w.newFeed("a feed that goes on from positions")
	w.tasks.Go(func() { follows.follow(ctx, w.cl) })
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	w.tasks.Go(func() {
		for !w.stop.Load() {
			goesOn.some(ctx, w.near[rng.IntN(len(w.near))], rng)
			time.Sleep(breath)
		}
	})
}

func (w *workload) register(me int, rng *rand.Rand, n int) {
	k := rng.IntN(registerCount)
	key := fmt.Sprint("r", k)
	v := w.cl.View(protocol.Strong)
	if rng.IntN(2) == 0 {
		v.Client = w.near[rng.IntN(len(w.near))]
	}
	call := w.j.now()
	if rng.IntN(2) == 0 {
		value := me*1_000_000 + n + 1
		if out, _ := w.write(v, key, upsert(document{"i", key, value})); out != refused {
			w.j.operation(me, register{k, true, value}, 0, call, out == carried)
		}
		return
	}
	if value, _, err := w.read(v, key, "i"); err == nil {
		w.j.operation(me, register{key: k}, value, call, true)
	}
}

func (w *workload) append(me int, rng *rand.Rand, n int) {
	key := fmt.Sprintf("log%d-%d", me, n/perSequence)
	w.mu.Lock()
	s := w.logs[key]
	if s == nil {
		s = new(sequence)
		w.logs[key] = s
	}
	w.mu.Unlock()
	at := s.begin()
	if out, _ := w.write(w.cl.View(protocol.Strong), key, create(document{fmt.Sprintf("i%04d", at), key, at})); out == carried {
		s.ack(at)
	}
	if rng.IntN(8) == 0 {
		v := client.View{Client: w.near[rng.IntN(len(w.near))], Session: client.NewSession(), Level: everyLevel[rng.IntN(len(everyLevel))]}
		if docs, err := w.scan(v, key); err == nil {
			wrong := s.judge(numbers(docs), v.Level == protocol.Strong)
			w.j.check(wrong == "", "a scan of %s at the level %v: %s", key, v.Level, wrong)
		}
	}
}

func numbers(docs []document) (out []int) {
	for _, d := range docs {
		out = append(out, d.N)
	}
	return out
}

func (w *workload) unique(me int, _ *rand.Rand, n int) {
	key := fmt.Sprint("u", n/50)
	id := fmt.Sprint("i", n)
	if out, _ := w.write(w.cl.View(protocol.Strong), key, create(document{id, key, me})); out == carried {
		w.mu.Lock()
		defer w.mu.Unlock()
		name := key + "/" + id
		w.owners[name] = append(w.owners[name], me)
	}
}

func (w *workload) transfer(rng *rand.Rand, _ int) {
	if rng.IntN(2) == 0 {
		from, by := rng.IntN(accounts), rng.IntN(50)
		to := (from + 1 + rng.IntN(accounts-1)) % accounts
		_, _ = w.write(w.cl.View(protocol.Strong), "bank", add(fmt.Sprint("a", from), -by), add(fmt.Sprint("a", to), by))
		return
	}
	v := client.View{Client: w.near[rng.IntN(len(w.near))], Session: client.NewSession(), Level: everyLevel[rng.IntN(len(everyLevel))]}
	if docs, err := w.scan(v, "bank"); err == nil && len(docs) > 0 {
		w.bank(docs, v.Level)
	}
}

func (w *workload) bank(docs []document, at protocol.Level) {
	sum := 0
	for _, d := range docs {
		sum += d.N
	}
	w.j.check(len(docs) == accounts && sum == bankSum, "the bank has %d accounts with %d at the level %v", len(docs), sum, at)
}

func (w *workload) increment(*rand.Rand, int) {
	switch out, _ := w.write(w.cl.View(protocol.Strong), "counter", add("c", 1)); out {
	case carried:
		w.counter.acked.Add(1)
	case unknown:
		w.counter.unknown.Add(1)
	}
}

// session writes a number that rises, and reads it at any node.
func (w *workload) session(v client.View, newest *level, seen *int, key string, rng *rand.Rand) {
	if rng.IntN(3) == 0 {
		n := newest.begin()
		if out, _ := w.write(v, key, upsert(document{"i", key, n})); out == carried {
			newest.ack(n)
		}
		return
	}
	weak := rng.IntN(4) == 0
	if weak {
		v.Level = protocol.Eventual // what it sees is of the session too
	}
	n, _, err := w.read(v, key, "i")
	if err != nil {
		return
	}
	if least := max(*seen, newest.least(time.Now())); !weak {
		w.j.check(n >= least && n <= newest.most(), "a session read of %s sees %d, the session has seen or written %d", key, n, least)
	}
	*seen = max(*seen, n)
}

// finish judges what is there after all has ended, at all nodes that run.
func (w *workload) finish() error {
	strong := w.cl.View(protocol.Strong)
	for k := range registerCount {
		call := w.j.now()
		n, _, err := w.read(strong, fmt.Sprint("r", k), "i")
		if err != nil {
			return err
		}
		w.j.operation(0, register{key: k}, n, call, true)
	}
	keys := []string{"bank", "counter"}
	for key, s := range w.logs {
		docs, err := w.scan(strong, key)
		if err != nil {
			return err
		}
		wrong := s.judge(numbers(docs), true)
		w.j.check(wrong == "", "%s in the end: %s", key, wrong)
		keys = append(keys, key)
	}
	for _, f := range w.feeds {
		if err := f.finish(w); err != nil {
			return err
		}
	}
	docs, err := w.scan(strong, "bank")
	if err != nil {
		return err
	}
	w.bank(docs, protocol.Strong)
	n, _, err := w.read(strong, "counter", "c")
	if err != nil {
		return err
	}
	acked, open := int(w.counter.acked.Load()), int(w.counter.unknown.Load())
	w.j.check(n >= acked && n <= acked+open, "the counter has %d: %d increments were acknowledged, of %d the outcome is not known", n, acked, open)
	for name, owners := range w.owners {
		w.j.check(len(owners) == 1, "clients %v have been told that they have made %s", owners, name)
	}
	for i := 0; ; i++ {
		key := fmt.Sprint("u", i)
		docs, err := w.scan(strong, key)
		if err != nil {
			return err
		}
		is := make(map[string]int)
		for _, d := range docs {
			is[key+"/"+d.ID] = d.N
		}
		asked := false
		for n := i * 50; n < (i+1)*50; n++ {
			name := fmt.Sprintf("%s/i%d", key, n)
			if owners := w.owners[name]; len(owners) > 0 {
				asked = true
				w.j.check(is[name] == owners[0], "%s is of client %d, client %d was told that it has made it", name, is[name], owners[0])
			}
		}
		if !asked && len(docs) == 0 {
			break
		}
		keys = append(keys, key)
	}
	return w.same(keys)
}

// same checks that all nodes that run come to have the same. A node that was killed, cut off or mended may still
// be catching up with the leader, and that it is behind is no violation.
func (w *workload) same(keys []string) error {
	for _, key := range keys {
		want, err := w.scan(w.cl.View(protocol.Strong), key)
		if err != nil {
			return err
		}
		for i, c := range w.near {
			if !w.s.runs(uint64(i + 1)) {
				continue
			}
			got, ok := catchesUp(want, func() ([]document, error) {
				// An eventual read reads what the node has; where the node has no replica, another one answers.
				return w.scan(client.View{Client: c, Session: client.NewSession(), Level: protocol.Eventual}, key)
			})
			w.j.check(ok, "node %d has other items of %s than the leader: %v, %v", i+1, key, got, want)
		}
	}
	return nil
}

// catchesUp reads until it has read what is wanted, or has waited as long as a cluster may take to recover. It
// returns what it has read last. Where each read fails it can't say that anything is wrong.
func catchesUp(want []document, read func() ([]document, error)) (got []document, ok bool) {
	ok = true
	for end := time.Now().Add(recovery); ; {
		if docs, err := read(); err == nil {
			if got, ok = docs, slices.Equal(docs, want); ok {
				return got, true
			}
		}
		if time.Now().After(end) {
			return got, ok
		}
		time.Sleep(10 * breath)
	}
}
