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

const want = `What grace of acme did from 9:30 on: one logical partition, in order
  09:30  read    report-3
  09:40  delete  report-4
  09:50  read    report-5
  10:00  read    report-6
  10:10  read    report-7
  10:20  read    report-8
  10:30  delete  report-9
  10:40  read    report-10
  10:50  read    report-11

What users of acme were refused: all keys that begin with acme
  09:41  linus   delete  report-4
  10:31  linus   delete  report-9
  (1 of 4 physical partitions asked)

What all tenants do: counted in the indexes, no document is read
  delete  10
  login   5
  read    45

How long events live
  login: 2160h0m0s from its last write on, as the container says
  grant: for ever, as its member "ttl" says; expires: false
  trace: 200ms, as the call says
  a moment later: grant login
`
