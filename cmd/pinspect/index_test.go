package main

import (
	"strings"
	"testing"
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
