package importer

import (
	"errors"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/workload"
)

// TestCompanionLineTooLong: a record of the companion that is too long is a reject with its
// place, and the records behind it follow.
func TestCompanionLineTooLong(t *testing.T) {
	const first, last = `{"at":"key a","doc":{"id":"a"}}` + "\n", "\n" + `{"at":"key c","doc":{"id":"c"}}` + "\n"
	lines := workload.NewLines(strings.NewReader(first+strings.Repeat("x", 101)+last), companionName, 100)
	var places []string
	whole := (&Import{Source: "my.db"}).decodeLines(lines, func(doc document, err error) bool {
		if err != nil || errors.Is(doc.err, workload.ErrLineTooLong) != (len(places) == 1) {
			t.Errorf("%s: %v, %v", doc.at, doc.err, err)
		}
		places = append(places, doc.at)
		return true
	})
	if got := strings.Join(places, ", "); !whole || got != "my.db: key a, my.db: record 2, my.db: key c" {
		t.Errorf("%v: %s", whole, got)
	}
}

// TestWithoutSystem: the other members stay as they are, also what is no UTF-8: that is refused
// when the document is written, and not changed in silence.
func TestWithoutSystem(t *testing.T) {
	for doc, want := range map[string]string{
		`{"_ts":1, "id":"a" , "\u005frid":2, "n":1.0,"\u0061":{"_ts":3}}`: `{"id":"a","n":1.0,"\u0061":{"_ts":3}}`,
		"{\"id\":\"a\",\"caf\xe9\":1,\"_ts\":2}":                          "{\"id\":\"a\",\"caf\xe9\":1}",
		`{"\ud800" : 1}`:                                                  `{"\ud800":1}`,
		`{"_ts":1}`:                                                       `{}`,
	} {
		if got, err := withoutSystem([]byte(doc)); string(got) != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", doc, got, err, want)
		}
	}
}
