package main

import (
	"strings"
	"testing"
)

// TestRun runs the program to its end and compares what it prints.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), t.TempDir(), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

const want = `The page of a product: two lookups, both in one logical partition
  Kettle, 1.7 l, 39.90 €: 3 reviews, 3.7 stars on average (1 RU)
  5 stars  ada     Boils before I have found a cup.
  4 stars  blaise  The lid could open wider.
  (1 of 4 physical partitions asked)

Or all of it at once, by a scan: what shares a key lies together, in the order of the ids
  product        134 bytes
  review-ada     123 bytes
  review-blaise  122 bytes
  review-carl    105 bytes

Eight customers review the lamp at once
  8 reviews counted, 21 stars: no update was lost

What names no product asks every physical partition: kitchen, by price
  Toaster, two slots   29.99 €
  Kettle, 1.7 l        39.90 €
  Teapot, cast iron    54.50 €
  (4 of 4 physical partitions asked)
`
