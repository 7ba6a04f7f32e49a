package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/gateway/gatewaytest"
	"github.com/cleavestore/cleave/gateway/replicated"
)

// nodes is a cluster of processes on this machine.
type nodes struct {
	t         *testing.T
	pnode     string
	dir       string
	processes map[int]*exec.Cmd
}

// startNodes builds pnode and starts three nodes.
func startNodes(t *testing.T) *nodes {
	n := &nodes{t: t, dir: filepath.Join(t.TempDir(), "cluster"), processes: make(map[int]*exec.Cmd)}
	n.pnode = filepath.Join(t.TempDir(), "pnode")
	n.run("go", "build", "-C", filepath.Join("..", "..", "..", "..", "replica"), "-o", n.pnode, "./cmd/pnode")
	n.run(n.pnode, "init", n.dir, "--container", "items:/k:1", "--addresses", strings.Join(freeAddresses(t), ","))
	t.Cleanup(func() {
		for id := range n.processes {
			n.kill(id)
		}
	})
	for id := 1; id <= 3; id++ {
		n.start(id)
	}
	return n
}

func (n *nodes) run(name string, args ...string) {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func (n *nodes) start(id int) {
	p := exec.Command(n.pnode, "serve", filepath.Join(n.dir, fmt.Sprint("node", id)), "--every", "200ms")
	if err := p.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.processes[id] = p
}

// kill ends a node as kill -9 does.
func (n *nodes) kill(id int) {
	p := n.processes[id]
	delete(n.processes, id)
	_ = p.Process.Kill()
	_ = p.Wait() // how it ended is known
}

// freeAddresses returns three addresses at which nothing listens, nor at their ports + 100 and + 200.
func freeAddresses(t *testing.T) []string {
	free := func(port int) bool {
		for _, at := range []int{port, port + 1, port + 2, port + 100, port + 101, port + 102, port + 200, port + 201, port + 202} {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(at)))
			if err != nil {
				return false
			}
			defer l.Close()
		}
		return true
	}
	for port := 21_000 + os.Getpid()%9_000; port < 60_000; port += 7 {
		if free(port) {
			return []string{fmt.Sprint("127.0.0.1:", port), fmt.Sprint("127.0.0.1:", port+1), fmt.Sprint("127.0.0.1:", port+2)}
		}
	}
	t.Fatal("no ports are free")
	return nil
}

// gate is the program.
type gate struct {
	t     *testing.T
	url   string
	ended chan error
	stop  context.CancelFunc
}

func startGate(t *testing.T, dir string) *gate {
	ctx, cancel := context.WithCancel(t.Context())
	g := &gate{t: t, ended: make(chan error, 1), stop: cancel}
	out, in := io.Pipe()
	go func() {
		err := run(ctx, []string{"--listen", "127.0.0.1:0", "--wait", "20s", dir}, in, io.Discard)
		in.CloseWithError(errors.Join(err, io.EOF))
		g.ended <- err
	}()
	var line ready
	if err := json.NewDecoder(out).Decode(&line); err != nil {
		t.Fatal(err)
	}
	g.url = strings.TrimSuffix(line.URL, "/")
	return g
}

// of returns the program for a part of the test.
func (g *gate) of(t *testing.T) *gate {
	part := *g
	part.t = t
	return &part
}

// answer is what the program has answered.
type answer struct {
	status int
	head   http.Header
	body   string
}

func (g *gate) ask(method, path, body string, head ...string) answer {
	r, err := http.NewRequestWithContext(g.t.Context(), method, g.url+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	if err = gatewaytest.Sign(r, gateway.EmulatorKey); err != nil {
		g.t.Fatal(err)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		return answer{body: err.Error()}
	}
	return answer{got.StatusCode, got.Header, string(text)}
}

func (g *gate) want(status int, method, path, body string, head ...string) answer {
	g.t.Helper()
	a := g.ask(method, path, body, head...)
	if a.status != status {
		g.t.Fatalf("%s %s: %d, want %d: %s", method, path, a.status, status, a.body)
	}
	return a
}

const (
	pk   = "x-ms-documentdb-partitionkey"
	docs = "/dbs/shop/colls/orders/docs"
)

func (g *gate) query(text string, head ...string) (values []string, pages int) {
	g.t.Helper()
	body, err := json.Marshal(map[string]string{"query": text})
	if err != nil {
		g.t.Fatal(err)
	}
	head = append([]string{"Content-Type", "application/query+json", "x-ms-documentdb-isquery", "true", "x-ms-max-item-count", "7"}, head...)
	for next := ""; pages == 0 || next != ""; pages++ {
		a := g.want(200, "POST", docs, string(body), append(slices.Clone(head), "x-ms-continuation", next)...)
		next = a.head.Get("x-ms-continuation")
		var page struct{ Documents []json.RawMessage }
		if err = json.Unmarshal([]byte(a.body), &page); err != nil {
			g.t.Fatal(err)
		}
		for _, d := range page.Documents {
			values = append(values, string(d))
		}
	}
	return values, pages
}

// TestGateway: a client makes a database and a container, works with items, and queries. What a cluster cannot do is said so. A
// node that leads is killed while clients write: what was acknowledged is there afterwards. A second gateway takes over,
// and the first one ends. It shows the default times to live that the cluster has.
func TestGateway(t *testing.T) {
	cluster := startNodes(t)
	g := startGate(t, cluster.dir)
	if a := g.want(200, "GET", "/", ""); !strings.Contains(a.body, `"defaultConsistencyLevel":"Session"`) {
		t.Error(a.body)
	}
	g.want(201, "POST", "/dbs", `{"id":"shop"}`)
	g.want(409, "POST", "/dbs", `{"id":"shop"}`)
	g.want(201, "POST", "/dbs/shop/colls", `{"id":"orders","partitionKey":{"paths":["/k"]}}`, "x-ms-offer-throughput", "18000")
	g.want(200, "GET", "/dbs/shop/colls/orders", "")
	if a := g.want(200, "GET", "/dbs/shop/colls/orders/pkranges", ""); !strings.Contains(a.body, `"_count":3`) {
		t.Error(a.body)
	}
	for name, part := range map[string]func(*gate){"items": (*gate).items, "queries": (*gate).queries, "refusals": (*gate).refusals, "feeds": (*gate).feeds, "indexes": (*gate).indexes, "ttl": (*gate).ttl, "unique": (*gate).unique, "ttls": (*gate).ttls, "uniques": (*gate).uniques, "charges": (*gate).charges} {
		t.Run(name, func(t *testing.T) { part(g.of(t)) })
	}
	t.Run("prefixes", func(t *testing.T) { g.of(t).prefixes(cluster) })
	t.Run("kill", func(t *testing.T) { g.of(t).kill(cluster) })

	// pnode changes default times to live behind the gateway, which sets the second one back when a client says so.
	etags := make(map[string]string)
	for _, name := range []string{"kept", "back"} {
		etags[name] = g.want(201, "POST", "/dbs/shop/colls", minute(name)).head.Get("etag")
		cluster.run(cluster.pnode, "ttl", cluster.dir, "shop."+name, "3600")
	}
	g.want(200, "PUT", "/dbs/shop/colls/back", minute("back"))

	next := startGate(t, cluster.dir)
	for name, want := range map[string]string{"kept": "3600", "back": "60"} {
		if a := next.want(200, "GET", "/dbs/shop/colls/"+name, ""); !strings.Contains(a.body, `"defaultTtl":`+want+`,`) {
			t.Errorf("the next gateway shows %s, want defaultTtl %s", a.body, want)
		}
	}
	next.want(412, "PUT", "/dbs/shop/colls/kept", minute("kept"), "If-Match", etags["kept"])
	if a := g.ask("POST", "/dbs", `{"id":"late"}`); a.status != 503 && a.status != 0 {
		t.Errorf("a gateway that was superseded: %d %s", a.status, a.body)
	}
	if err := <-g.ended; !errors.Is(err, replicated.ErrSuperseded) {
		t.Error("the first gateway has ended with", err)
	}
	if a := next.want(200, "GET", "/dbs", ""); !strings.Contains(a.body, `"shop"`) || strings.Contains(a.body, `"late"`) {
		t.Error(a.body)
	}
	next.want(200, "GET", docs+"/1", "", pk, `["a"]`)
	next.want(204, "DELETE", "/dbs/shop/colls/orders", "")
	next.want(201, "POST", "/dbs/shop/colls", `{"id":"orders","partitionKey":{"paths":["/k"]}}`)
	next.want(404, "GET", docs+"/1", "", pk, `["a"]`)
	next.want(204, "DELETE", "/dbs/shop", "")
	next.stop()
	if err := <-next.ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// minute is the definition of a container whose items live for a minute.
func minute(name string) string {
	return fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/k"]},"defaultTtl":60}`, name)
}

func (g *gate) items() {
	t := g.t
	key := []string{pk, `["a"]`}
	made := g.want(201, "POST", docs, `{"id":"1","k":"a","n":1}`, key...)
	etag, token := made.head.Get("etag"), made.head.Get("x-ms-session-token")
	if etag == "" || strings.Count(token, ":-1#") != 1 { // of the item's group, and none of the catalogue
		t.Errorf("etag %q, session token %q", etag, token)
	}
	g.want(409, "POST", docs, `{"id":"1","k":"a"}`, key...)
	g.want(400, "POST", docs, `{"id":"1","k":"b"}`, key...)
	for _, level := range []string{"Strong", "Session", "Eventual"} {
		a := g.ask("GET", docs+"/1", "", append(key, "x-ms-consistency-level", level, "x-ms-session-token", token)...)
		if a.status != 200 && level != "Eventual" || a.status == 200 && a.head.Get("etag") != etag {
			t.Errorf("%s: %+v", level, a)
		}
	}
	g.want(400, "GET", docs+"/1", "", append(key, "x-ms-session-token", "nonsense")...)
	g.want(304, "GET", docs+"/1", "", append(key, "If-None-Match", etag)...)
	g.want(412, "PUT", docs+"/1", `{"id":"1","k":"a","n":2}`, append(key, "If-Match", `"00000000-0000-0000-0000-000000000001"`)...)
	replaced := g.want(200, "PUT", docs+"/1", `{"id":"1","k":"a","n":2}`, append(key, "If-Match", etag)...)
	if replaced.head.Get("etag") == etag {
		t.Error("the etag stays as it was")
	}
	g.want(200, "POST", docs, `{"id":"1","k":"a","n":3}`, append(key, "x-ms-documentdb-is-upsert", "true")...)
	patched := g.want(200, "PATCH", docs+"/1", `{"operations":[{"op":"incr","path":"/n","value":4}]}`, key...)
	if !strings.Contains(patched.body, `"n":7`) {
		t.Error(patched.body)
	}
	g.want(412, "PATCH", docs+"/1", `{"condition":"from c where c.n = 1","operations":[{"op":"set","path":"/n","value":0}]}`, key...)
	etag = g.want(200, "GET", docs+"/1", "", key...).head.Get("etag")
	onETag := fmt.Sprintf(`{"condition":"from c where c._etag = '%s'","operations":[{"op":"set","path":"/s","value":0}]}`, strings.ReplaceAll(etag, `"`, `\"`))
	g.want(200, "PATCH", docs+"/1", onETag, key...)
	g.want(412, "PATCH", docs+"/1", onETag, key...)
	batch := append(key, "x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "true")
	g.want(200, "POST", docs, `[{"operationType":"Create","resourceBody":{"id":"2","k":"a","n":2}},{"operationType":"Read","id":"1"},{"operationType":"Patch","id":"2","resourceBody":{"operations":[{"op":"incr","path":"/n","value":1}]}}]`, batch...)
	g.want(207, "POST", docs, `[{"operationType":"Create","resourceBody":{"id":"3","k":"a"}},{"operationType":"Create","resourceBody":{"id":"1","k":"a"}}]`, batch...)
	g.want(404, "GET", docs+"/3", "", key...)
	if a := g.want(200, "GET", docs+"/2", "", key...); !strings.Contains(a.body, `"n":3`) {
		t.Error(a.body)
	}
	bulk := g.want(207, "POST", docs, `[{"operationType":"Upsert","partitionKey":"[\"a\"]","resourceBody":{"id":"2","k":"a","n":9}},{"operationType":"Read","partitionKey":"[\"none\"]","id":"2"}]`,
		"x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-continue-on-error", "true")
	if !strings.Contains(bulk.body, `"statusCode":200`) || !strings.Contains(bulk.body, `"statusCode":404`) {
		t.Error(bulk.body)
	}
	g.want(204, "DELETE", docs+"/2", "", key...)
	g.want(404, "DELETE", docs+"/2", "", key...)
	g.want(404, "GET", docs+"/2", "", key...)
}

func (g *gate) queries() {
	t := g.t
	const keys, each = 12, 3
	for k := range keys {
		for i := range each {
			g.want(201, "POST", docs, fmt.Sprintf(`{"id":"q%d","k":"key%d","q":%d}`, i, k, k*each+i), pk, fmt.Sprintf(`["key%d"]`, k))
		}
	}
	if got, _ := g.query("SELECT VALUE c.q FROM c WHERE c.q >= 13 ORDER BY c.q DESC", pk, `["key4"]`); !slices.Equal(got, []string{"14", "13"}) {
		t.Error(got)
	}
	got, pages := g.query("SELECT VALUE c.q FROM c WHERE IS_DEFINED(c.q)", "x-ms-documentdb-query-enablecrosspartition", "true")
	slices.Sort(got)
	if len(slices.Compact(got)) != keys*each || pages < 6 {
		t.Errorf("%d results in %d pages: %v", len(got), pages, got)
	}
	var ranges struct {
		PartitionKeyRanges []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(g.want(200, "GET", "/dbs/shop/colls/orders/pkranges", "").body), &ranges); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, r := range ranges.PartitionKeyRanges {
		counts, _ := g.query("SELECT VALUE COUNT(c.q) FROM c", "x-ms-documentdb-partitionkeyrangeid", r.ID, "x-ms-documentdb-query-enablecrosspartition", "true")
		n, err := strconv.Atoi(counts[0])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum != keys*each {
		t.Errorf("the partitions count %d, want %d", sum, keys*each)
	}
	text := `{"query":"SELECT VALUE COUNT(1) FROM c"}`
	if a := g.ask("POST", docs, text, "Content-Type", "application/query+json", "x-ms-documentdb-isquery", "true", "x-ms-documentdb-query-enablecrosspartition", "true"); a.status != 400 || a.head.Get("x-ms-substatus") != "1004" {
		t.Errorf("an aggregate over all partitions: %+v", a)
	}
	g.want(201, "POST", "/dbs/shop/colls/orders/sprocs", `{"id":"double","body":"function f(id) { var c = getContext().getCollection(); c.readDocument(c.getAltLink() + '/docs/' + id, function (e, d) { if (e) throw e; d.q = 2 * d.q; c.replaceDocument(d._self, d, function (e) { if (e) throw e; getContext().getResponse().setBody(d.q); }); }); }"}`)
	if a := g.want(200, "POST", "/dbs/shop/colls/orders/sprocs/double", `["q2"]`, pk, `["key4"]`); a.body != "28" {
		t.Error(a.body)
	}
	if got, _ := g.query("SELECT VALUE c.q FROM c WHERE c.id = 'q2'", pk, `["key4"]`); !slices.Equal(got, []string{"28"}) {
		t.Error(got)
	}
	g.want(410, "GET", docs, "", "A-IM", "Incremental Feed", "x-ms-documentdb-partitionkeyrangeid", "r-7F")
}

func (g *gate) refusals() {
	t := g.t
	for path, body := range map[string]string{
		"version":   `{"id":"x","partitionKey":{"paths":["/k"],"version":1}}`,
		"retention": `{"id":"x","partitionKey":{"paths":["/k"]},"changeFeedPolicy":{"retentionDuration":10}}`,
	} {
		if a := g.ask("POST", "/dbs/shop/colls", body); a.status != 501 {
			t.Errorf("%s: %+v", path, a)
		}
	}
	g.want(404, "GET", "/dbs/shop/colls/x", "")
}

// kill kills a node that leads a third of the container while clients write.
func (g *gate) kill(cluster *nodes) {
	t := g.t
	const writers, after = 6, 60
	var (
		acknowledged sync.Map
		number       atomic.Int64 // of acknowledged writes
		killed       atomic.Int64 // that there were when the node was dead; 0: it lives
		work         sync.WaitGroup
	)
	for w := range writers {
		work.Go(func() {
			for i := 0; killed.Load() == 0 || number.Load() < killed.Load()+after; i++ {
				id, key := fmt.Sprintf("w%d-%d", w, i), fmt.Sprint("key", i%50)
				for done := false; !done; {
					switch a := g.ask("POST", docs, fmt.Sprintf(`{"id":%q,"k":%q}`, id, key), pk, fmt.Sprintf("[%q]", key)); a.status {
					case 201, 409: // 409: an earlier try whose outcome was not known
						acknowledged.Store(id, key)
						number.Add(1)
						done = true
					case 408, 503:
					default:
						t.Errorf("%s: %d %s", id, a.status, a.body)
						return
					}
				}
			}
		})
	}
	for number.Load() < after {
		g.want(200, "GET", docs+"/1", "", pk, `["a"]`)
	}
	cluster.kill(2)
	killed.Store(number.Load())
	work.Wait()
	cluster.start(2)
	count := 0
	acknowledged.Range(func(id, key any) bool {
		count++
		if a := g.ask("GET", docs+"/"+id.(string), "", pk, fmt.Sprintf("[%q]", key), "x-ms-consistency-level", "Strong"); a.status != 200 {
			t.Errorf("%s was acknowledged: %d %s", id, a.status, a.body)
		}
		return true
	})
	t.Logf("%d writes acknowledged, %d of them behind the kill", count, number.Load()-killed.Load())
}

// TestSlowClients: no client holds a request for ever, nor the memory for its body.
func TestSlowClients(t *testing.T) {
	s, err := replicated.Open(t.Context(), replicated.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"d"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.handler.Logger = slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	by := make(chan *http.Server, 1)
	served := make(chan error, 1)
	go func() {
		served <- o.serve(ctx, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
			by <- server
		}), s, l, io.Discard)
	}()
	(&gate{t: t, url: "http://" + l.Addr().String()}).want(200, "GET", "/", "")
	server := <-by
	for name, bound := range map[string]time.Duration{
		"head": server.ReadHeaderTimeout, "body": server.ReadTimeout, "answer": server.WriteTimeout, "pause": server.IdleTimeout,
	} {
		if bound <= 0 {
			t.Errorf("%s: no bound", name)
		}
	}
	if server.MaxHeaderBytes <= 0 {
		t.Error("no bound of the size of a head")
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestUsage: wrong usage is an error that says what is wrong.
func TestUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "one directory"}, {"--listen 0.0.0.0:1 d", "--key"}, {"--cert c d", "--cert-key"}, {"--listen x d", "address"}, {"none", "cluster.json"},
	} {
		var errs bytes.Buffer
		if err := run(t.Context(), strings.Fields(c.args), io.Discard, &errs); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}
