package faults

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/client"
)

// feed is one who follows the changes of the container, and what it was shown.
type feed struct {
	j     *judge
	what  string
	at    string                // position behind what was shown
	seq   map[string]uint64     // of each key, the newest
	shown map[string][]document // of keys whose items are made once
}

func (w *workload) newFeed(what string) *feed {
	f := &feed{j: w.j, what: what, seq: make(map[string]uint64), shown: make(map[string][]document)}
	w.feeds = append(w.feeds, f)
	return f
}

// once says that the items of a key are made once, and never written again.
func once(key string) bool { return strings.HasPrefix(key, "log") || strings.HasPrefix(key, "u") }

// take takes a page in.
func (f *feed) take(p client.ChangePage) {
	for i := range p.Items {
		it := &p.Items[i]
		var d document
		err := json.Unmarshal(it.Body, &d)
		f.j.check(err == nil && d.ID == it.ID && it.Key == engine.StringKey(d.K), "%s shows item %s of %s as %q", f.what, it.ID, it.Key, it.Body)
		f.j.check(it.Seq > f.seq[d.K], "%s shows item %s of %s with the sequence %d behind %d", f.what, it.ID, d.K, it.Seq, f.seq[d.K])
		f.seq[d.K] = it.Seq
		if once(d.K) {
			f.shown[d.K] = append(f.shown[d.K], d)
		}
	}
	f.at = p.Position
}

// follow follows until the context ends.
func (f *feed) follow(ctx context.Context, c *client.Client) {
	for p, err := range c.Changes(ctx, container, f.at, &client.ChangeOptions{Follow: true, Every: 50 * time.Millisecond}) {
		if err != nil {
			f.j.check(ctx.Err() != nil, "%s: %v", f.what, err)
			return
		}
		f.take(p)
	}
}

// some takes some pages in, at the leaders or at any replicas, as one does who ends and later goes on where it has
// stored its position.
func (f *feed) some(ctx context.Context, c *client.Client, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rest := rng.IntN(6)
	for p, err := range c.Changes(ctx, container, f.at, &client.ChangeOptions{Weak: rng.IntN(2) == 0, Limit: 1 + rng.IntN(40)}) {
		if err != nil {
			f.j.check(ctx.Err() != nil, "%s: %v", f.what, err)
			return
		}
		if f.take(p); rest == 0 {
			return
		}
		rest--
	}
}

// finish has the feed come to its end, and judges it: everything was shown that was acknowledged, nothing twice, and
// nothing that nobody has tried; what was acknowledged one after the other came in that order.
func (f *feed) finish(w *workload) error {
	ctx, cancel := context.WithTimeout(context.Background(), recovery)
	defer cancel()
	for p, err := range w.cl.Changes(ctx, container, f.at, nil) {
		if err != nil {
			return err
		}
		f.take(p)
	}
	for key, s := range w.logs {
		wrong := s.judge(numbers(f.shown[key]), true)
		f.j.check(wrong == "", "%s, of %s: %s", f.what, key, wrong)
		last := -1
		for _, d := range f.shown[key] {
			if d.N >= 0 && d.N < s.tried && s.acked[d.N] {
				f.j.check(d.N > last, "%s shows item %d of %s behind %d", f.what, d.N, key, last)
				last = d.N
			}
		}
	}
	owner := make(map[string]int)
	for key, docs := range f.shown {
		if strings.HasPrefix(key, "log") {
			f.j.check(w.logs[key] != nil, "%s shows items of %s", f.what, key)
			continue
		}
		for _, d := range docs {
			name := key + "/" + d.ID
			f.j.check(owner[name] == 0, "%s shows %s twice", f.what, name)
			owner[name] = d.N
		}
	}
	for name, owners := range w.owners {
		f.j.check(owner[name] == owners[0], "%s shows %s of client %d, client %d was told that it has made it", f.what, name, owner[name], owners[0])
	}
	return nil
}
