package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
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

// TestOrder: events come in the order of their times, whatever digits and zone these have,
// and two of one moment are two events.
func TestOrder(t *testing.T) {
	db, err := engine.Open(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l, err := openLog(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	nine := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	west := time.FixedZone("west", -5*60*60)
	for _, e := range []event{
		{At: nine.Add(time.Second).In(west), Target: "5"},
		{At: nine.Add(500 * time.Millisecond), Target: "3"},
		{At: nine.Add(500 * time.Millisecond), Target: "4"},
		{At: nine, Target: "1"},
		{At: nine.Add(time.Microsecond), Target: "2"},
	} {
		e.Tenant, e.User, e.Action, e.Denied = "acme", "grace", "delete", true
		if _, err := l.append(t.Context(), e, nil); err != nil {
			t.Fatal(err)
		}
	}
	var scanned, asked []string
	if err = l.ofUser(t.Context(), "acme", "grace", nine, func(e event) { scanned = append(scanned, e.Target) }); err != nil {
		t.Fatal(err)
	}
	if _, err = l.denied(t.Context(), "acme", func(e event) { asked = append(asked, e.Target) }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1", "2", "3", "4", "5"}; !slices.Equal(scanned, want) || !slices.Equal(asked, want) {
		t.Errorf("scanned %v, asked %v", scanned, asked)
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
