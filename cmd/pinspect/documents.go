package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/engine"
)

type getCommand struct {
	target
	Container string `arg:"" help:"Name of the container."`
	Key       string `arg:"" help:"Partition key: a JSON scalar, or an array of them for several levels."`
	ID        string `arg:"" name:"id" help:"Id of the document."`
}

// Help returns the long help text.
func (*getCommand) Help() string {
	return `Prints a document as it is stored. The key is written as JSON: "acme", 2024, true, null, ["acme",2024]; undefined (or {}) is the key of documents without the property. Mind the shell's quotes; write -- before a negative number. Exit status 1: there is no such document.

Examples:
  pinspect get DIR cities '"PT"' 89245
  pinspect get DIR orders '["acme",2024]' order-17 --json`
}

// documentRow is a document with its description.
type documentRow struct {
	header
	Key      string          `json:"key"` // text form, as get reads it
	ID       string          `json:"id"`
	RawID    []byte          `json:"id_base64,omitempty"` // of an id that is no UTF-8, which is not whole as a text
	ETag     string          `json:"etag"`
	Seq      uint64          `json:"seq"`
	Modified time.Time       `json:"modified"`
	Bytes    int             `json:"bytes"`
	Body     json.RawMessage `json:"body,omitempty"`        // of a JSON container
	Opaque   []byte          `json:"body_base64,omitempty"` // of an opaque one
}

func describeItem(it *engine.Item, kind engine.ContainerKind) *documentRow {
	row := &documentRow{
		header: newHeader("document"), Key: it.Key.String(), ID: it.ID, ETag: it.ETag.String(), Seq: it.Seq, Modified: it.Modified.UTC(), Bytes: len(it.Body),
	}
	if !utf8.ValidString(it.ID) {
		row.RawID = []byte(it.ID)
	}
	if kind == engine.JSON {
		row.Body = it.Body
	} else {
		row.Opaque = it.Body
	}
	return row
}

// Run runs the command.
func (c *getCommand) Run(ctx context.Context, out *output) error {
	key, err := command.ParseKey(c.Key)
	if err != nil {
		return err
	}
	db, container, err := openIn(ctx, c.Dir, c.Container)
	if err != nil {
		return err
	}
	defer db.Close()
	it, err := container.Read(ctx, key, c.ID)
	if errors.Is(err, engine.ErrNotFound) {
		return findingError{fmt.Errorf("container %q has no document with key %s and id %q", c.Container, key, c.ID)}
	}
	if err != nil {
		return readFailure(err)
	}
	if c.JSON {
		return out.object(describeItem(&it, container.Def().Kind))
	}
	out.w.Write(it.Body)
	if container.Def().Kind == engine.JSON {
		out.w.WriteByte('\n')
	}
	return nil
}

// printLine prints a document on one line: as it is, but for line breaks
// between its tokens.
func printLine(out *output, doc []byte) error {
	if bytes.ContainsAny(doc, "\r\n") {
		var compact bytes.Buffer
		if err := json.Compact(&compact, doc); err != nil {
			return err
		}
		doc = compact.Bytes()
	}
	if _, err := out.w.Write(doc); err != nil {
		return err
	}
	return out.w.WriteByte('\n')
}
