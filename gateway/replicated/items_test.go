package replicated

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
)

// TestIDOf: the id of a document is that of the member id, whatever other members have names that differ by case: a transaction would be
// about another item.
func TestIDOf(t *testing.T) {
	for doc, want := range map[string]string{
		`{"id":"a","ID":"b"}`:              "a",
		`{"Id":"b","id":"a","iD":"c"}`:     "a",
		`{"ID":"b"}`:                       "",
		`{"in":{"id":"b"},"id":"a\u0062"}`: "ab",
		`{ "id" : "\"é\ud83d\ude00" }`:     "\"é😀",
	} {
		if got := idOf([]byte(doc)); got != want {
			t.Errorf("%s: %q, want %q", doc, got, want)
		}
	}
}

// TestImpossibleID: an id that no item can have is refused as by an engine.DB, before a node is asked: an error of a node is only
// of a kind.
func TestImpossibleID(t *testing.T) {
	ctx := t.Context()
	s := open(t, heard{})
	c := orders(cluster.FirstNumber)
	it, err := s.items(ctx, &c)
	must(t, err)
	key, long := engine.StringKey("k"), strings.Repeat("i", 1024)
	run := &tx{c: it, ctx: ctx, key: key, seen: make(map[string]*version)}
	_, err = it.Read(ctx, key, long)
	_, in := run.Read(long)
	for name, err := range map[string]error{
		"read": err, "delete": it.Delete(ctx, key, long, nil), "read in a transaction": in, "delete in a transaction": run.Delete(long, nil),
	} {
		if of, ok := errors.AsType[*engine.LimitError](err); !ok || of.What != "id" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err = it.Read(ctx, key, ""); !errors.Is(err, engine.ErrInvalid) {
		t.Error(err)
	}
}

// TestPatchEnds: what the condition of a patch computes of a document ends with the request, as over an engine.DB.
func TestPatchEnds(t *testing.T) {
	c := orders(cluster.FirstNumber)
	it, err := open(t, heard{}).items(t.Context(), &c)
	must(t, err)
	q, err := engine.ParseQuery("SELECT * FROM c WHERE NOT EXISTS(SELECT VALUE 1 FROM p IN c.t JOIN q IN c.t WHERE p + q = 3)", nil)
	must(t, err)
	doc := []byte(`{"id":"1","k":"a","t":[` + strings.Repeat("1,", 399) + `1]}`)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"under way": t.Context(), "gone": gone} {
		run := &tx{c: it, ctx: ctx, key: engine.StringKey("a"), seen: map[string]*version{"1": {before: engine.Item{Body: doc}, existed: true}}}
		if err := run.Patch("1", new(engine.Patch).When(q.Where).Set("/n", 1), nil); !errors.Is(err, ctx.Err()) {
			t.Errorf("%s: %v, want %v", name, err, ctx.Err())
		}
	}
}

// TestBare: a refusal does not count the operations of a batch of which the client does not know.
func TestBare(t *testing.T) {
	unique := &engine.UniqueKeyError{ID: "a", Holder: "b", Paths: []string{"/u"}}
	other := errors.New("other")
	for _, kind := range []error{engine.ErrExists, engine.ErrNotFound, engine.ErrPrecondition, unique, other} {
		if got := bare(fmt.Errorf("operation 1 of the batch: %w", kind)); (got == kind) == (kind == other) {
			t.Errorf("%v", got)
		}
	}
}
