package eval

import (
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/sql/reference"
	"github.com/cleavestore/cleave/internal/sql/syntax"
	"github.com/cleavestore/cleave/internal/sql/value"
)

var (
	pairs = flag.Int("pairs", 6_000, "random pairs of a query and a document that TestAgainstReference compares")
	seed  = flag.Uint64("seed", 1, "of the random pairs")
)

// plain returns a value as encoding/json reads it.
func plain(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// TestAgainstReference: random queries have the results of the reference on random documents,
// whether the documents are read as they are written or were made of values. A frame has seen another
// document before.
func TestAgainstReference(t *testing.T) {
	d := reference.Draw{Rand: rand.New(rand.NewPCG(*seed, 7))}
	compared, some := 0, 0
	for n := 0; n < *pairs; n++ {
		text := d.Query()
		tree, err := syntax.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		q, err := Compile(text, tree, Options{})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		doc := `{"id":"i"` + d.Members() + `}`
		root := plain(t, []byte(doc))
		want, err := reference.Results(tree, []any{root})
		if err != nil {
			continue // it has no results: a subquery has several, or a number is none
		}
		made, err := value.Of(root, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		f := q.NewFrame(time.Time{}, nil)
		_ = q.Run(f, value.Parse([]byte(`{"id":"j"`+d.Members()+`}`)), func(value.Value) bool { return true }) // it may be an error
		for _, document := range []value.Value{value.Parse([]byte(doc)), made} {
			var got []any
			err := q.Run(f, document, func(v value.Value) bool {
				got = append(got, plain(t, v.Append(nil)))
				return true
			})
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("pair %d of seed %d: %s\nof %s\n got %v, error %v\nwant %v", n, *seed, text, doc, got, err, want)
			}
		}
		compared++
		if len(want) > 0 {
			some++
		}
	}
	if compared < *pairs*8/10 || some < *pairs/4 {
		t.Errorf("%d of %d pairs were compared, %d had results", compared, *pairs, some)
	}
}
