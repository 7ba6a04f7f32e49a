package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/transport"
)

// all returns the results of a query over the whole key space, by pages. between is called behind each page.
func all(t *testing.T, c *client.Client, level protocol.Level, text string, limit int, between func()) (rows []string) {
	t.Helper()
	q := client.Query{Container: "items", Range: partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, Text: text, Limit: limit}
	for !q.Range.Empty() {
		p, end, err := c.Query(within(30*time.Second), level, &q)
		must(t, err)
		for _, r := range p.Rows {
			rows = append(rows, string(r.Body))
		}
		if len(p.Rows) > limit {
			t.Fatalf("%d rows, %d are wanted", len(p.Rows), limit)
		}
		q.Continue = p.Continue
		if p.Done {
			q.Range.Min = end
		}
		between()
	}
	return rows
}

// TestQueryLimit: a query with a limit of its own has no more results than that, in one page or in several.
func TestQueryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		key := engine.StringKey("k")
		for i := range 6 {
			_, err := c.Upsert(within(20*time.Second), "items", key, fmt.Appendf(nil, `{"id":"i%d","k":"k","n":%d,"list":[%d]}`, i, i, i))
			must(t, err)
		}
		for text, want := range map[string]string{
			"SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n":                 "[0 1 2]",
			"SELECT TOP 4 VALUE c.n FROM c ORDER BY c.n DESC":            "[5 4 3 2]",
			"SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 1 LIMIT 3":      "[1 2 3]",
			"SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 4 LIMIT 3":      "[4 5]",
			"SELECT TOP 0 VALUE c.n FROM c":                              "[]",
			"SELECT TOP 9 VALUE c.n FROM c ORDER BY c.n":                 "[0 1 2 3 4 5]",
			"SELECT TOP 2 VALUE a FROM c JOIN a IN c.list ORDER BY c.id": "[0 1]",
		} {
			for _, limit := range []int{1, 2, 3, 100} {
				q := client.Query{Container: "items", Key: key, Text: text, Limit: limit}
				got := []string{}
				for done := false; !done && len(got) < 10; {
					p, _, err := c.Query(within(20*time.Second), protocol.Strong, &q)
					if err != nil {
						t.Errorf("%s: %v", text, err)
						break
					}
					for _, row := range p.Rows {
						got = append(got, string(row.Body))
					}
					q.Continue, done = p.Continue, p.Done
				}
				if fmt.Sprint(got) != want {
					t.Errorf("%s, in pages of %d: %v, want %s", text, limit, got, want)
				}
			}
		}
		c.Close()
		r.Close()
	})
}

// TestQuery: a query of a logical partition has its order and its aggregates; one of the whole key space has each result
// once, in pages, also while groups split and a leader is killed. What is wrong with a query its error says.
func TestQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 3)
		const keys, each = 30, 4
		want := make(map[string]bool)
		for k := range keys {
			for i := range each {
				_, err := c.Upsert(within(20*time.Second), "items", engine.StringKey(fmt.Sprint("k", k)), fmt.Appendf(nil, `{"id":"i%d","k":"k%d","n":%d}`, i, k, k*each+i))
				must(t, err)
				want[fmt.Sprint(k*each+i)] = true
			}
		}
		q := client.Query{Container: "items", Key: engine.StringKey("k7"), Text: "SELECT VALUE c.n FROM c WHERE c.n >= @n ORDER BY c.n DESC", Parameters: map[string]any{"@n": 29}, Limit: 2}
		p, _, err := c.Query(within(time.Second), protocol.Strong, &q)
		must(t, err)
		if len(p.Rows) != 2 || string(p.Rows[0].Body) != "31" || p.Done || p.Documents == 0 || p.Charge < 3 {
			t.Errorf("%+v", p)
		}
		q.Continue = p.Continue
		p, _, err = c.Query(within(time.Second), protocol.Session, &q)
		must(t, err)
		if len(p.Rows) != 1 || string(p.Rows[0].Body) != "29" || !p.Done {
			t.Errorf("%+v", p)
		}
		// A parameter keeps the digits of a number, and one beyond all doubles is infinite.
		q.Text, q.Continue, q.Parameters = "SELECT TOP 1 VALUE INTADD(@n, 1) FROM c WHERE c.n < @most", "", map[string]any{"@n": 9007199254740993, "@most": json.RawMessage("1e400")}
		if p, _, err = c.Query(within(time.Second), protocol.Strong, &q); err != nil || len(p.Rows) != 1 || string(p.Rows[0].Body) != "9007199254740994" {
			t.Errorf("%+v, %v", p, err)
		}
		q.Text, q.Continue, q.Parameters = "SELECT VALUE COUNT(1) FROM c", "", nil
		if p, _, err = c.Query(within(time.Second), protocol.Strong, &q); err != nil || len(p.Rows) != 1 || string(p.Rows[0].Body) != "4" {
			t.Errorf("%+v, %v", p, err)
		}

		steps := 0
		between := func() {
			switch steps++; steps {
			case 2:
				must(t, r.Split(1<<32|1, 1<<32|100))
			case 5:
				r.Kill(r.Leading(1<<32 | 2).Node())
			case 9:
				must(t, r.Split(1<<32|100, 1<<32|101))
			}
		}
		for _, level := range []protocol.Level{protocol.Strong, protocol.Eventual} {
			seen := make(map[string]bool)
			for _, row := range all(t, c, level, "SELECT VALUE c.n FROM c", 7, between) {
				if seen[row] {
					t.Errorf("%v: %s comes twice", level, row)
				}
				seen[row] = true
			}
			if len(seen) != len(want) {
				t.Errorf("%v: %d results, want %d", level, len(seen), len(want))
			}
		}
		if steps < 9 {
			t.Errorf("%d pages", steps)
		}

		for _, bad := range []struct {
			q    client.Query
			want error
		}{
			{client.Query{Container: "items", Key: engine.StringKey("k"), Text: "SELECT"}, engine.ErrInvalid},
			{client.Query{Container: "items", Key: engine.StringKey("k"), Text: "SELECT * FROM c", Continue: "no"}, engine.ErrBadContinuation},
			{client.Query{Container: "items", Text: "SELECT * FROM c"}, engine.ErrInvalid},
			{client.Query{Container: "none", Key: engine.StringKey("k"), Text: "SELECT * FROM c"}, engine.ErrNoContainer},
			{client.Query{Container: "items", Key: engine.StringKey("k"), Text: "SELECT * FROM c", Parameters: map[string]any{"@f": func() {}}}, engine.ErrInvalid},
		} {
			if _, _, failed := c.Query(within(30*time.Second), protocol.Strong, &bad.q); !errors.Is(failed, bad.want) {
				t.Errorf("%+v: %v, want %v", bad.q, failed, bad.want)
			}
		}
		c.Close()
		r.Close()
	})
}

// TestCreateWithoutMetadata: no container is made where there is no metadata store.
func TestCreateWithoutMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		err := c.CreateContainer(context.Background(), r.Cluster().Containers[0])
		if !errors.Is(err, protocol.ErrChange) {
			t.Error(err)
		}
		c.Close()
		r.Close()
	})
}

// TestQueryTooLarge: a result that no answer can have, and a query that no node would take, fail one call with an
// error of the engine. The connections, on which others wait, remain.
func TestQueryTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := open(t, 1)
		key := engine.StringKey("k")
		_, err := c.Upsert(within(20*time.Second), "items", key, fmt.Appendf(nil, `{"id":"i","k":"k","s":"%s"}`, strings.Repeat("s", 1<<20)))
		must(t, err)
		list := "c.s" + strings.Repeat(",c.s", transport.MaxFrame>>20)
		for name, q := range map[string]client.Query{
			"result":     {Container: "items", Key: key, Text: "SELECT VALUE [" + list + "] FROM c"},
			"parameters": {Container: "items", Key: key, Text: "SELECT VALUE 1 FROM c WHERE c.s = @s", Parameters: map[string]any{"@s": strings.Repeat("s", transport.MaxFrame)}},
			"text":       {Container: "items", Key: key, Text: "SELECT VALUE 1 FROM c WHERE c.s = '" + strings.Repeat("s", transport.MaxFrame) + "'"},
		} {
			begun := time.Now()
			if _, _, err := c.Query(within(20*time.Second), protocol.Strong, &q); !errors.Is(err, engine.ErrTooLarge) || time.Since(begun) > time.Second {
				t.Errorf("%s: %v, after %v", name, err, time.Since(begun))
			}
		}
		if _, err := c.Read(within(time.Second), protocol.Strong, "items", key, strings.Repeat("i", transport.MaxFrame)); !errors.Is(err, engine.ErrTooLarge) {
			t.Errorf("read: %v", err)
		}
		c.Close()
		r.Close()
	})
}

// TestQueryAbandoned: a client tells the node of a query that it does not wait for any more, and asks no other node.
func TestQueryAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queries, ended []uint64 // by their numbers
		come := make(chan struct{}, 8)
		var mu sync.Mutex
		r := host.NewRig(t, 1, func(_ context.Context, _ *host.Host, c *transport.Conn) {
			for {
				kind, payload, err := c.Read()
				if err != nil {
					return
				}
				q, err := protocol.DecodeRequest(kind, payload)
				mu.Lock()
				switch {
				case err != nil:
					t.Error(err)
				case kind == protocol.Query:
					queries = append(queries, q.Number)
				case kind == protocol.Cancel:
					ended = append(ended, q.Number)
				}
				mu.Unlock()
				if kind == protocol.Query || kind == protocol.Cancel {
					come <- struct{}{}
				}
			}
		})
		r.Steady()
		c := client.New(client.Config{Cluster: r.Cluster(), Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress)})
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, _, err := c.Query(ctx, protocol.Eventual, &client.Query{Container: "items", Key: engine.StringKey("k"), Text: "SELECT * FROM c"})
			failed <- err
		}()
		<-come
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		select {
		case <-come:
		case <-time.After(time.Minute): // of the clock of synctest
		}
		mu.Lock()
		if len(queries) != 1 || !slices.Equal(ended, queries) {
			t.Errorf("queries %v, of which the client has ended %v", queries, ended)
		}
		mu.Unlock()
		c.Close()
		r.Close()
	})
}

// TestQuerySlow: what a node says of a query that takes too long is the answer: no other node is asked.
func TestQuerySlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queries atomic.Int64
		r := host.NewRig(t, 1, func(_ context.Context, _ *host.Host, c *transport.Conn) {
			for {
				kind, payload, err := c.Read()
				if err != nil {
					return
				}
				if q, err := protocol.DecodeRequest(kind, payload); err == nil && kind == protocol.Query {
					queries.Add(1)
					time.AfterFunc(protocol.QueryTime, func() {
						h := protocol.Head{Number: q.Number}
						c.Send(protocol.Answer, func(dst []byte) []byte { return h.AppendError(dst, context.DeadlineExceeded) })
					})
				}
			}
		})
		r.Steady()
		c := client.New(client.Config{Cluster: r.Cluster(), Credentials: r.Credentials(), Dial: r.Network().Dialer(clientAddress)})
		_, _, err := c.Query(t.Context(), protocol.Eventual, &client.Query{Container: "items", Key: engine.StringKey("k"), Text: "SELECT * FROM c"})
		if !errors.Is(err, context.DeadlineExceeded) || queries.Load() != 1 {
			t.Errorf("%v, after %d queries", err, queries.Load())
		}
		c.Close()
		r.Close()
	})
}
