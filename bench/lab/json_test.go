package main

import (
	"flag"
	"testing"

	"github.com/cleavestore/cleave/internal/jsonfields"
)

var rewrite = flag.Bool("rewrite", false, "accept the JSON fields as they are")

// TestJSONFields: docs/json.md lists the fields of all that is printed as JSON.
func TestJSONFields(t *testing.T) {
	text := jsonfields.Text([]jsonfields.Object{
		{Name: "splits", Value: splitsReport{}},
		{Name: "cold", Value: coldReport{}},
		{Name: "feed", Value: feedReport{}},
		{Name: "catchup", Value: catchUpReport{}},
	})
	if err := jsonfields.Compare("../../docs/json.md", "lab", text, *rewrite); err != nil {
		t.Error(err)
	}
}
