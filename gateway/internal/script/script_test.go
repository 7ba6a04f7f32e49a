package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/sql/value"
)

var testPool = NewPool(2, Limits{Time: 20 * time.Second, Memory: 96 << 20})

// run runs a script in a session of its own. Without do each operation gives its document.
func run(t *testing.T, p *Pool, j *Job, do func(context.Context, *Operation) (*Answer, error)) (*Result, error) {
	t.Helper()
	s, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.End()
	if do == nil {
		do = func(_ context.Context, op *Operation) (*Answer, error) { return &Answer{Resource: op.Document}, nil }
	}
	if j.Writes == 0 {
		j.Writes, j.Bytes = 1000, 1<<20
	}
	j.Name, j.Link, j.Self = "test", "dbs/d/colls/c", "dbs/x/colls/y/"
	return s.Run(j, do)
}

// TestResults: what a script sets is its result.
func TestResults(t *testing.T) {
	for _, c := range []struct{ source, args, want string }{
		{"function () { }", "", ""},
		{"function hello(a, b) { getContext().getResponse().setBody(a + b) }", `["x",1]`, `"x1"`},
		{"(a) => { __.response.setBody({a: a, n: null}) };", `[[1,2]]`, `{"a":[1,2],"n":null}`},
		{"// first\nfunction first(x) { second(x) }\nfunction second(x) { getContext().getResponse().setBody(x) }", `[7]`, `7`},
		{"function () { for (let i = 0; i < 10; i++) getContext().getResponse().appendValue('Body', i) }", "", `"0123456789"`},
		{"function () { getContext().getResponse().appendBody('a'); getContext().getResponse().appendBody({b: 1}) }", "", `"a{\"b\":1}"`},
		{"async function () { const v = await new Promise((ok) => __.createDocument('', {id: 'p'}, (e, d) => ok(d))); __.response.setBody(v.id) }", "", `"p"`},
		{"function () { __.response.setBody([__.getSelfLink(), __.getAltLink(), getContext().getRequest().getOperationType()]) }", "", `["dbs/x/colls/y/","dbs/d/colls/c",null]`},
		{"function () { return 1 }", "", ""},
		{"function () { __.response.setBody(eval('1+1') + new Function('return 3')()) }", "", "5"},
	} {
		j := &Job{Source: c.source}
		if c.args != "" {
			if err := json.Unmarshal([]byte(c.args), &j.Args); err != nil {
				t.Fatal(err)
			}
		}
		r, err := run(t, testPool, j, nil)
		if err != nil || string(r.Response) != c.want {
			t.Errorf("%s: %+v, %v, want %s", c.source, r, err, c.want)
		}
	}
}

// TestOperations: operations come one by one, in the order in which the script asks, after
// the function has returned; failures reach the callback, or end the script.
func TestOperations(t *testing.T) {
	var log []string
	do := func(_ context.Context, op *Operation) (*Answer, error) {
		log = append(log, fmt.Sprintf("%s %s%s%s", op.Verb, op.Link, op.Document, op.Query))
		switch op.Link {
		case "lost":
			return &Answer{Failure: &Failure{Number: 404, Message: "not found"}}, nil
		case "broken":
			return nil, context.DeadlineExceeded
		}
		return &Answer{Resource: json.RawMessage(`[{"n":2},{"n":1}]`), Continuation: "more"}, nil
	}
	r, err := run(t, testPool, &Job{Source: `function () {
		const c = getContext().getCollection(), out = [];
		const done = () => getContext().getResponse().setBody(out);
		out.push(c.createDocument(c.getSelfLink(), {id: "1"}, (err, d, o) => { out.push("created"); done() }));
		out.push(c.queryDocuments(c.getSelfLink(), {query: "SELECT 1", parameters: [{name: "@a", value: 1}]}, {pageSize: 2}, function (err, feed, o) {
			out.push(feed.length, o.continuation);
			c.deleteDocument("lost", function (err) { out.push(err.number, err instanceof Error); done() });
		}));
		c.upsertDocument("", '{"id":"2"}'); c.replaceDocument("x", {id: "x"}, {etag: "e"}); c.readDocument("y", () => {}); c.readDocuments("z");
		out.push(c.sortBy((d) => d.n, (err, feed) => out.push(feed[0].n)).isAccepted);
		c.chain().filter((d) => d.n > 1).pluck("n").value((err, feed) => { out.push(feed); done() });
		out.push("returned");
	}`}, do)
	if err != nil {
		t.Fatal(err)
	}
	if want := `[true,true,true,"returned","created",2,"more",1,[2],404,true]`; string(r.Response) != want {
		t.Errorf("%s, want %s", r.Response, want)
	}
	want := `create {"id":"1"};query SELECT 1;upsert {"id":"2"};replace x{"id":"x"};read y;query SELECT * FROM c;query SELECT * FROM c;query SELECT * FROM c;delete lost`
	if got := strings.Join(log, ";"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	var f *Failure
	if _, err = run(t, testPool, &Job{Source: `function () { __.readDocument("lost") }`}, do); !errors.As(err, &f) || f.Number != 404 {
		t.Errorf("a failure without a callback: %v", err)
	}
	if _, err = run(t, testPool, &Job{Source: `function () { try { __.readDocument("broken", () => {}) } catch (e) { } }`}, do); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an operation that cannot go on: %v", err)
	}
}

// TestAccepted: operations are not accepted beyond what a transaction holds, and when the
// time is nearly over.
func TestAccepted(t *testing.T) {
	source := `function () { let n = 0; while (n < 100 && __.createDocument("", {id: String(n)}, () => {})) n++; __.response.setBody(n) }`
	for _, c := range []struct {
		job  Job
		want string
	}{
		{Job{Source: source, Writes: 7, Bytes: 1 << 20}, "7"},
		{Job{Source: source, Writes: 1000, Bytes: 1000}, "17"},
		{Job{Source: source, Writes: 1000, Bytes: 1000, Each: 100}, "6"},
		{Job{Source: strings.Replace(source, "String(n)", `"я".repeat(100)`, 1), Writes: 1000, Bytes: 1000}, "2"},
		{Job{Source: source, AcceptMillis: -1}, "0"},
		// It ends by itself: at last its operations are not accepted.
		{Job{Source: "function () { (function again() { __.readDocument('x', again) })(); __.response.setBody(1) }", AcceptMillis: 50}, "1"},
	} {
		r, err := run(t, testPool, &c.job, nil)
		if err != nil || string(r.Response) != c.want {
			t.Errorf("%+v, %v, want %s", r, err, c.want)
		}
	}
}

// TestTriggers: a trigger sees the request and the answer, and changes them.
func TestTriggers(t *testing.T) {
	r, err := run(t, testPool, &Job{Operation: "Create", Request: json.RawMessage(`{"id":"a"}`), Values: map[string]string{"x-ms-a": "b"}, Source: `function () {
		const r = getContext().getRequest(), d = r.getBody();
		d.id += r.getOperationType() + r.getValue("X-Ms-A");
		r.getBody().id = "not kept";
		r.setBody(d);
	}`}, nil)
	if err != nil || string(r.Request) != `{"id":"aCreateb"}` || r.Response != nil {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = run(t, testPool, &Job{Request: json.RawMessage(`{"id":"a"}`), Response: json.RawMessage(`{"id":"b"}`), Source: `function () {
		const r = getContext().getResponse(), d = r.getBody();
		if (d.id !== "b") throw "wrong";
		d.more = 1;
		r.setBody(d);
	}`}, nil)
	if err != nil || string(r.Response) != `{"id":"b","more":1}` || r.Request != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestLog: what console.log is told comes back, up to a bound.
func TestLog(t *testing.T) {
	r, err := run(t, testPool, &Job{Source: `function () { console.log("The value of %s is %d%%.", "x", 1, {a: 1}); console.info(2, null) }`}, nil)
	if want := `The value of x is 1%. {"a":1}2 null`; err != nil || r.Log != want {
		t.Errorf("%+v, %v, want %s", r, err, want)
	}
	r, err = run(t, testPool, &Job{Source: `function () { for (let i = 0; i < 1e5; i++) console.log("0123456789") }`}, nil)
	if err != nil || len(r.Log) != maxLog {
		t.Errorf("%d bytes, %v", len(r.Log), err)
	}
}

// TestFunctions: user-defined functions get and give every kind of value.
func TestFunctions(t *testing.T) {
	s, err := testPool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.End()
	if err = s.Define(map[string]string{
		"same": "function (x) { return x }", "count": "function () { return arguments.length }", "kind": "(x) => typeof x",
		"fails": "function () { throw new Error('no') }", "unreadable": "function (", "context": "function () { return typeof getContext }",
		"half": `() => 'x\ude00y\ud800'`,
	}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"null", "true", "1.5", `"é\u0000"`, `[1,[],{}]`, `{"a":{"b":null}}`, "12345678901"} {
		v, err := s.Call("same", []value.Value{value.Parse([]byte(text))})
		if err != nil || string(v.Append(nil)) != string(value.Parse([]byte(text)).Append(nil)) {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
	for name, want := range map[string]string{"count": "2", "kind": `"undefined"`, "context": `"undefined"`, "half": "\"x\uFFFDy\uFFFD\""} {
		v, err := s.Call(name, []value.Value{{}, value.Null()})
		if err != nil || string(v.Append(nil)) != want {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
	if v, err := s.Call("same", nil); err != nil || !v.IsUndefined() {
		t.Errorf("%v, %v", v, err)
	}
	for _, name := range []string{"fails", "unreadable", "missing"} {
		var f *Failure
		if _, err := s.Call(name, nil); !errors.As(err, &f) || f.Compile != (name != "fails") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hostile are scripts that want to harm. Each is to end with an error: one that the script
// is told, one about time, or one about memory or stack.
var hostile = map[string]struct {
	source string
	why    error // nil: a *Failure
}{
	"loop":                 {"function () { for (;;); }", ErrTime},
	"loop in a callback":   {"function () { __.createDocument('', {id: '1'}, () => { for (;;); }) }", ErrTime},
	"loop in try":          {"function () { for (;;) try { for (;;); } catch (e) { } finally { continue } }", ErrTime},
	"promises for ever":    {"function () { (function again() { return Promise.resolve().then(again) })() }", ErrTime},
	"regular expression":   {"function () { /(a+)+\\1$/.test('a'.repeat(40) + 'b') }", ErrTime},
	"native loop":          {"function () { Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1) }", ErrTime},
	"getter for ever":      {"function () { __.response.setBody({get a() { for (;;); }}) }", ErrTime},
	"toString for ever":    {"function () { throw {toString() { for (;;); }} }", ErrTime},
	"thenable for ever":    {"async function () { await {then() { for (;;); }} }", ErrTime},
	"doubled string":       {"function () { let s = 'abcdefgh'; for (;;) s = (s + s).padStart(1) }", nil},
	"kept strings":         {"function () { const a = []; for (let i = 0; ; i++) a.push(String(i).repeat(1000)) }", ErrMemory},
	"array of arrays":      {"function () { let a = []; for (;;) a = [a, a] }", ErrMemory},
	"map":                  {"function () { const m = new Map(); for (let i = 0; ; i++) m.set(i, [i]) }", ErrMemory},
	"closures":             {"function () { let f = () => 0; for (;;) { const g = f; f = () => g() } }", ErrMemory},
	"fill":                 {"function () { new Array(2 ** 31).fill('x') }", ErrDied},
	"recursion":            {"function f() { f() }", nil},
	"recursion by call":    {"function () { (function f(x) { [1].map(f) })() }", nil},
	"getter throws":        {"function () { __.response.setBody({get a() { throw new Error('no') }}) }", nil},
	"circle":               {"function () { const a = []; a[0] = a; __.response.setBody(a) }", nil},
	"thrown null":          {"function () { throw null }", nil},
	"thrown thrower":       {"function () { throw {get number() { throw 1 }, toString() { throw 2 }} }", nil},
	"thrown number":        {"function () { const e = new Error('x'); e.number = 1e300; throw e }", nil},
	"rejected":             {"async function () { throw new Error('no') }", nil},
	"rejected thenable":    {"async function () { await {then(ok, no) { no(new Error('x')) }} }", nil},
	"no source":            {"", nil},
	"no function":          {"1 + 1", nil},
	"unclosed":             {"function () { ", nil},
	"two expressions":      {"function () { }) (1", nil},
	"callback of no kind":  {"function () { __.createDocument('', {}, {}, 'x') }", nil},
	"document of no kind":  {"function () { __.createDocument('', null) }", nil},
	"unknown host":         {"function () { require('fs') }", nil},
	"huge source":          {"function () { return " + strings.Repeat("(", 400_000) + " }", ErrDied},
	"huge buffer":          {"function () { new ArrayBuffer(2 ** 33) }", nil},
	"deep prototypes":      {"function () { let o = {}; for (let i = 0; i < 2e5; i++) o = Object.create(o); for (;;) o.x }", ErrTime},
	"huge document":        {"function () { __.createDocument('', {id: '1', x: 'x'.repeat(17 << 20)}, () => { }); throw new Error('not accepted') }", nil},
	"huge result":          {"function () { __.response.setBody('x'.repeat(17 << 20)) }", nil},
	"deep result":          {"function () { let a = []; for (let i = 0; i < 3e5; i++) a = [a]; __.response.setBody(a) }", nil},
	"changed prototypes":   {"function () { Object.prototype.verb = 'delete'; Array.prototype.push = null; JSON.stringify = () => 'x'; throw new Error(JSON.stringify(1)) }", nil},
	"prototype of results": {"function () { Object.prototype.toJSON = () => { throw new Error('no') }; __.response.setBody({}) }", nil},
}

// TestHostile: scripts that want to harm end with an error, and the next one runs as if they
// had not been.
func TestHostile(t *testing.T) {
	short := NewPool(2, Limits{Time: 400 * time.Millisecond, Memory: 96 << 20})
	for name, h := range hostile {
		t.Run(name, func(t *testing.T) {
			p := testPool
			if h.why == ErrTime {
				p = short
			}
			r, err := run(t, p, &Job{Source: h.source}, nil)
			var f *Failure
			switch {
			case err == nil:
				t.Fatalf("%.200s", fmt.Sprint(r))
			case h.why == nil && !errors.As(err, &f) && !errors.Is(err, ErrMemory) && !errors.Is(err, ErrDied):
				t.Errorf("%v, want that the script has thrown", err)
			case h.why == ErrTime && !errors.Is(err, ErrTime):
				t.Errorf("%v, want %v", err, h.why)
			case (h.why == ErrMemory || h.why == ErrDied) && !errors.Is(err, ErrMemory) && !errors.Is(err, ErrDied):
				t.Errorf("%v, want %v", err, h.why)
			}
			if len(err.Error()) > 16<<10 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			t.Logf("%.200v", err)
		})
	}
	r, err := run(t, testPool, &Job{Source: `function () { __.response.setBody([typeof Object.prototype.verb, [1].push(2), JSON.stringify({})]) }`}, nil)
	if err != nil || string(r.Response) != `["undefined",2,"{}"]` {
		t.Errorf("after all: %+v, %v", r, err)
	}
}

// TestOperationsHaveTheTime: an operation is under way when the time of its script is over. Its context
// ends then, and so does the script, whatever the operation makes of it.
func TestOperationsHaveTheTime(t *testing.T) {
	short := NewPool(1, Limits{Time: 100 * time.Millisecond, Memory: 96 << 20})
	for name, end := range map[string]error{"an answer": nil, "an error": errors.New("some other")} {
		_, err := run(t, short, &Job{Source: "function () { __.readDocument('x', () => {}) }"}, func(ctx context.Context, _ *Operation) (*Answer, error) {
			<-ctx.Done()
			return &Answer{}, end
		})
		if !errors.Is(err, ErrTime) {
			t.Errorf("%s: %v, want %v", name, err, ErrTime)
		}
	}
}

// TestEnds: a session ends with its context and gives its place back.
func TestEnds(t *testing.T) {
	p := NewPool(1, DefaultLimits)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := p.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Run(&Job{Source: "function () { __.readDocument('x'); }"}, func(context.Context, *Operation) (*Answer, error) {
		cancel()
		return &Answer{}, nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err = s.Run(&Job{Source: "function () { }"}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := p.Begin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a place that was not free: %v", err)
	}
	s.End()
	s.End()
	if s, err = p.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.End()
}
