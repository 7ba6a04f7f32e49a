// Package function has the functions that queries call, by name and group: of types,
// strings, arrays, numbers and times.
//
// # Invariants
//
//  1. A function of an argument of a type that it is not for is undefined, and so is one of an
//     undefined argument. Exceptions say so: the tests of types, and what picks one of several
//     arguments.
//  2. What a function makes is counted by Env.Grow before it is made. A query that makes too much ends with
//     an error. What takes long is counted by Env.Step or Env.Look, so that it ends with its context.
//  3. Functions change none of their arguments. They are pure, but for RAND and the present time.
//  4. Positions and lengths of strings are counted in code points.
package function

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/sql/value"
)

// MaxMade is how many bytes of values the evaluation of a query makes at most for one row of a
// document.
const MaxMade = 32 << 20

// MaxSteps is how many steps the evaluation takes for one document at most: rows of its
// JOINs and subqueries, and elements that functions look at.
const MaxSteps = 5_000_000

// Env is what functions know of the evaluation they are called in. It serves one goroutine.
type Env struct {
	Ctx   context.Context  // the evaluation ends when it does; nil: there is none
	Clock func() time.Time // nil: time.Now
	Begun time.Time        // of the query
	Seq   uint64           // of the version of the document; 0: it has none

	made, steps int64
	looked, due int64 // the context is asked when so many bytes were looked at
	err         error
	patterns    map[string]pattern // regular expressions that were compiled
	kept        int                // bytes that they take
}

// Reset begins the evaluation for another document.
func (e *Env) Reset() { e.made, e.steps, e.err = 0, 0, nil }

// NextRow begins with another row of the document: what was made for the last one is done
// with.
func (e *Env) NextRow() { e.made = 0 }

// Err returns why the evaluation must end, nil if it need not.
func (e *Env) Err() error { return e.err }

// Fail ends the evaluation.
func (e *Env) Fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// Grow counts bytes that are to be made; false: they are too many.
func (e *Env) Grow(n int) bool {
	if e.made += int64(n); e.made > MaxMade {
		e.Fail(&fault.LimitError{What: "values that a query makes of one row", Size: e.made, Limit: MaxMade, Kind: fault.ErrTooLarge})
	}
	return e.Look(n)
}

// Made returns how many bytes were made and are not done with.
func (e *Env) Made() int { return int(e.made) }

// Drop says that bytes that were made are done with.
func (e *Env) Drop(n int) { e.made = max(0, e.made-int64(n)) }

// Step counts steps; false: they are too many.
func (e *Env) Step(n int) bool {
	if e.steps += int64(n); e.steps > MaxSteps {
		e.Fail(fault.Of(fault.ErrTooLarge, fmt.Errorf("a query takes more than %d steps for one document: join fewer arrays, or shorter ones", MaxSteps)))
	}
	return e.Look(stepBytes * n)
}

// A step takes about as long as looking at stepBytes. The context is asked each askBytes.
const (
	stepBytes = 64
	askBytes  = 1024 * stepBytes
)

// Look counts bytes that are looked at; false: the evaluation must end. There is no bound on them: each
// row of a document may look at another part of it.
func (e *Env) Look(n int) bool {
	if e.looked += int64(n); e.looked >= e.due {
		e.ask()
	}
	return e.err == nil
}

func (e *Env) ask() {
	if e.due = e.looked + askBytes; e.Ctx != nil && e.err == nil {
		e.err = e.Ctx.Err()
	}
}

// Looked returns how many bytes all evaluations have looked at, those of steps included.
func (e *Env) Looked() int64 { return e.looked }

func (e *Env) now() time.Time {
	if e.Clock != nil {
		return e.Clock().UTC()
	}
	return time.Now().UTC()
}

// DocumentETag is the name of the function that gives the etag of the document of the query. Its argument
// is the document, and nothing else.
const DocumentETag = "DOCUMENTETAG"

// Function is a function.
type Function struct {
	Name     string
	Min, Max int // arguments; Max -1: any number
	Call     func(e *Env, args []value.Value) value.Value
	// Pure says that calls with the same arguments give the same.
	Pure bool
}

// Find returns the function of a name in capitals.
func Find(name string) (*Function, bool) {
	f, ok := table[name]
	return f, ok
}

// Unavailable says of functions that Cosmos DB has and this package lacks what is missing.
func Unavailable(name string) (why string, ok bool) {
	why, ok = unavailable[name]
	return why, ok
}

const (
	noSpatial = "there are no spatial functions"
	noScores  = "results are not ranked by scores"
	noVectors = "there are no vector indexes"
)

var unavailable = map[string]string{
	"ST_AREA": noSpatial, "ST_DISTANCE": noSpatial, "ST_INTERSECTS": noSpatial, "ST_ISVALID": noSpatial, "ST_ISVALIDDETAILED": noSpatial, "ST_WITHIN": noSpatial,
	"FULLTEXTSCORE": noScores, "RRF": noScores,
	"VECTORDISTANCE": noVectors,
}

var table = make(map[string]*Function)

type body = func(e *Env, args []value.Value) value.Value

// add makes a function known. Max -1 stands for any number of arguments.
func add(name string, least, most int, call body) *Function {
	f := &Function{Name: name, Min: least, Max: most, Call: call, Pure: true}
	table[name] = f
	return f
}

// impure makes a function known that is not pure.
func impure(name string, least, most int, call body) { add(name, least, most, call).Pure = false }

func init() {
	addTypes()
	addStrings()
	addPatterns()
	addFullText("FULLTEXTCONTAINS", 2, true)
	addFullText("FULLTEXTCONTAINSALL", -1, true)
	addFullText("FULLTEXTCONTAINSANY", -1, false)
	addArrays()
	addMaths()
	addIntegers()
	addDates()
}

func addTypes() {
	is := func(name string, test func(v value.Value) bool) {
		add(name, 1, 1, func(_ *Env, args []value.Value) value.Value { return value.Bool(test(args[0])) })
	}
	is("IS_DEFINED", func(v value.Value) bool { return !v.IsUndefined() })
	is("IS_NULL", func(v value.Value) bool { return v.Kind() == kindNull })
	is("IS_BOOL", func(v value.Value) bool { return v.Kind() == kindBool })
	is("IS_NUMBER", func(v value.Value) bool { return v.Kind() == kindNumber })
	is("IS_STRING", func(v value.Value) bool { return v.Kind() == kindString })
	is("IS_ARRAY", value.Value.IsArray)
	is("IS_OBJECT", value.Value.IsObject)
	is("IS_PRIMITIVE", func(v value.Value) bool { return !v.IsUndefined() && !v.IsArray() && !v.IsObject() })
	is("IS_INTEGER", func(v value.Value) bool { _, ok := v.Int(); return ok })
	is("IS_FINITE_NUMBER", func(v value.Value) bool { f, ok := v.Number(); return ok && finite(f) })
	is("IS_DATETIME", func(v value.Value) bool { _, ok := timeOf(v); return ok })
	add("IIF", 3, 3, func(_ *Env, args []value.Value) value.Value {
		if b, ok := args[0].Bool(); ok && b {
			return args[1]
		}
		return args[2]
	})
	add("CHOOSE", 2, -1, func(_ *Env, args []value.Value) value.Value {
		i, ok := args[0].Int()
		if !ok || i < 1 || i >= int64(len(args)) {
			return value.Value{}
		}
		return args[i]
	})
	add("DOCUMENTID", 1, 1, documentID)
	impure(DocumentETag, 1, 1, func(e *Env, _ []value.Value) value.Value {
		if e.Seq == 0 {
			return value.Value{}
		}
		return value.String(`"` + strconv.FormatUint(e.Seq, 16) + `"`)
	})
	impure("RAND", 0, 0, func(*Env, []value.Value) value.Value { return value.Number(rand.Float64()) })
}
