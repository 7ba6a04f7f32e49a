package importer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/workload"
)

// file returns the documents of a file, which it opens first, so that a wrong name makes
// no container.
func (c *Import) file(_ context.Context, env *command.Environment) (source, error) {
	in, name := env.Stdin, "standard input"
	closeFile := func() {}
	if c.Source != "-" {
		file, err := os.Open(c.Source)
		if err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err == nil && info.IsDir() {
			file.Close()
			return nil, cli.Usagef("%s is a directory: want a file, or --from badger", c.Source)
		}
		in, name, closeFile = file, c.Source, func() { file.Close() }
	}
	return func(yield func(document, error) bool) {
		defer closeFile()
		if c.From == "ndjson" {
			lines(in, name, yield)
			return
		}
		text, release, err := workload.Decompress(bufio.NewReaderSize(in, 256<<10))
		if err != nil {
			yield(document{}, fmt.Errorf("%s: %w", name, err))
			return
		}
		defer func() { _ = release() }() // it was only read
		plain := bufio.NewReader(text)
		if mark, _ := plain.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
			_, _ = plain.Discard(len(mark)) // which lie in the buffer
		}
		c.export(plain, name, yield)
	}, nil
}

// byteOrderMark may stand before an export.
const byteOrderMark = "\ufeff"

// lines gives the lines of NDJSON. It returns false if yield did.
func lines(in io.Reader, name string, yield func(document, error) bool) bool {
	l := workload.NewLines(in, name, 0)
	defer l.Close()
	for line, err := range l.All() {
		at := fmt.Sprintf("%s: line %d", name, l.Line())
		switch {
		case errors.Is(err, workload.ErrLineTooLong):
			if !yield(document{at: at, err: err}, nil) {
				return false
			}
		case err != nil:
			return yield(document{}, err)
		case !yield(document{at: at, body: line}, nil):
			return false
		}
	}
	return true
}

// export gives the documents of an export of Cosmos DB: values one after the other, each a
// document, an array of documents, or an object with an array "Documents".
func (c *Import) export(in io.Reader, name string, yield func(document, error) bool) {
	d := json.NewDecoder(in)
	n := 0
	give := func(raw json.RawMessage) bool {
		n++
		doc := document{at: fmt.Sprintf("%s: document %d, byte %d", name, n, d.InputOffset()), body: raw}
		if !c.KeepSystem {
			body, err := withoutSystem(raw)
			if doc.err = err; err == nil {
				doc.body = body
			}
		}
		return yield(doc, nil)
	}
	fail := func(err error) { yield(document{}, fmt.Errorf("%s: byte %d: %w", name, d.InputOffset(), err)) }
	array := false
	for {
		if array && !d.More() {
			if _, err := d.Token(); err != nil {
				fail(noEOF(err))
				return
			}
			array = false
		}
		if !array {
			first, err := firstByte(d)
			if err == io.EOF {
				return
			}
			if err != nil {
				fail(err)
				return
			}
			if first == '[' {
				if _, err := d.Token(); err != nil {
					fail(err)
					return
				}
				array = true
				continue
			}
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			fail(noEOF(err))
			return
		}
		var page struct { // of a REST answer; what has an id is a document
			ID        json.RawMessage
			Documents *[]json.RawMessage
		}
		if !array && bytes.Contains(raw, []byte(`"Documents"`)) && json.Unmarshal(raw, &page) == nil && page.ID == nil && page.Documents != nil {
			for _, doc := range *page.Documents {
				if !give(doc) {
					return
				}
			}
			continue
		}
		if !give(raw) {
			return
		}
	}
}

// firstByte returns the first byte of the next value, which stays to be read.
func firstByte(d *json.Decoder) (byte, error) {
	if !d.More() { // and it has read up to the next value
		_, err := d.Token()
		if err == nil {
			err = errors.New("a value is missing")
		}
		return 0, err
	}
	for ahead := bufio.NewReader(d.Buffered()); ; {
		b, err := ahead.ReadByte()
		if err != nil || !strings.ContainsRune(" \t\r\n", rune(b)) {
			return b, err
		}
	}
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// systemProperties are those that Cosmos DB adds to a document.
var systemProperties = []string{"_rid", "_self", "_etag", "_ts", "_attachments", "_lsn"}

// withoutSystem returns a document without the system properties, its other members as
// they are and in their order.
func withoutSystem(raw []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	out := []byte{'{'}
	for d.More() {
		before := d.InputOffset()
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		quoted := bytes.TrimLeft(raw[before:d.InputOffset()], " \t\r\n,") // as it is: one that is no UTF-8 is refused later
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if slices.Contains(systemProperties, name.(string)) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, quoted...), ':'), value...)
	}
	return append(out, '}'), nil
}

// clearance is how long the companion program may take to clear up when its import has ended.
const clearance = 10 * time.Second

// companionName is the program that reads other stores, and install how to get it.
const (
	companionName = "cleave-migrate"
	install       = "go install github.com/cleavestore/cleave/migrate/cleave-migrate@latest"
)

// Line is a line that the companion program prints.
type Line struct {
	At    string          `json:"at"`              // where the source has the document
	Doc   json.RawMessage `json:"doc,omitempty"`   // the document
	Key   string          `json:"key,omitempty"`   // of an opaque document: its partition key,
	ID    string          `json:"id,omitempty"`    // its id,
	Bytes []byte          `json:"bytes,omitempty"` // and its bytes, in base64
	Error string          `json:"error,omitempty"` // why there is none
}

// companion returns the documents that the companion program reads.
func (c *Import) companion(ctx context.Context) (source, error) {
	program, err := exec.LookPath(companionName)
	if err != nil {
		return nil, cli.Usagef("%s is read by the program %s, which is not on the PATH. Install it with\n  %s", c.From, companionName, install)
	}
	if c.Source != "-" {
		if _, err := os.Stat(c.Source); err != nil {
			return nil, err
		}
	}
	args := []string{"--from", c.From}
	for _, with := range c.With {
		if name, _, ok := strings.Cut(with, "="); !ok || name == "" {
			return nil, cli.Usagef("--with %s: want NAME=VALUE", with)
		}
		args = append(args, "--"+with)
	}
	if c.Opaque {
		args = append(args, "--value=bytes")
	}
	args = append(args, "--", c.Source)
	return func(yield func(document, error) bool) {
		running, cancel := context.WithCancel(ctx)
		defer cancel()
		cmd := exec.CommandContext(running, program, args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		cmd.Cancel = func() error { return errors.Join(out.Close(), cmd.Process.Signal(os.Interrupt)) }
		cmd.WaitDelay = clearance
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			yield(document{}, err)
			return
		}
		going := c.decodeLines(workload.NewLines(out, companionName, maxCompanionLine), yield)
		if !going {
			cancel()
			_ = cmd.Wait() // it was ended
			return
		}
		if err := cmd.Wait(); err != nil {
			yield(document{}, fmt.Errorf("%s: %w: %s", companionName, err, bytes.TrimSpace(said.Bytes())))
		}
	}, nil
}

// maxCompanionLine is the longest line of the companion program: a document that no
// container takes is refused there, and not here.
const maxCompanionLine = 64 << 20

// decodeLines gives the documents of the companion's lines. A line that is too long is a
// document with that error. It returns false if yield did.
func (c *Import) decodeLines(l *workload.Lines, yield func(document, error) bool) bool {
	defer l.Close()
	for text, err := range l.All() {
		if errors.Is(err, workload.ErrLineTooLong) {
			if !yield(document{at: fmt.Sprintf("%s: record %d", c.Source, l.Line()), err: err}, nil) {
				return false
			}
			continue
		}
		var line Line
		if err == nil {
			err = json.Unmarshal(text, &line)
		}
		if err != nil {
			yield(document{}, err)
			return false
		}
		doc := document{at: c.Source + ": " + line.At, body: line.Doc}
		if c.Opaque {
			doc.key, doc.id, doc.body = engine.StringKey(line.Key), line.ID, line.Bytes
		}
		if line.Error != "" {
			doc.err = errors.New(line.Error)
		}
		if !yield(doc, nil) {
			return false
		}
	}
	return true
}

// reject counts a document that cannot be written.
func (w *writing) reject(doc *document, reason error) error {
	w.done.Rejected++
	if w.first == nil {
		w.first = fmt.Errorf("%s: %w", doc.at, reason)
	}
	if w.rejects == nil {
		return nil
	}
	text, raw := string(doc.body), []byte(nil)
	if !utf8.Valid(doc.body) {
		text, raw = "", doc.body
	}
	line, err := json.Marshal(struct {
		At     string `json:"at"`
		Reason string `json:"reason"`
		Text   string `json:"document,omitempty"`
		Bytes  []byte `json:"bytes,omitempty"` // in base64, of what is no text
	}{doc.at, reason.Error(), text, raw})
	if err == nil {
		_, err = w.rejects.Write(append(line, '\n'))
	}
	return err
}
