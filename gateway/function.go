package gateway

import (
	"errors"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/cleavestore/cleave/gateway/internal/script"
	"github.com/cleavestore/cleave/internal/sql/eval"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// functions are the user-defined functions of a container, for one query. Queries evaluate
// on several goroutines; one process computes the functions, one call after the other.
type functions struct {
	call    *call
	sources map[string]string

	mu      sync.Mutex
	session *script.Session // nil: none has begun
	lent    bool            // session is that of the script whose query this is
	defined bool            // session knows the functions
	failed  error           // why no more calls are possible
}

// namesFunction finds queries that may call a user-defined function.
var namesFunction = regexp.MustCompile(`(?i)\budf\s*\.`)

// withFunctions returns the parameters of a query with the functions that it may call.
func (c *call) withFunctions(k *container, text string, parameters map[string]any) map[string]any {
	if !namesFunction.MatchString(text) {
		return parameters
	}
	f := c.functionsOf(k, text)
	all := maps.Clone(parameters)
	for name := range f.sources {
		all["udf."+name], _ = f.named(name)
	}
	c.functions.end()
	c.functions = f
	return all
}

// functionsOf returns the functions of a container that a query may name.
func (c *call) functionsOf(k *container, text string) *functions {
	f := &functions{call: c, sources: make(map[string]string)}
	for _, r := range c.catalog.resourcesOf(c.ofContainer(k, kindFunction).set) {
		if strings.Contains(text, r.record.Name) {
			f.sources[r.record.Name] = r.definition().Body
		}
	}
	return f
}

// named returns the function of a name.
func (f *functions) named(name string) (eval.UDF, bool) {
	_, ok := f.sources[name]
	return func(args []value.Value) (value.Value, error) { return f.run(name, args) }, ok
}

// begin starts the process if there are functions.
func (f *functions) begin() (err error) {
	if f != nil && f.session == nil && len(f.sources) > 0 {
		f.session, err = f.call.scripts.Begin(f.call.ctx)
	}
	return err
}

// run calls a function.
func (f *functions) run(name string, args []value.Value) (value.Value, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return value.Value{}, f.failed
	}
	v, err := f.compute(name, args)
	var thrown *script.Failure
	switch {
	case err == nil:
		return v, nil
	case errors.As(err, &thrown):
		return v, thrownBy(name, thrown)
	case errors.Is(err, script.ErrTime):
		err = failf(http.StatusRequestTimeout, "function %q: %v", name, err)
	case errors.Is(err, script.ErrMemory), errors.Is(err, script.ErrDied):
		err = badf("function %q: %v", name, err)
	}
	f.failed = err
	return v, err
}

func (f *functions) compute(name string, args []value.Value) (v value.Value, err error) {
	if err = f.begin(); err != nil {
		return v, err
	}
	if !f.defined {
		if err = f.session.Define(f.sources); err != nil {
			return v, err
		}
		f.defined = true
	}
	return f.session.Call(name, args)
}

// end ends the process, if there is one.
func (f *functions) end() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed = errDropped; f.session != nil && !f.lent {
		f.session.End()
		f.session = nil
	}
}
