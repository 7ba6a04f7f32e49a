package engine

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

// publicQuery is a case of testdata/public_queries.txt.
type publicQuery struct {
	name, text string
	docs       []string
	want       []string
}

func publicQueries(t *testing.T) (list []publicQuery) {
	text, err := os.ReadFile("testdata/public_queries.txt")
	must(t, err)
	for part := range strings.SplitSeq(string(text), "\n\n") {
		lines := strings.Split(strings.TrimSpace(part), "\n")
		name, ok := strings.CutPrefix(lines[0], "query ")
		if !ok {
			continue
		}
		end := slices.Index(lines, "----")
		list = append(list, publicQuery{name: name, text: lines[1], docs: lines[2:end], want: lines[end+1:]})
	}
	return list
}

// TestPublicQueries: the queries of the public documentation of Azure Cosmos DB have the
// results that are stated there, or are refused for what is not available.
func TestPublicQueries(t *testing.T) {
	list := publicQueries(t)
	if len(list) < 160 {
		t.Fatalf("%d queries", len(list))
	}
	db, _ := openStore(t, testOptions(vfs.NewMem()))
	alike := 0
	for i, p := range list {
		t.Run(p.name, func(t *testing.T) {
			c, err := db.CreateContainer(t.Context(), fmt.Sprintf("c%d", i), ContainerDef{PartitionKey: []string{"/id"}, MinPartitions: 2, Index: IndexAll()})
			must(t, err)
			for n, doc := range p.docs {
				var members map[string]any
				must(t, json.Unmarshal([]byte(doc), &members))
				if _, ok := members["id"].(string); !ok {
					doc = fmt.Sprintf(`{"id":"d%02d",%s`, n, doc[1:])
				}
				must(t, second(c.Upsert(t.Context(), []byte(doc), nil)))
			}
			q, err := ParseQuery(p.text, nil)
			how := strings.Join(p.want[:min(1, len(p.want))], "") // no line: no result
			if how == "refused" {
				if err == nil || err.Error() != p.want[1] {
					t.Errorf("error %v, want %s", err, p.want[1])
				}
				return
			}
			must(t, err)
			var got []any
			for it, err := range c.Query(t.Context(), AllPartitions(), q).All() {
				must(t, err)
				var v any
				must(t, json.Unmarshal(it.Body, &v))
				got = append(got, v)
			}
			if how == "changing" {
				if len(got) != 1 && len(p.docs) == 0 && q.text != nil && !strings.Contains(p.text, " FROM ") {
					t.Errorf("%d results", len(got))
				}
				return
			}
			stated := p.want
			if how == "here" {
				stated = stated[1:]
			} else {
				alike++
			}
			var want []any
			for _, line := range stated {
				var v any
				must(t, json.Unmarshal([]byte(line), &v))
				want = append(want, v)
			}
			if !strings.Contains(p.text, "ORDER BY") {
				byText := func(a, b any) int { return strings.Compare(canonical(t, []any{a})[0], canonical(t, []any{b})[0]) }
				slices.SortFunc(got, byText)
				slices.SortFunc(want, byText)
			}
			if !slices.EqualFunc(got, want, nearlyEqual) {
				t.Errorf("%s\n got %q\nwant %q", p.text, canonical(t, got), canonical(t, want))
			}
		})
	}
	if alike < 135 {
		t.Errorf("%d queries were compared with what is stated", alike)
	}
}

// nearlyEqual compares values; numbers may differ in the last digits.
func nearlyEqual(a, b any) bool {
	switch x := a.(type) {
	case float64:
		y, ok := b.(float64)
		return ok && math.Abs(x-y) <= 1e-14*math.Max(math.Abs(x), math.Abs(y))
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, nearlyEqual)
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for name, v := range x {
			w, has := y[name]
			if !has || !nearlyEqual(v, w) {
				return false
			}
		}
		return true
	}
	return a == b
}
