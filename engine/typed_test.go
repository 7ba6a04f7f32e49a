package engine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
)

type account struct {
	ID      string `json:"id"`
	Owner   string `json:"k"`
	Balance int    `json:"balance"`
}

func TestTyped(t *testing.T) {
	ctx := context.Background()
	_, c := openStore(t, testOptions(vfs.NewMem()))
	accounts := Typed[account](c, nil)
	for i, id := range []string{"x", "y"} {
		_, err := accounts.Create(ctx, account{id, "a", i}, nil)
		must(t, err)
	}
	if _, err := accounts.Create(ctx, account{"x", "a", 0}, nil); !errors.Is(err, ErrExists) {
		t.Errorf("Create: %v", err)
	}
	meta, err := accounts.Replace(ctx, account{"x", "a", 7}, nil)
	must(t, err)
	it, err := accounts.Read(ctx, StringKey("a"), "x")
	must(t, err)
	if it.Value != (account{"x", "a", 7}) || it.ETag != meta.ETag || it.ID != "x" {
		t.Errorf("%+v", it)
	}
	if _, err := accounts.Read(ctx, StringKey("a"), "no"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Read: %v", err)
	}
	sum := 0
	for it, err := range accounts.Scan(ctx, StringKey("a"), IDRange{}, &ScanOptions{Borrow: true}) {
		must(t, err)
		sum += it.Value.Balance
	}
	for it, err := range accounts.ScanAll(ctx, nil) {
		must(t, err)
		sum += it.Value.Balance
		break
	}
	if sum != 7+1+7 {
		t.Errorf("sum %d", sum)
	}
	_, err = accounts.Container().Upsert(ctx, []byte(`{"id":"z","k":"a","balance":"much"}`), nil)
	must(t, err)
	var te *json.UnmarshalTypeError
	if _, err := accounts.Read(ctx, StringKey("a"), "z"); !errors.As(err, &te) {
		t.Errorf("another document: %v", err)
	}
	n := 0
	for _, err := range accounts.Scan(ctx, StringKey("a"), IDRange{}, nil) {
		if n++; (err != nil) != (n == 3) {
			t.Errorf("item %d: %v", n, err)
		}
	}
	q := Query{Where: Eq("/balance", 7), OrderBy: []QueryOrder{{Path: "/id"}}}
	r := accounts.Query(ctx, OnePartition(StringKey("a")), q)
	var found []account
	for it, err := range r.All() {
		must(t, err)
		found = append(found, it.Value)
		if it.ETag == 0 || it.ID != it.Value.ID {
			t.Errorf("%+v", it)
		}
	}
	if len(found) != 1 || found[0] != (account{"x", "a", 7}) || r.Stats().Results != 1 || r.Continue() != "" {
		t.Errorf("%+v, %+v", found, r.Stats())
	}
	// The third one does not fit; the fourth comes behind it.
	_, err = accounts.Create(ctx, account{"zz", "a", 9}, nil)
	must(t, err)
	r = accounts.Query(ctx, OnePartition(StringKey("a")), Query{OrderBy: []QueryOrder{{Path: "/id"}}})
	n = 0
	for it, err := range r.All() {
		if n++; (err != nil) != (n == 3) {
			t.Errorf("result %d: %+v, %v", n, it, err)
		}
		if err != nil && (!errors.As(err, &te) || !strings.Contains(err.Error(), `item z of "a"`)) {
			t.Errorf("error %v", err)
		}
	}
	if n != 3 {
		t.Errorf("%d results", n)
	}
	n = 0
	for it, err := range accounts.Query(ctx, OnePartition(StringKey("a")), Query{OrderBy: []QueryOrder{{Path: "/id"}}, Continue: r.Continue()}).All() {
		if n++; err != nil || it.ID != "zz" {
			t.Errorf("behind the error: %+v, %v", it, err)
		}
	}
	if n != 1 {
		t.Errorf("%d results behind the error", n)
	}
	for _, err := range Typed[int](c, nil).Query(ctx, AllPartitions(), Query{Fields: []QueryField{{Aggregate: AggregateCount}}}).All() {
		if !errors.As(err, &te) || !strings.Contains(err.Error(), "result of a group") {
			t.Errorf("error %v", err)
		}
	}
	if _, err := Typed[func()](c, nil).Upsert(ctx, func() {}, nil); err == nil {
		t.Error("a function was written")
	}
}
