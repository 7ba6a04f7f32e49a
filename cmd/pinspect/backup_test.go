package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/workload"
)

// TestBackupAndRestore makes a full backup and an incremental one, checks them,
// and restores them: what is exported from the copy is what is in the original.
func TestBackupAndRestore(t *testing.T) {
	s := newSample(t)
	dir := t.TempDir()
	full, next, copied := filepath.Join(dir, "full"), filepath.Join(dir, "next"), filepath.Join(dir, "copy")
	wants(t, clean(t, "backup", s.dir, "-o", full), "(full)", "segment files in it")
	wants(t, clean(t, "backup", s.dir, "--since", full, "-o", next), "incremental, after", " 0 of ")
	piped := pinspect(t, "backup", s.dir, "--json", "-o", "-")
	if told := objects(t, piped.stderr); piped.status != cli.ExitOK || len(told) != 1 || told[0]["type"] != "backup" || told[0]["bytes"] != float64(len(piped.stdout)) {
		t.Errorf("a backup of %d bytes on standard output: %s", len(piped.stdout), piped.stderr)
	}
	rows := objects(t, clean(t, "restore", copied, full, next, "--check", "--json"))
	if len(rows) != 2 || rows[0]["type"] != "backup" || rows[1]["parent"] != rows[0]["id"] || rows[1]["files_carried"] != 0.0 {
		t.Errorf("%v", rows)
	}
	wants(t, clean(t, "restore", copied, full, next), "restored into "+copied)
	for _, container := range []string{"cities", "blobs"} {
		if was, is := clean(t, "export", s.dir, container), clean(t, "export", copied, container); was != is {
			t.Errorf("%s: exported %d bytes, %d of the copy", container, len(was), len(is))
		}
	}
	clean(t, "verify", copied)
	fails(t, cli.ExitUsage, "has a file", "restore", copied, full)
	fails(t, cli.ExitUsage, "exists", "backup", s.dir, "-o", full)
	fails(t, cli.ExitUsage, "give the full backup first", "restore", filepath.Join(dir, "x"), next)
	whole, err := os.ReadFile(full)
	check(t, err)
	check(t, os.WriteFile(full, whole[:len(whole)-1], 0o600))
	fails(t, exitFindings, "ends in the middle", "restore", filepath.Join(dir, "x"), full, "--check")
	fails(t, exitFindings, "ends in the middle", "restore", filepath.Join(dir, "x"), full)
	fails(t, exitFindings, "ends in the middle", "backup", s.dir, "--since", full, "-o", filepath.Join(dir, "y"))
	check(t, errors.Join(os.WriteFile(full, whole, 0o600), os.WriteFile(next, nil, 0o600)))
	for _, files := range [][]string{{full, next}, {next, full}, {full, "-"}, {"-"}} {
		for _, flags := range [][]string{nil, {"--check"}} {
			args := slices.Concat([]string{"restore", filepath.Join(dir, "x")}, files, flags)
			var out, errs bytes.Buffer
			status := execute(t.Context(), args, &environment{stdin: strings.NewReader(""), stdout: &out, stderr: &errs})
			if status != exitFindings || !strings.Contains(errs.String(), "it is empty") || out.Len() > 0 {
				t.Errorf("%q: status %d\n%s%s", args, status, &out, &errs)
			}
		}
	}
	names, err := os.ReadDir(dir)
	check(t, err)
	if len(names) != 3 {
		t.Errorf("left behind: %v", names)
	}
}

func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
}

func fails(t *testing.T, status int, says string, args ...string) {
	t.Helper()
	r := pinspect(t, args...)
	if r.status != status || !strings.Contains(r.stderr, says) || strings.Contains(r.stderr, "command verify") {
		t.Errorf("pinspect %v: status %d, %s; want %d and %q", args, r.status, r.stderr, status, says)
	}
}

// TestExport: a file has what standard output has, and a filter chooses.
func TestExport(t *testing.T) {
	s := newSample(t)
	dir := t.TempDir()
	plain, packed := filepath.Join(dir, "a.ndjson"), filepath.Join(dir, "a.ndjson.zst")
	all := clean(t, "export", s.dir, "cities")
	wants(t, pinspect(t, "export", s.dir, "cities", "-o", plain).stderr, humanize.Count(len(s.cities))+" documents written to "+plain)
	text, err := os.ReadFile(plain)
	check(t, err)
	if string(text) != all {
		t.Errorf("%d bytes in the file, want %d", len(text), len(all))
	}
	clean(t, "export", s.dir, "cities", "-o", packed)
	lines, err := workload.OpenLines(packed, 0)
	check(t, err)
	defer lines.Close()
	again := filepath.Join(dir, "again")
	db, err := engine.Open(t.Context(), again, nil)
	check(t, err)
	cities, err := db.CreateContainer(t.Context(), "cities", engine.ContainerDef{PartitionKey: []string{"/country"}})
	check(t, err)
	_, err = cities.Load(t.Context(), lines.All(), nil)
	check(t, err)
	check(t, db.Close())
	if clean(t, "export", again, "cities") != all {
		t.Error("what was exported and loaded is not the same")
	}
	id, country, _ := s.city(7)
	one := clean(t, "export", s.dir, "cities", "--where", `c.id = "`+id+`"`)
	found := slices.Collect(strings.Lines(one))
	if len(found) != 1 || !strings.Contains(found[0], country) {
		t.Errorf("%q", found)
	}
	for _, tc := range []struct {
		filter, limit string
		want          int
	}{{"true OFFSET 0 LIMIT 3", "0", 3}, {"true OFFSET 0 LIMIT 3", "5", 3}, {"true OFFSET 0 LIMIT 3", "2", 2}, {"true OFFSET 0 LIMIT 0", "0", 0}, {"true OFFSET 0 LIMIT 0", "2", 0}, {"true", "2", 2}} {
		if got := clean(t, "export", s.dir, "cities", "--where", tc.filter, "--limit", tc.limit); strings.Count(got, "\n") != tc.want {
			t.Errorf("%+v:\n%s", tc, got)
		}
	}
	fails(t, cli.ExitUsage, "SELECT * FROM c WHERE c.id = )\npinspect:   "+strings.Repeat(" ", 29)+"^", "export", s.dir, "cities", "--where", "c.id = )")
	fails(t, cli.ExitUsage, "--reverse", "export", s.dir, "cities", "--where", "true", "--reverse")
	fails(t, cli.ExitUsage, "exists", "export", s.dir, "cities", "-o", plain)
}

// TestBackupExists: a file that exists is refused before a backup is read or a store is repaired.
func TestBackupExists(t *testing.T) {
	dir := t.TempDir()
	file, none := filepath.Join(dir, "there"), filepath.Join(dir, "none")
	check(t, os.WriteFile(file, []byte("theirs"), 0o600))
	for _, flags := range [][]string{{"--since", none}, {"--readable"}} {
		fails(t, cli.ExitUsage, file+" exists", append([]string{"backup", none, "-o", file}, flags...)...)
	}
}

// TestReadableToNobody: the repaired copy of a store is removed also if nobody reads the backup to its end.
func TestReadableToNobody(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a pipe without a reader sends no signal")
	}
	dir, temporary := filepath.Join(t.TempDir(), "store"), t.TempDir()
	clean(t, "create", dir, "c", "--partition-key", "/k")
	var text strings.Builder
	for range 20_000 { // more than what is kept before the first write
		text.WriteString(rand.Text())
	}
	clean(t, "put", dir, "c", `{"id":"1","k":1,"text":"`+text.String()+`"}`)
	self, err := os.Executable()
	check(t, err)
	r, w, err := os.Pipe()
	check(t, errors.Join(err, r.Close()))
	defer w.Close()
	cmd := exec.CommandContext(t.Context(), self, "backup", dir, "--readable", "-o", "-")
	cmd.Env, cmd.Stdout = append(os.Environ(), programEnv+"=yes", "TMPDIR="+temporary), w
	err = cmd.Run()
	if left := names(t, temporary); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exitCannotOpen || len(left) != 0 {
		t.Errorf("%v, left %v", err, left)
	}
}
