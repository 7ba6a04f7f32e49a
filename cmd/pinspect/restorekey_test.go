package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// TestRestoreKey brings a country back from a full backup and an incremental one, by commands
// alone; the other countries keep what they have.
func TestRestoreKey(t *testing.T) {
	s := newSample(t)
	dir := filepath.Join(t.TempDir(), "store")
	check(t, os.CopyFS(dir, os.DirFS(s.dir)))
	monday, tuesday := filepath.Join(t.TempDir(), "monday"), filepath.Join(t.TempDir(), "tuesday")
	clean(t, "backup", dir, "-o", monday)
	clean(t, "put", dir, "cities", `{"id":"new","country":"C1"}`)
	clean(t, "backup", dir, "--since", monday, "-o", tuesday)
	want, others := clean(t, "export", dir, "cities", `"C1"`), clean(t, "export", dir, "cities", `"C2"`)
	restoreKey := func(flags ...string) []string {
		return append([]string{"restore-key", dir, "cities", `"C1"`, monday, tuesday}, flags...)
	}
	if got := clean(t, restoreKey()...); !strings.Contains(got, "0 created, 0 replaced, 0 deleted") {
		t.Errorf("of what is there: %s", got)
	}
	clean(t, "delete", dir, "cities", `"C1"`, "--all")
	clean(t, "put", dir, "cities", `{"id":"new","country":"C1","spoilt":true}`)
	clean(t, "put", dir, "cities", `{"id":"newer","country":"C1"}`)
	spoilt := clean(t, "export", dir, "cities", `"C1"`)

	documents := strings.Count(want, "\n")
	before := listing(t, dir)
	dry := objects(t, clean(t, restoreKey("--dry-run", "--json")...))[0]
	if dry["created"] != float64(documents-1) || dry["replaced"] != 1.0 || dry["deleted"] != 1.0 || dry["dry_run"] != true || dry["atomic"] != true {
		t.Errorf("dry run of %d documents: %v", documents, dry)
	}
	if listing(t, dir) != before {
		t.Error("a dry run has changed the store")
	}
	cut := filepath.Join(t.TempDir(), "cut")
	stream, err := os.ReadFile(monday)
	check(t, err)
	check(t, os.WriteFile(cut, stream[:len(stream)-9], 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	check(t, os.WriteFile(empty, nil, 0o600))
	for _, test := range []struct {
		status int
		args   []string
		says   string
	}{
		{2, restoreKey(), "--replace"},
		{2, []string{"restore-key", dir, "cities", `"C1"`, tuesday, "--replace"}, "give the full backup first"},
		{2, []string{"restore-key", dir, "none", `"C1"`, monday}, "none"},
		{2, []string{"restore-key", dir, "cities", "C1", monday}, "quotes"},
		{2, []string{"restore-key", dir, "cities", `["C1","x"]`, monday}, "levels"},
		{exitFindings, []string{"restore-key", dir, "cities", `"nowhere"`, monday}, "no item"},
		{exitFindings, []string{"restore-key", dir, "cities", `"C1"`, cut, "--replace"}, "ends in the middle"},
		{exitFindings, []string{"restore-key", dir, "cities", `"C1"`, monday, empty, "--replace"}, "it is empty"},
		{exitCannotOpen, []string{"restore-key", dir, "cities", `"C1"`, monday + ".absent"}, "absent"},
	} {
		r := pinspect(t, test.args...)
		if r.status != test.status || !strings.Contains(r.stderr, test.says) || strings.Contains(r.stderr, "verify lists") {
			t.Errorf("%q: status %d, want %d; %q lacks %q", test.args, r.status, test.status, r.stderr, test.says)
		}
	}
	if got := clean(t, "export", dir, "cities", `"C1"`); got != spoilt {
		t.Fatal("what was refused has changed something")
	}
	did := objects(t, clean(t, restoreKey("--replace", "--json")...))[0]
	delete(dry, "dry_run")
	delete(did, "dry_run")
	if fmt.Sprint(did) != fmt.Sprint(dry) {
		t.Errorf("done %v, the dry run said %v", did, dry)
	}
	if got := clean(t, "export", dir, "cities", `"C1"`); got != want {
		t.Errorf("%d documents, want %d", strings.Count(got, "\n"), documents)
	}
	if got := clean(t, "export", dir, "cities", `"C2"`); got != others {
		t.Error("another logical partition was changed")
	}
	clean(t, "verify", dir)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "cleave-restore-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left beside the store: %v, %v", left, err)
	}
}

// TestKeyLimits: info and top show limits of logical partitions, and top compares each with
// its own.
func TestKeyLimits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db, err := engine.Open(t.Context(), dir, nil)
	check(t, err)
	c, err := db.CreateContainer(t.Context(), "notes", engine.ContainerDef{
		PartitionKey: []string{"/tenant"}, Limits: engine.ContainerLimits{LogicalPartitionThroughput: 400, LogicalPartitionBytes: 1 << 30, BatchBytes: 1 << 20},
	})
	check(t, err)
	for _, tenant := range []string{"acme", "brown"} {
		_, err = c.Upsert(t.Context(), fmt.Appendf(nil, `{"id":"1","tenant":%q,"text":%q}`, tenant, strings.Repeat("x", 1000)), nil)
		check(t, err)
	}
	check(t, c.SetKeyLimits(t.Context(), engine.StringKey("acme"), engine.KeyLimits{Throughput: 4000, Bytes: 2048}))
	check(t, db.Close())
	text := clean(t, "info", dir)
	for _, want := range []string{"400 RU/s for each logical partition", "1 logical partition with limits of its own; logical partitions of at most 1.00 GiB; batches of at most 1.00 MiB\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("info lacks %q:\n%s", want, text)
		}
	}
	info := objects(t, clean(t, "info", dir, "--json"))[0]["containers"].([]any)[0].(map[string]any)
	if info["logical_partition_throughput_ru_per_s"] != 400.0 || info["limited_keys"] != 1.0 {
		t.Errorf("%v", info)
	}
	text = clean(t, "top", dir, "--show-keys")
	for _, want := range []string{"at most 1.00 GiB and 400 RU/s each", "own limits", "2.00 KiB, 4,000 RU/s"} {
		if !strings.Contains(text, want) {
			t.Errorf("top lacks %q:\n%s", want, text)
		}
	}
	found := 0
	for _, row := range objects(t, clean(t, "top", dir, "--show-keys", "--json")) {
		bytes, units, own := float64(1<<30), 400.0, any(nil)
		if row["key"] == `"acme"` {
			bytes, units, own = 2048, 4000, true
			found++
		}
		if row["logical_partition_limit_bytes"] != bytes || row["logical_partition_throughput_ru_per_s"] != units || row["own_limits"] != own ||
			row["limit_share"] != row["raw_bytes"].(float64)/bytes {
			t.Errorf("%v", row)
		}
	}
	if found != 1 {
		t.Error("the limited key is not listed")
	}
}
