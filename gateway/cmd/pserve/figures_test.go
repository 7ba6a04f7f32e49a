package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/gateway/gatewaytest"
)

// figures: the tests of this file measure, and fail where a figure misses its bar. They want a
// quiet machine.
var figures = flag.Bool("figures", false, "measure the figures of docs/gateway.md")

func measuring(t *testing.T) {
	t.Helper()
	if !*figures {
		t.Skip("measures; -figures wants it")
	}
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
}

// program builds the server as the image has it.
func program(t *testing.T) string {
	t.Helper()
	at, _ := build(t, t.TempDir())
	return at
}

// process is a running server.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	base  string
	first time.Duration // from the start of the process to its first answer with status 200
}

// begin starts the server and waits for its first answer.
func begin(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, append([]string{"--listen", "127.0.0.1:0"}, args...)...)}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err = p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var r ready
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	p.base = r.HTTP[0]
	if status, _, _ := p.do("GET", "", ""); status != 200 {
		t.Fatal(status)
	}
	p.first = time.Since(begun)
	return p
}

func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()
	}
	http.DefaultClient.CloseIdleConnections()
}

func (p *process) do(method, path, body string, head ...string) (status int, charge float64, retry time.Duration) {
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.base+path, strings.NewReader(body))
	if err == nil {
		err = gatewaytest.Sign(r, gateway.EmulatorKey)
	}
	if err != nil {
		p.t.Error(err)
		return 0, 0, 0
	}
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	answer, err := figuresClient.Do(r)
	if err != nil {
		p.t.Error(err)
		return 0, 0, 0
	}
	defer answer.Body.Close()
	if _, err = io.Copy(io.Discard, answer.Body); err != nil {
		p.t.Error(err)
	}
	charge, _ = strconv.ParseFloat(answer.Header.Get("x-ms-request-charge"), 64)
	ms, _ := strconv.Atoi(answer.Header.Get("x-ms-retry-after-ms"))
	return answer.StatusCode, charge, time.Duration(ms) * time.Millisecond
}

var figuresClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

func (p *process) must(status int, method, path, body string, head ...string) {
	p.t.Helper()
	if got, _, _ := p.do(method, path, body, head...); got != status {
		p.t.Fatalf("%s %s: %d, want %d", method, path, got, status)
	}
}

const (
	keyHead    = "x-ms-documentdb-partitionkey"
	aContainer = `{"id":"c","partitionKey":{"paths":["/pk"]}}`
)

func bar[T int64 | float64 | time.Duration](t *testing.T, what string, got, most T) {
	t.Helper()
	t.Logf("%s: %v (at most %v)", what, got, most)
	if got > most {
		t.Errorf("%s: %v, at most %v", what, got, most)
	}
}

// TestFigureStart: from the start of the process to its first answer.
func TestFigureStart(t *testing.T) {
	measuring(t)
	at := program(t)
	if info, err := os.Stat(at); err != nil {
		t.Error(err)
	} else {
		bar(t, "size of the program, MB", float64(info.Size())/1e6, 20)
	}
	var empty []time.Duration
	for range 11 {
		p := begin(t, at, "--db", filepath.Join(t.TempDir(), "db"))
		empty = append(empty, p.first)
		p.kill()
	}
	slices.Sort(empty)
	bar(t, "start of an empty store, median of 11", empty[5], 50*time.Millisecond)

	db := filepath.Join(t.TempDir(), "db")
	p := begin(t, at, "--db", db, "--durability", "buffered")
	p.must(201, "POST", "dbs", `{"id":"d"}`)
	p.must(201, "POST", "dbs/d/colls", aContainer)
	const documents, each, workers = 200_000, 100, 8
	var work sync.WaitGroup
	for w := range workers {
		work.Go(func() {
			for from := w * each; from < documents; from += workers * each {
				var ops []string
				for i := from; i < from+each; i++ {
					ops = append(ops, fmt.Sprintf(`{"operationType":"Create","partitionKey":"[\"%d\"]","resourceBody":{"id":"%d","pk":"%d","pad":"%s"}}`, i, i, i, strings.Repeat("x", 200)))
				}
				if status, _, _ := p.do("POST", "dbs/d/colls/c/docs", "["+strings.Join(ops, ",")+"]", "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-continue-on-error", "True"); status != 200 {
					t.Errorf("bulk: %d", status)
				}
			}
		})
	}
	work.Wait()
	p.kill()
	p = begin(t, at, "--db", db)
	p.must(200, "GET", "dbs/d/colls/c/docs/199999", "", keyHead, `["199999"]`)
	bar(t, "start after kill -9 with 200,000 documents", p.first, time.Second)
}

// TestFigureIdle: what a server costs that nobody uses.
func TestFigureIdle(t *testing.T) {
	measuring(t)
	p := begin(t, program(t), "--db", filepath.Join(t.TempDir(), "db"))
	read := func(name string) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ticks := func() float64 {
		fields := strings.Fields(read("stat"))
		user, _ := strconv.ParseFloat(fields[13], 64)
		system, _ := strconv.ParseFloat(fields[14], 64)
		return user + system
	}
	time.Sleep(2 * time.Second)
	const seconds = 30
	before := ticks()
	time.Sleep(seconds * time.Second)
	bar(t, "share of a core, %", (ticks()-before)/seconds, 0.5) // 100 ticks a second
	_, after, _ := strings.Cut(read("status"), "VmRSS:")
	kib, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	bar(t, "resident, MB", kib*1024/1e6, 40)
}

// TestFigureContainers: containers that are made and dropped.
func TestFigureContainers(t *testing.T) {
	measuring(t)
	p := begin(t, program(t), "--db", filepath.Join(t.TempDir(), "db"))
	p.must(201, "POST", "dbs", `{"id":"d"}`)
	begun := time.Now()
	for i := range 1000 {
		p.must(201, "POST", "dbs/d/colls", fmt.Sprintf(`{"id":"c%d","partitionKey":{"paths":["/pk"]}}`, i))
		p.must(204, "DELETE", fmt.Sprintf("dbs/d/colls/c%d", i), "")
	}
	bar(t, "1,000 containers made and dropped", time.Since(begun), 10*time.Second)
}

// bareAnswer is what the handler of TestBare sends, in JSON: its head and body.
const bareAnswer = "CLEAVE_BARE_ANSWER"

// beginBare starts a server that always sends the same, a process of its own as pserve is, and
// returns its address.
func beginBare(t *testing.T, head http.Header, body []byte) string {
	t.Helper()
	text, err := json.Marshal([]any{head, string(body)})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestBare$")
	cmd.Env = append(os.Environ(), bareAnswer+"="+string(text))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// TestBare is the process of beginBare.
func TestBare(t *testing.T) {
	text := os.Getenv(bareAnswer)
	if text == "" {
		t.Skip("the server beside which TestFigureRead measures")
	}
	head, body := http.Header{}, ""
	if err := json.Unmarshal([]byte(text), &[]any{&head, &body}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(l.Addr())
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range head {
			w.Header()[name] = values
		}
		io.WriteString(w, body) //nolint:errcheck // the client has gone
	})}
	t.Error(s.Serve(l)) // until it is killed
}

// TestFigureRead: a point read over a kept connection, beside a bare handler of net/http that
// sends as many bytes, each in a process of its own; the two by turns.
func TestFigureRead(t *testing.T) {
	measuring(t)
	p := begin(t, program(t), "--db", filepath.Join(t.TempDir(), "db"))
	p.must(201, "POST", "dbs", `{"id":"d"}`)
	p.must(201, "POST", "dbs/d/colls", aContainer)
	p.must(201, "POST", "dbs/d/colls/c/docs", `{"id":"1","pk":"a","pad":"`+strings.Repeat("x", 800)+`"}`, keyHead, `["a"]`)
	request := func() *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), "GET", p.base+"dbs/d/colls/c/docs/1", http.NoBody)
		if err == nil {
			err = gatewaytest.Sign(r, gateway.EmulatorKey)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(keyHead, `["a"]`)
		return r
	}
	answer, err := figuresClient.Do(request())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || answer.StatusCode != 200 {
		t.Fatal(answer.Status, err)
	}
	at := beginBare(t, answer.Header, body)
	took := [2][]time.Duration{}
	const reads = 20_000
	for i := range 2 * reads {
		r := request()
		if i%2 == 1 {
			r.URL.Host = at
		}
		begun := time.Now()
		answer, err := figuresClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != 200 {
			t.Fatal(answer.Status, err)
		}
		if i >= reads/5 { // the first ones warm up
			took[i%2] = append(took[i%2], time.Since(begun))
		}
	}
	for _, of := range took {
		slices.Sort(of)
	}
	quantile := func(of []time.Duration, share float64) time.Duration { return of[int(float64(len(of)-1)*share)] }
	for _, q := range []struct{ share, most float64 }{{0.5, 1.3}, {0.99, 1.5}} {
		a, b := quantile(took[0], q.share), quantile(took[1], q.share)
		t.Logf("p%g: %v, bare %v", 100*q.share, a, b)
		bar(t, fmt.Sprintf("p%g beside a bare handler", 100*q.share), float64(a)/float64(b), q.most)
	}
}

// TestFigureGoodput: what clients get that ask for more than is provisioned. Their calls are dear, so
// that what they get depends on what is provisioned and not on what the machine can do.
func TestFigureGoodput(t *testing.T) {
	measuring(t)
	p := begin(t, program(t), "--db", filepath.Join(t.TempDir(), "db"), "--throttle")
	p.must(201, "POST", "dbs", `{"id":"d"}`)
	const perSecond = 5000 // no partition below 3,000 RU/s, which would save what it does not use
	p.must(201, "POST", "dbs/d/colls", aContainer, "x-ms-offer-throughput", strconv.Itoa(perSecond))
	p.must(201, "POST", "dbs/d/colls/c/docs", `{"id":"1","pk":"a","pad":"`+strings.Repeat("x", 100<<10)+`"}`, keyHead, `["a"]`)
	const seconds, workers = 20, 16
	var mu sync.Mutex
	var units float64
	var refused int
	var work sync.WaitGroup
	counting := time.Now().Add(2 * time.Second) // what was saved is spent first
	until := counting.Add(seconds * time.Second)
	for range workers {
		work.Go(func() {
			for time.Now().Before(until) {
				status, charge, retry := p.do("GET", "dbs/d/colls/c/docs/1", "", keyHead, `["a"]`)
				now := time.Now()
				mu.Lock()
				if status == 429 {
					refused++
				} else if now.After(counting) && now.Before(until) {
					units += charge
				}
				mu.Unlock()
				if status == 429 {
					time.Sleep(retry + rand.N(time.Millisecond))
				}
			}
		})
	}
	work.Wait()
	share := units / (perSecond * seconds)
	t.Logf("%.0f RU in %d s, %d calls refused", units, seconds, refused)
	if refused == 0 {
		t.Error("the clients did not ask for more than is provisioned")
	}
	bar(t, "distance of goodput from what is provisioned", max(share-1, 1-share), 0.02)
}
