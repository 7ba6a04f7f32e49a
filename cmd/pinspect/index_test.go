package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/storediff"
	"github.com/cleavestore/cleave/internal/cli"
)

func TestIndexCommand(t *testing.T) {
	s := newSample(t)
	list := objects(t, clean(t, "index", s.dir, "--json", "--container", "cities", "--show-values"))
	rows := ofType(list, "index")
	if len(rows) != 1 || rows[0]["files"] != rows[0]["indexed_files"] || rows[0]["files"] == 0.0 {
		t.Fatalf("indexes: %v", rows)
	}
	postings := map[string]float64{}
	for _, p := range ofType(list, "path") {
		postings[p["path"].(string)] = p["postings"].(float64)
	}
	// 700 documents were flushed, and 50 tombstones, which have no terms.
	for _, path := range []string{"/id", "/country", "/people", "/note"} {
		if postings[path] != 700 {
			t.Errorf("%s: %v postings", path, postings[path])
		}
	}
	terms := ofType(list, "term")
	if len(terms) != 10 || terms[0]["path"] != "/country" && terms[0]["path"] != "/note" {
		t.Errorf("largest terms: %v", terms)
	}
	text := clean(t, "index", s.dir, "--paths", "2", "--top", "3")
	for _, want := range []string{"cities: include /*", "blobs: not indexed", "single", "largest terms"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "lorem") || !strings.Contains(clean(t, "index", s.dir, "--show-values", "--top", "1000"), "lorem") {
		t.Error("values are shown without --show-values, or not with it")
	}
}

// TestProgress: commands that read much show on a terminal how far they are, and clear the line.
func TestProgress(t *testing.T) {
	s, empty := newSample(t), filepath.Join(t.TempDir(), "empty")
	clean(t, "create", empty, "other", "--partition-key", "/k")
	for want, run := range map[string]func(env *command.Environment) error{
		" term": func(env *command.Environment) error {
			return (&indexCommand{target: target{Dir: s.dir}}).Run(t.Context(), env, &output{w: bufio.NewWriter(io.Discard)})
		},
		" documents compared": func(env *command.Environment) error { // all of them are in one of the stores
			return (&storediff.Command{A: s.dir, B: empty, Container: "cities"}).Run(t.Context(), env)
		},
	} {
		var drawn bytes.Buffer
		err := run(&command.Environment{Stdout: io.Discard, Line: cli.NewLine(&drawn, 80, time.Time{})})
		if err != nil && !errors.As(err, new(command.DiffersError)) {
			t.Fatal(err)
		}
		if text := drawn.String(); !strings.Contains(text, want) || !strings.HasSuffix(text, " \r") {
			t.Errorf("for %q the terminal shows %q", want, text)
		}
	}
}
