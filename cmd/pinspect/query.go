package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

type queryCommand struct {
	target
	Container string            `arg:"" help:"Name of the container."`
	Query     string            `arg:"" help:"The query: SELECT … FROM c …"`
	Key       *string           `placeholder:"KEY" help:"Look in this logical partition, as for get, or with fewer levels in all that begin so."`
	Param     map[string]string `mapsep:"none" placeholder:"NAME=JSON" help:"A parameter of the query, @NAME; what is no JSON is a string."`
	NoScan    bool              `help:"Refuse to read documents one by one."`
	Explain   bool              `help:"Say how the query is answered, and what that took."`
}

// Help returns the long help text.
func (*queryCommand) Help() string {
	return `Answers a query in SQL (docs/queries.md, docs/sql.md). Documents and bare values are printed one a line, columns as a table. With --json each result is wrapped in an object with the key and id of its document. --explain prints the plan first, and then what the query really took. A filter that says what the partition key is looks only there.

Examples:
  pinspect query DIR cities "SELECT TOP 5 c.name, c.population FROM c WHERE c.country_code = 'PT' ORDER BY c.population DESC"
  pinspect query DIR cities "SELECT VALUE COUNT(1) FROM c WHERE STARTSWITH(c.name, @p)" --param p=San
  pinspect query DIR cities "SELECT c.type, COUNT(1) AS n FROM c GROUP BY c.type" --key '"PT"' --explain`
}

// resultRow is a result with the description of its document.
type resultRow struct {
	header
	Key    string          `json:"key,omitempty"` // none for groups
	ID     string          `json:"id,omitempty"`
	Result json.RawMessage `json:"result"`
}

// statsRow is what a query took.
type statsRow struct {
	header
	Plan    engine.QueryPlan  `json:"plan"`
	Stats   engine.QueryStats `json:"stats"`
	Elapsed float64           `json:"elapsed_ms"`
}

// Run runs the command.
func (c *queryCommand) Run(ctx context.Context, out *output) error {
	parameters := make(map[string]any)
	for name, text := range c.Param {
		var v any = text
		if json.Valid([]byte(text)) {
			v = json.RawMessage(text) // so numbers keep their digits
		}
		parameters[strings.TrimPrefix(name, "@")] = v
	}
	q, err := engine.ParseQuery(c.Query, parameters)
	if err != nil {
		return cli.Usagef("%w%s", err, pointer(c.Query, err))
	}
	q.NoScan = c.NoScan
	scope := engine.AllPartitions()
	if c.Key != nil {
		key, keyErr := command.ParseKey(*c.Key)
		if keyErr != nil {
			return keyErr
		}
		scope = engine.PrefixOf(key)
	}
	db, container, err := openIn(ctx, c.Dir, c.Container)
	if err != nil {
		return err
	}
	defer db.Close()
	plan, err := container.Explain(ctx, scope, q)
	if err != nil {
		return readFailure(err)
	}
	if c.Explain && !c.JSON {
		out.printf("%s\n", plan)
	}
	result := container.Query(ctx, scope, q)
	if err := c.print(result, &q, out); err != nil {
		return err
	}
	stats := result.Stats()
	switch {
	case c.Explain && c.JSON:
		return out.object(statsRow{newHeader("explain"), plan, stats, float64(stats.Elapsed) / float64(time.Millisecond)})
	case c.Explain:
		out.printf("\n%s\n", stats)
	}
	return nil
}

// pointer shows the line of a query and the column at which it is no query.
func pointer(text string, err error) string {
	var bad *engine.QuerySyntaxError
	if !errors.As(err, &bad) {
		return ""
	}
	line := strings.Split(text, "\n")[bad.Line-1]
	return "\n  " + strings.ReplaceAll(line, "\t", " ") + "\n  " + strings.Repeat(" ", bad.Column-1) + "^"
}

// tableRows is the number of rows whose widths are made alike.
const tableRows = 1000

// print prints the results.
func (c *queryCommand) print(result *engine.QueryResult, q *engine.Query, out *output) error {
	var table *cli.Table
	var names []string
	for _, f := range q.Fields {
		names = append(names, f.As)
	}
	rows := 0
	flush := func() {
		if table != nil {
			table.Print(out.w, "")
			table = nil
		}
	}
	for it, err := range result.All() {
		if err != nil {
			flush()
			return readFailure(err)
		}
		switch {
		case c.JSON:
			row := resultRow{header: newHeader("result"), ID: it.ID, Result: it.Body}
			if it.Key.Valid() {
				row.Key = it.Key.String()
			}
			if err := out.object(row); err != nil {
				return err
			}
		case len(names) == 0 || q.Value:
			if err := printLine(out, it.Body); err != nil {
				return err
			}
		default:
			if table == nil {
				heads := make([]string, len(names))
				for i, name := range names {
					heads[i] = "<" + printable(name)
				}
				table = cli.NewTable(heads...)
			}
			cells, err := cellsOf(it.Body, names)
			if err != nil {
				return err
			}
			table.Row(cells...)
			if rows++; rows%tableRows == 0 {
				flush()
			}
		}
	}
	flush()
	return nil
}

// cellsOf returns the members of a result as text: strings without quotes,
// absent ones as a dash.
func cellsOf(body []byte, names []string) ([]string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	cells := make([]string, len(names))
	for i, name := range names {
		value, ok := members[name]
		var text string
		switch {
		case !ok:
			cells[i] = "-"
		case json.Unmarshal(value, &text) == nil && value[0] == '"':
			cells[i] = printable(text)
		default:
			cells[i] = string(value)
		}
	}
	return cells, nil
}
