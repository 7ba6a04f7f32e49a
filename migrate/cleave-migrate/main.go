// Cleave-migrate reads documents from a bbolt file, a Badger directory or an SQLite
// database, and prints them for pinspect import, which runs it:
//
//	pinspect import my.db --from bbolt --db DIR --container users --partition-key /tenant --with bucket=users
//
// It prints a line of JSON for each document: {"at": where the source has it, "doc": the
// document}, or "error" in place of "doc" if there is none. With -value bytes a line has
// "key", "id" and "bytes" in place of "doc". It never writes to the source.
// It is a module of its own, so that pinspect stays free of the libraries of other stores.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode/utf8"
)

// config is what the command line says.
type config struct {
	from, source string
	bucket       string // bbolt
	prefix       string // badger: of keys
	table, query string // sqlite
	id           string // sqlite: columns
	json         string // sqlite: columns
	value        string // bbolt, badger: json or base64
	key          string // bbolt, badger: member for the part of the key before separator
	separator    string
	integers     string // sqlite: number or text
}

func main() {
	// These would end the process before it has removed its temporary files. A pipe that
	// nobody reads is one: pinspect closes it when the import has ended.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "cleave-migrate:", err)
		}
		os.Exit(1)
	}
}

// run is the program.
func run(ctx context.Context, args []string, out io.Writer) error {
	var c config
	f := flag.NewFlagSet("cleave-migrate", flag.ContinueOnError)
	f.StringVar(&c.from, "from", "", "bbolt, badger or sqlite")
	f.StringVar(&c.bucket, "bucket", "", "bbolt: `path` of the bucket, as in accounts/users")
	f.StringVar(&c.prefix, "prefix", "", "badger: only keys with this `prefix`, which is cut off")
	f.StringVar(&c.value, "value", "json", "bbolt, badger: what values are: json, an object each; or base64: any bytes, which become the member \"value\"; or bytes: any bytes, for an opaque container")
	f.StringVar(&c.key, "key", "", "bbolt, badger: the part of the key before the separator becomes this `member`; the rest is the id")
	f.StringVar(&c.separator, "separator", "/", "bbolt, badger: see -key")
	f.StringVar(&c.table, "table", "", "sqlite: the `table` to read")
	f.StringVar(&c.query, "query", "", "sqlite: a SELECT in place of a table")
	f.StringVar(&c.id, "id", "", "sqlite: `columns` whose values, joined by |, are the id; the primary key if it is not given")
	f.StringVar(&c.json, "json", "", "sqlite: `columns` that hold JSON, which becomes part of the document")
	f.StringVar(&c.integers, "integers", "text", "sqlite: what integers beyond 2^53 become, which queries could not tell apart: text or number")
	f.SetOutput(io.Discard) // the usage of this program is not that of pinspect, which shows its errors
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(os.Stderr)
			f.Usage()
		}
		return err
	}
	if f.NArg() != 1 {
		return errors.New("name one source")
	}
	if c.integers != "text" && c.integers != "number" {
		return fmt.Errorf("-integers %q: want text or number", c.integers)
	}
	var others []error
	f.Visit(func(given *flag.Flag) {
		if kinds, _, _ := strings.Cut(given.Usage, ": "); given.Name != "from" && !strings.Contains(kinds, c.from) {
			others = append(others, fmt.Errorf("%s is for %s, and not for %s", given.Name, kinds, c.from))
		}
	})
	if len(others) > 0 {
		return others[0]
	}
	c.source = f.Arg(0)
	w := &printer{out: bufio.NewWriterSize(out, 1<<20)}
	var err error
	switch c.from {
	case "bbolt":
		err = c.readBolt(ctx, w)
	case "badger":
		err = c.readBadger(ctx, w)
	case "sqlite":
		err = c.readSQLite(ctx, w)
	default:
		err = fmt.Errorf("-from %q: want bbolt, badger or sqlite", c.from)
	}
	return errors.Join(err, w.out.Flush())
}

// interruptible is a reader that ends with its context.
type interruptible struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (r interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

// maxBytes is the largest document that is printed. No container takes one as large, and
// pinspect import reads lines of up to twice this size.
const maxBytes = 32 << 20

// printer prints documents.
type printer struct{ out *bufio.Writer }

// line is what pinspect import reads.
type line struct {
	At    string          `json:"at"`
	Doc   json.RawMessage `json:"doc,omitempty"`
	Key   string          `json:"key,omitempty"`
	ID    string          `json:"id,omitempty"`
	Bytes []byte          `json:"bytes,omitempty"`
	Error string          `json:"error,omitempty"`
}

// print prints a document, or the error that there is in its place.
func (p *printer) print(at string, doc []byte, err error) error {
	return p.line(line{At: at, Doc: doc}, err)
}

// line prints a line, or the error that there is in its place.
func (p *printer) line(l line, err error) error {
	if err == nil && len(l.Doc)+len(l.Bytes) > maxBytes {
		err = errors.New("larger than any container takes")
	}
	if err != nil {
		l = line{At: l.At, Error: err.Error()}
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err = enc.Encode(l); err != nil { // the document is no JSON
		text.Reset()
		err = enc.Encode(line{At: l.At, Error: err.Error()})
	}
	if err == nil {
		_, err = p.out.Write(text.Bytes())
	}
	return err
}

// member is a member of a document.
type member struct {
	name  string
	value []byte // JSON
}

// pair prints a key and a value of a store of keys and values.
func (c *config) pair(w *printer, at string, key, value []byte) error {
	if c.value != "bytes" {
		doc, err := c.document(key, value)
		return w.print(at, doc, err)
	}
	before, after, ok := strings.Cut(string(key), c.separator)
	var err error
	switch {
	case c.key == "":
		return errors.New("-value bytes needs -key")
	case !utf8.Valid(key):
		err = fmt.Errorf("key %q is no UTF-8", key)
	case !ok:
		err = fmt.Errorf("key %q has no %q", key, c.separator)
	}
	return w.line(line{At: at, Key: before, ID: after, Bytes: value}, err)
}

// document makes a document of a key and a value of a store of keys and values.
func (c *config) document(key, value []byte) ([]byte, error) {
	if !utf8.Valid(key) {
		return nil, fmt.Errorf("key %q is no UTF-8", key)
	}
	id := string(key)
	members := make([]member, 0, 3)
	if c.key != "" {
		before, after, ok := strings.Cut(id, c.separator)
		if !ok {
			return nil, fmt.Errorf("key %q has no %q", id, c.separator)
		}
		id = after
		members = append(members, member{c.key, quote(before)})
	}
	members = append(members, member{"id", quote(id)})
	switch c.value {
	case "base64":
		members = append(members, member{"value", quote(base64.StdEncoding.EncodeToString(value))})
		return object(members, nil)
	case "json":
		return object(members, value)
	}
	return nil, fmt.Errorf("-value %q: want json, base64 or bytes", c.value)
}

// object returns an object with members, and those of a second object. A member of both
// must have one value.
func object(members []member, rest []byte) ([]byte, error) {
	out := []byte{'{'}
	add := func(name, value []byte) { // the name is quoted
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	for _, m := range members {
		add(quote(m.name), m.value)
	}
	if rest == nil {
		return append(out, '}'), nil
	}
	d := json.NewDecoder(bytes.NewReader(rest))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("the value is no JSON object")
	}
next:
	for d.More() {
		before := d.InputOffset()
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		quoted := bytes.TrimLeft(rest[before:d.InputOffset()], " \t\r\n,") // as it is: one that is no UTF-8 is refused later
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		for _, m := range members {
			if m.name != name {
				continue
			}
			if !sameText(m.value, value) {
				return nil, fmt.Errorf("the document has another %q, %s, than its key says, %s", name, value, m.value)
			}
			continue next
		}
		add(quoted, value)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON object")
	}
	return append(out, '}'), nil
}

// sameText tells whether a value is the string of a member, however it is escaped.
func sameText(quoted, value []byte) bool {
	var text *string
	return json.Unmarshal(value, &text) == nil && text != nil && bytes.Equal(quote(*text), quoted)
}

// quote returns a string as JSON.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // of a string
	return bytes.TrimSpace(b.Bytes())
}
