package engine

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestPlans carries out the commands in testdata/plans, each file on a store of its own:
// docs/queries.md says what they must put out. A scope is one=KEY, prefix=KEY or all.
//
//	container       makes the container: its definition, as JSON
//	put             documents
//	delete          an id and a key on each line
//	flush, compact  do so
//	explain SCOPE   a query: its plan
//	query SCOPE     a query: its results
func TestPlans(t *testing.T) {
	datadriven.Walk(t, "testdata/plans", func(t *testing.T, path string) {
		ctx := t.Context()
		db, err := Open(ctx, "plans", testOptions(vfs.NewMem()))
		must(t, err)
		t.Cleanup(func() { db.Close() })
		var c *Container
		datadriven.RunTest(t, path, func(t *testing.T, cmd *datadriven.TestData) string {
			switch cmd.Cmd {
			case "container":
				var def ContainerDef
				must(t, json.Unmarshal([]byte(cmd.Input), &def))
				c, err = db.CreateContainer(ctx, "c", def)
				must(t, err)
			case "put":
				for doc := range strings.Lines(cmd.Input) {
					must(t, second(c.Upsert(ctx, []byte(strings.TrimSpace(doc)), nil)))
				}
			case "delete":
				for line := range strings.Lines(cmd.Input) {
					id, key, _ := strings.Cut(strings.TrimSpace(line), " ")
					k, err := ParseKey(key)
					must(t, err)
					must(t, c.Delete(ctx, k, id, nil))
				}
			case "flush":
				must(t, db.Flush(ctx))
			case "compact":
				must(t, db.Compact(ctx))
			case "explain", "query":
				q, err := ParseQuery(cmd.Input, nil)
				if err != nil {
					return err.Error()
				}
				scope := AllPartitions()
				for _, arg := range cmd.CmdArgs {
					k, err := ParseKey(arg.Vals[0])
					must(t, err)
					if scope = OnePartition(k); arg.Key == "prefix" {
						scope = PrefixOf(k)
					}
				}
				if cmd.Cmd == "query" {
					r := c.Query(ctx, scope, q)
					list, err := results(r)
					must(t, err)
					return strings.Join(list, "\n")
				}
				plan, err := c.Explain(ctx, scope, q)
				if err != nil {
					return err.Error()
				}
				return plan.String()
			default:
				t.Fatalf("%s: no command %s", cmd.Pos, cmd.Cmd)
			}
			return ""
		})
	})
}

// TestFigures: figures of one are in the singular.
func TestFigures(t *testing.T) {
	one := QueryStats{Results: 1, Matched: 1, Elapsed: time.Millisecond, Charge: 2.3, Documents: 1, Bytes: 1, Partitions: 1}
	if got, want := one.String(), "1 result of 1 matching document in 1ms, 2.3 RU\n1 document read (1 byte), 0 named by indexes, in 1 partition"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
