package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	_ "modernc.org/sqlite" // pure Go
)

// exactIntegers is the range in which numbers of JSON are exact everywhere.
const exactIntegers = 1 << 53

// readSQLite reads the rows of a table or query in one transaction, which sees one moment;
// in WAL mode writers go on meanwhile.
func (c *config) readSQLite(ctx context.Context, w *printer) error {
	if (c.table == "") == (c.query == "") {
		return errors.New("say table=NAME, or query=SELECT…")
	}
	path, err := filepath.Abs(c.source)
	if err != nil {
		return err
	}
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "mode=ro&_pragma=busy_timeout(10000)&_pragma=query_only(1)"}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("%s: %w", c.source, err)
	}
	defer tx.Rollback()
	ids, query := columns(c.id), c.query
	if c.table != "" {
		if len(ids) == 0 {
			if ids, err = primaryKey(ctx, tx, c.table); err != nil {
				return fmt.Errorf("%s: %w", c.source, err)
			}
		}
		query = "SELECT *"
		for _, id := range ids { // once more, as it is stored: the driver makes one time of several texts
			query += ", +" + quoteName(id)
		}
		query += " FROM " + quoteName(c.table)
	}
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("%s: %w", c.source, err)
	}
	defer rows.Close()
	if len(ids) == 0 {
		return errors.New("there is no primary key: id=COLUMN says what becomes the id")
	}
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]any, len(names)), make([]any, len(names))
	if c.table != "" {
		names = names[:len(names)-len(ids)]
	}
	for flag, list := range map[string][]string{"id": ids, "json": columns(c.json)} {
		for _, name := range list {
			if !slices.Contains(names, name) {
				return fmt.Errorf("%s=%s: there is no such column among %q", flag, name, names)
			}
		}
	}
	kinds := make(map[string]string)
	for i := range values {
		into[i] = &values[i]
	}
	for n := 1; rows.Next(); n++ {
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("%s: row %d: %w", c.source, n, err)
		}
		doc, id, err := c.row(names, values, ids, kinds)
		if err = w.print(fmt.Sprintf("row %d, id %q", n, id), doc, err); err != nil {
			return err
		}
	}
	return rows.Err()
}

// row makes a document of a row. Of a table the values of the id come once more, behind the others. kinds has what kind
// of value the first row has in each column of the id: 1 and '1' would make one id.
func (c *config) row(names []string, values []any, ids []string, kinds map[string]string) (doc []byte, id string, err error) {
	texts := make([]string, 0, len(ids))
	members := make([]member, 1, 1+len(names)) // the id comes first
	for i, name := range ids {
		v := values[slices.Index(names, name)]
		if c.table != "" {
			v = values[len(names)+i]
		}
		if _, ok := v.(time.Time); ok {
			return nil, "", fmt.Errorf("column %s of the id is a time, and several texts are the same time: say CAST(%s AS TEXT) AS %[2]s in the query", name, quoteName(name))
		}
		if v == nil {
			return nil, "", fmt.Errorf("column %s of the id is NULL", name)
		}
		kind := kindOf(v)
		if kinds[name] = cmp.Or(kinds[name], kind); kinds[name] != kind {
			return nil, "", fmt.Errorf("column %s of the id is a %s, and a %s in the first row: make the id in a query", name, kind, kinds[name])
		}
		text, ok := v.(string)
		if !ok {
			var raw []byte
			if raw, err = c.column(name, v); err != nil {
				return nil, "", err
			}
			text = strings.Trim(string(raw), `"`)
		}
		if !utf8.ValidString(text) { // quoted it would be the id of other rows too
			return nil, "", fmt.Errorf("column %s is no UTF-8", name)
		}
		if len(ids) > 1 && strings.Contains(text, "|") {
			return nil, "", fmt.Errorf("column %s of the id has a bar, which stands between the columns of an id: make the id in a query", name)
		}
		texts = append(texts, text)
	}
	id = strings.Join(texts, "|")
	members[0] = member{"id", quote(id)}
	for i, name := range names {
		if name == "id" {
			if !slices.Contains(ids, name) {
				return nil, id, errors.New(`column id is not the id of the document: rename it in a query, as in SELECT id AS number`)
			}
			if len(ids) == 1 {
				continue
			}
			return nil, id, errors.New("column id is one of several that make the id: rename it in a query")
		}
		if slices.ContainsFunc(members, func(m member) bool { return m.name == name }) {
			return nil, id, fmt.Errorf("two columns are named %s", name)
		}
		var raw []byte
		if raw, err = c.column(name, values[i]); err != nil {
			return nil, id, err
		}
		members = append(members, member{name, raw})
	}
	doc, err = object(members, nil)
	return doc, id, err
}

// kindOf returns the kind of a value in the id. Values of one kind that differ make different texts.
func kindOf(value any) string {
	switch value.(type) {
	case int64, float64:
		return "number"
	case []byte:
		return "BLOB"
	}
	return "text"
}

// column returns a value as JSON.
func (c *config) column(name string, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return []byte("null"), nil
	case int64:
		text := strconv.FormatInt(v, 10)
		if c.integers == "text" && (v > exactIntegers || v < -exactIntegers) {
			return quote(text), nil
		}
		return []byte(text), nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, fmt.Errorf("column %s: JSON has no number %v", name, v)
		}
		return json.Marshal(v)
	case bool:
		return strconv.AppendBool(nil, v), nil
	case []byte:
		if c.holdsJSON(name) { // a program that binds a []byte stores it so
			return validJSON(name, v)
		}
		return quote(base64.StdEncoding.EncodeToString(v)), nil
	case time.Time:
		return quote(v.Format(time.RFC3339Nano)), nil
	case string:
		if c.holdsJSON(name) {
			return validJSON(name, []byte(v))
		}
		if !utf8.ValidString(v) {
			return nil, fmt.Errorf("column %s is no UTF-8", name)
		}
		return quote(v), nil
	}
	return nil, fmt.Errorf("column %s has the type %T", name, value)
}

func (c *config) holdsJSON(name string) bool { return slices.Contains(columns(c.json), name) }

func validJSON(name string, text []byte) ([]byte, error) {
	if !json.Valid(text) {
		return nil, fmt.Errorf("column %s is no JSON", name)
	}
	return text, nil
}

// primaryKey returns the columns of the primary key, in their order.
func primaryKey(ctx context.Context, tx *sql.Tx, table string) (names []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

func columns(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
