package script

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"
)

//go:embed prelude.js
var prelude string

const (
	maxCalls = 5000
	maxStack = 128 << 20
)

func init() {
	if len(os.Args) != 2 || os.Args[0] != childName {
		return
	}
	var l Limits
	if json.Unmarshal([]byte(os.Args[1]), &l) != nil {
		os.Exit(2)
	}
	os.Exit((&child{wire: wire{bufio.NewReader(os.Stdin), os.Stdout}, limits: l}).serve())
}

// child is the process of a session.
type child struct {
	wire   wire
	limits Limits
	begun  atomic.Int64 // when it began to compute, 0 while it waits for a message

	functions map[string]goja.Callable
	rt        *goja.Runtime // of functions
	failures  map[string]*Failure
}

func (c *child) serve() int {
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(c.limits.Memory * 5 / 8) // beyond it garbage is collected more often
	limitMemory(uint64(c.limits.Memory) * 4)
	go c.watch()
	for {
		var m toChild
		if c.wire.receive(&m) != nil {
			return 0
		}
		c.begun.Store(time.Now().UnixNano())
		out := c.work(&m)
		c.begun.Store(0)
		if c.reply(out) != nil {
			return 2
		}
	}
}

// reply sends a result, or says that it is too large.
func (c *child) reply(out *toParent) error {
	err := c.wire.send(out)
	if err != nil {
		err = c.wire.send(&toParent{Failure: &Failure{Message: "the result of the script is too large: " + err.Error()}})
	}
	return err
}

// watch ends the process when it takes too much.
func (c *child) watch() {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	for range time.Tick(2 * time.Millisecond) {
		metrics.Read(sample)
		if int64(sample[0].Value.Uint64()+sample[1].Value.Uint64()) > c.limits.Memory {
			os.Exit(exitMemory)
		}
		if at := c.begun.Load(); at != 0 && time.Since(time.Unix(0, at)) > c.limits.Time+time.Second {
			os.Exit(2) // nobody has killed it: the parent is gone
		}
	}
}

func (c *child) work(m *toChild) *toParent {
	switch {
	case m.Job != nil:
		result, failure := c.run(m.Job)
		return &toParent{Result: result, Failure: failure}
	case m.Functions != nil:
		c.define(m.Functions)
		return &toParent{}
	case m.Call != nil:
		v, failure := c.call(m.Call)
		return &toParent{Value: v, Failure: failure}
	}
	return &toParent{Failure: &Failure{Message: "an empty message"}}
}

// newRuntime returns an interpreter. rejected has the promises that were rejected and that
// nobody handles.
func newRuntime(rejected map[*goja.Promise]bool) *goja.Runtime {
	rt := goja.New()
	rt.SetMaxCallStackSize(maxCalls)
	rt.SetPromiseRejectionTracker(func(p *goja.Promise, op goja.PromiseRejectionOperation) {
		if op == goja.PromiseRejectionReject {
			rejected[p] = true
		} else {
			delete(rejected, p)
		}
	})
	return rt
}

// compile returns the function that a source stands for: an expression, or the first
// function that is declared.
func compile(rt *goja.Runtime, name, source string) (goja.Callable, *Failure) {
	source = strings.TrimRight(strings.TrimSpace(source), "; \t\r\n")
	program, err := goja.Compile(name, "("+source+"\n)", false)
	if err == nil {
		v, failed := rt.RunProgram(program)
		if failed != nil {
			return nil, thrown(failed)
		}
		if f, ok := goja.AssertFunction(v); ok {
			return f, nil
		}
	}
	file, failed := parser.ParseFile(nil, name, source, 0)
	if failed != nil {
		return nil, &Failure{Message: "the script cannot be read: " + failed.Error(), Compile: true}
	}
	for _, s := range file.Body {
		declared, ok := s.(*ast.FunctionDeclaration)
		if !ok || declared.Function.Name == nil {
			continue
		}
		if _, failed := rt.RunScript(name, source); failed != nil {
			return nil, thrown(failed)
		}
		if f, ok := goja.AssertFunction(rt.Get(declared.Function.Name.Name.String())); ok {
			return f, nil
		}
	}
	return nil, &Failure{Message: "the script has no function", Compile: true}
}

// thrown returns what a script has thrown.
func thrown(err error) (f *Failure) {
	f = &Failure{Message: err.Error()}
	defer func() {
		// What is thrown may have members that throw.
		if recover() != nil {
			f.Message = "Encountered exception while executing Javascript, which cannot be told."
		}
	}()
	ex, ok := err.(*goja.Exception)
	if !ok {
		f.Message = "Encountered exception while executing Javascript. " + clip(err.Error())
		return f
	}
	if o, ok := ex.Value().(*goja.Object); ok {
		if n := o.Get("number"); n != nil && !goja.IsUndefined(n) {
			f.Number = int(n.ToInteger())
		}
	}
	f.Message = "Encountered exception while executing Javascript. Exception = " + clip(ex.String())
	return f
}

// clip bounds a message.
func clip(s string) string {
	const most = 4 << 10
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// run runs a script and the operations for which it asks, until none is left.
func (c *child) run(j *Job) (*Result, *Failure) {
	begun := time.Now()
	rejected := make(map[*goja.Promise]bool)
	rt := newRuntime(rejected)
	var log strings.Builder
	host := map[string]any{
		"elapsed": func() int64 { return time.Since(begun).Milliseconds() },
		"sizeOf":  func(text string) int { return len(text) }, // in bytes: JavaScript counts units of UTF-16
		"log": func(line string) {
			if room := maxLog - log.Len(); room > 0 {
				log.WriteString(strings.ToValidUTF8(line[:min(len(line), room)], ""))
			}
		},
		"operate": func(text string) string {
			var op Operation
			err := json.Unmarshal([]byte(text), &op)
			if err == nil {
				err = c.wire.send(&toParent{Operation: &op})
			}
			if err != nil {
				panic(rt.NewTypeError("the operation cannot be carried out: %v", err))
			}
			for {
				var m toChild
				if c.wire.receive(&m) != nil {
					os.Exit(0) // the parent is gone
				}
				if m.Answer != nil {
					answer, _ := json.Marshal(m.Answer)
					return string(answer)
				}
				// The operation is a query that calls functions.
				if m.Job != nil || c.reply(c.work(&m)) != nil {
					os.Exit(2)
				}
			}
		},
	}
	job, _ := json.Marshal(j)
	begin, err := rt.RunScript("prelude", prelude)
	if err != nil {
		return nil, thrown(err)
	}
	install, _ := goja.AssertFunction(begin)
	parts, err := install(goja.Undefined(), rt.ToValue(string(job)), rt.ToValue(host))
	if err != nil {
		return nil, thrown(err)
	}
	part := func(name string) goja.Callable {
		f, _ := goja.AssertFunction(parts.ToObject(rt).Get(name))
		return f
	}
	arguments, step, finish := part("arguments"), part("step"), part("finish")
	main, failure := compile(rt, j.Name, j.Source)
	if failure != nil {
		return nil, failure
	}
	list, err := arguments(goja.Undefined())
	if err != nil {
		return nil, thrown(err)
	}
	var args []goja.Value
	for i := range len(j.Args) {
		args = append(args, list.ToObject(rt).Get(fmt.Sprint(i)))
	}
	if _, err = main(goja.Undefined(), args...); err != nil {
		return nil, thrown(err)
	}
	for more := true; more; {
		for p := range rejected {
			return nil, &Failure{Message: "Encountered exception while executing Javascript. A promise was rejected: " + clip(fmt.Sprint(p.Result()))}
		}
		v, failed := step(goja.Undefined())
		if failed != nil {
			return nil, thrown(failed)
		}
		more = v.ToBoolean()
	}
	text, err := finish(goja.Undefined())
	if err != nil {
		return nil, thrown(err)
	}
	r := &Result{}
	if err := json.Unmarshal([]byte(text.String()), r); err != nil {
		return nil, &Failure{Message: "the result of the script is no JSON: " + err.Error()}
	}
	r.Log = log.String()
	return r, nil
}

// define makes functions known. One that cannot be read fails when it is called.
func (c *child) define(sources map[string]string) {
	c.rt = newRuntime(make(map[*goja.Promise]bool))
	c.functions, c.failures = make(map[string]goja.Callable), make(map[string]*Failure)
	for name, source := range sources {
		f, failure := compile(c.rt, name, source)
		if failure != nil {
			c.failures[name] = failure
			continue
		}
		c.functions[name] = f
	}
}

func (c *child) call(m *call) (json.RawMessage, *Failure) {
	if failure := c.failures[m.Name]; failure != nil {
		return nil, failure
	}
	f := c.functions[m.Name]
	if f == nil {
		return nil, &Failure{Message: "there is no function " + m.Name, Compile: true}
	}
	text, _ := json.Marshal(m.Args)
	parse, _ := goja.AssertFunction(c.rt.Get("JSON").ToObject(c.rt).Get("parse"))
	list, err := parse(goja.Undefined(), c.rt.ToValue(string(text)))
	if err != nil {
		return nil, thrown(err)
	}
	args := make([]goja.Value, len(m.Args))
	for i := range args {
		args[i] = list.ToObject(c.rt).Get(fmt.Sprint(i))
	}
	for _, i := range m.Undefined {
		args[i] = goja.Undefined()
	}
	v, err := f(goja.Undefined(), args...)
	if err != nil {
		return nil, thrown(err)
	}
	stringify, _ := goja.AssertFunction(c.rt.Get("JSON").ToObject(c.rt).Get("stringify"))
	if stringify == nil {
		return nil, &Failure{Message: "the function has removed JSON.stringify"}
	}
	out, err := stringify(goja.Undefined(), v)
	if err != nil {
		return nil, thrown(err)
	}
	if goja.IsUndefined(out) {
		return nil, nil
	}
	return json.RawMessage(out.String()), nil
}
