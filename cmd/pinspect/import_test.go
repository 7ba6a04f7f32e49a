package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// TestImport imports each kind of file that is read without the companion program.
func TestImport(t *testing.T) {
	const system = `"_rid":"r","_self":"s","_etag":"e","_ts":1`
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte(`[{"id":"a","k":1,` + system + "}]")); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	packer, err := zstd.NewWriter(nil)
	check(t, err)
	packed := packer.EncodeAll([]byte(`[{"id":"a","k":1}]`), nil)
	const a, b = `{"id":"a","k":1}` + "\n", `{"id":"b","k":2,"<":[1.0]}` + "\n"
	for name, test := range map[string]struct{ from, in, want string }{
		"lines":         {"ndjson", a + "\n" + b, a + b},
		"system kept":   {"ndjson", `{"id":"a","k":1,"_ts":1}`, `{"id":"a","k":1,"_ts":1}` + "\n"},
		"array":         {"cosmos-export", `[{"id":"a",` + system + `,"k":1}, {` + system + `,"id":"b","k":2,"<":[1.0]}]`, a + b},
		"empty array":   {"cosmos-export", " [ ] ", ""},
		"nothing":       {"cosmos-export", "", ""},
		"two arrays":    {"cosmos-export", `[{"id":"a","k":1}] [{"id":"b","k":2,"<":[1.0]}]`, a + b},
		"export lines":  {"cosmos-export", " " + a + " \n\n " + b, a + b},
		"REST answers":  {"cosmos-export", `{"_rid":"x","Documents":[{"id":"a","k":1}],"_count":1}` + `{"Documents":[{"id":"b","k":2,"<":[1.0]}]}`, a + b},
		"own Documents": {"cosmos-export", `{"id":"a","k":1,"Documents":[{"id":"x","k":1}]}`, `{"id":"a","k":1,"Documents":[{"id":"x","k":1}]}` + "\n"},
		"marked array":  {"cosmos-export", "\ufeff" + `[{"id":"a","k":1}]`, a},
		"gzipped array": {"cosmos-export", zipped.String(), a},
		"pzstd array":   {"cosmos-export", "\x50\x2a\x4d\x18\x04\x00\x00\x00size" + string(packed), a},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		for range 2 { // again, with the same outcome
			status, out, stderr := runInput(t, test.in, "import", "-", "--from", test.from, "--db", dir, "--container", "c", "--partition-key", "/k")
			if status != 0 {
				t.Fatalf("%s: status %d: %s%s", name, status, out, stderr)
			}
			got := strings.SplitAfter(clean(t, "export", dir, "c"), "\n")
			if len(got) != strings.Count(test.want, "\n")+1 {
				t.Errorf("%s: %q, want %q", name, got, test.want)
			}
			for _, line := range got {
				if !strings.Contains(test.want, line) {
					t.Errorf("%s: %q is not in %q", name, line, test.want)
				}
			}
		}
	}
}

// TestImportRejects: what is refused is told with its place, the rest is written; a dry
// run writes nothing; a source that ends in its middle is no success.
func TestImportRejects(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	rejects := filepath.Join(t.TempDir(), "rejects")
	in := `{"id":"a","k":1}` + "\nnonsense\n" + `{"id":7}` + "\n" + `{"id":"b","k":1}` + "\n"
	args := []string{"import", "-", "--db", dir, "--container", "c", "--partition-key", "/k", "--json"}
	status, out, stderr := runInput(t, in, append(args, "--dry-run")...)
	if _, err := os.Stat(dir); status != exitFindings || !os.IsNotExist(err) || !strings.Contains(stderr, "line 2") {
		t.Errorf("dry run: status %d, %v, %s", status, err, stderr)
	}
	if o := objects(t, out); len(o) != 1 || o[0]["read"] != 4.0 || o[0]["written"] != 2.0 || o[0]["rejected"] != 2.0 || o[0]["keys"] != 1.0 || o[0]["dry_run"] != true {
		t.Errorf("dry run: %s", out)
	}
	if status, _, stderr = runInput(t, in, append(args, "--rejects", rejects)...); status != exitFindings {
		t.Errorf("status %d: %s", status, stderr)
	}
	text, err := os.ReadFile(rejects)
	for i, want := range []string{`{"at":"standard input: line 2","reason":"`, `{"at":"standard input: line 3","reason":"`} {
		if o := strings.Split(string(text), "\n"); err != nil || len(o) != 3 || !strings.HasPrefix(o[i], want) {
			t.Errorf("%v: %s", err, text)
		}
	}
	status, out, _ = runInput(t, `{"id":"a","k":1,"new":true}`+"\n"+`{"id":"c","k":1}`+"\n", append(args, "--skip-existing")...)
	if o := objects(t, out); status != 0 || o[0]["written"] != 1.0 || o[0]["skipped"] != 1.0 {
		t.Errorf("--skip-existing: status %d: %s", status, out)
	}
	if got := clean(t, "get", dir, "c", "1", "a"); strings.Contains(got, "new") {
		t.Errorf("--skip-existing has replaced: %s", got)
	}
	rejects = filepath.Join(t.TempDir(), "rejects")
	status, _, stderr = runInput(t, `[{"id":"d","k":1},[7]]`, append(args, "--from", "cosmos-export", "--rejects", rejects)...)
	if text, err = os.ReadFile(rejects); err != nil || status != exitFindings || !strings.Contains(string(text), `"document":"[7]"`) {
		t.Errorf("status %d: %s%v: %s", status, stderr, err, text)
	}
	for _, cut := range []string{`[{"id":"d","k":1}`, `[{"id":"d","k":1},`, `[{"id":`, `[1 2]`, `{`} {
		status, _, stderr := runInput(t, cut, append(args, "--from", "cosmos-export")...)
		if status == 0 {
			t.Errorf("%s: status 0, %s", cut, stderr)
		}
	}
}

// TestImportNames: names of members stay as they are, and those that are no text are refused, also where
// members of the system are left out.
func TestImportNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	args := []string{"import", "-", "--from", "cosmos-export", "--db", dir, "--container", "c", "--partition-key", "/k"}
	const kept = `{"id":"a","k":1,"\u0061\/":1}`
	if status, _, stderr := runInput(t, `[{"id":"a", "_ts":1 , "k":1,"\u0061\/":1}]`, args...); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if got := clean(t, "get", dir, "c", "1", "a"); got != kept+"\n" {
		t.Errorf("%s, want %s", got, kept)
	}
	status, _, stderr := runInput(t, `[{"id":"b","k":1,"na`+"\xff"+`me":1}]`, args...)
	if status != exitFindings || !strings.Contains(stderr, "document 1") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// TestImportDryRunThere: a dry run tells of a container that is there what an import then
// does, and changes nothing.
func TestImportDryRunThere(t *testing.T) {
	const in = `{"id":"1","k":"a","m":"x"}` + "\n" + `{"id":"2","k":"a","m":"x"}` + "\n" + `{"id":"3","k":"a","m":"y"}` + "\n" +
		`{"id":"4","k":"a","m":"y"}` + "\n" + `{"id":"5","k":"b","m":"x"}` + "\n" + `{"id":"5","k":"b","m":"x"}` + "\n" + `{"id":"6","k":"b","m":"` + "long value" + `"}` + "\n"
	for _, tc := range []struct {
		create                             []string
		skip                               bool
		written, skipped, rejected, judged float64
	}{
		{[]string{"--partition-key", "/k", "--unique-key", "/m"}, true, 3, 2, 2, 3},
		{[]string{"--partition-key", "/k", "--unique-key", "/m"}, false, 5, 0, 2, 4},
		{[]string{"--partition-key", "/k"}, true, 5, 2, 0, 5},
		{[]string{"--partition-key", "/absent"}, false, 7, 0, 0, 6},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		clean(t, append([]string{"create", dir, "c"}, tc.create...)...)
		clean(t, "put", dir, "c", `{"id":"1","k":"a","m":"x"}`)
		clean(t, "put", dir, "c", `{"id":"9","k":"c","m":"x"}`)
		before := clean(t, "export", dir, "c")
		args := []string{"import", "-", "--db", dir, "--container", "c", "--skip-bad", "--json"}
		if tc.skip {
			args = append(args, "--skip-existing")
		}
		_, dry, stderr := runInput(t, in, append(args, "--dry-run")...)
		if got := clean(t, "export", dir, "c"); got != before {
			t.Errorf("a dry run has changed the store: %s", got)
		}
		_, done, _ := runInput(t, in, args...)
		if !strings.HasPrefix(dry, "{") || !strings.HasPrefix(done, "{") {
			t.Fatalf("%v: %s%s%s", tc.create, dry, stderr, done)
		}
		would, did := objects(t, dry)[0], objects(t, done)[0]
		for name, want := range map[string]float64{"read": 7, "written": tc.written, "skipped": tc.skipped, "rejected": tc.rejected} {
			if would[name] != want || did[name] != want {
				t.Errorf("%v: %s is %v, and a dry run says %v; want %v", tc.create, name, did[name], would[name], want)
			}
		}
		if would["keys"] != did["keys"] || would["most_of_key"] != did["most_of_key"] {
			t.Errorf("%v: keys: %v of %v, and a dry run says %v of %v", tc.create, did["most_of_key"], did["keys"], would["most_of_key"], would["keys"])
		}
		advice := would["advice"].(map[string]any)
		if n := advice["documents"]; n != tc.judged || !strings.Contains(fmt.Sprint(advice["candidates"]), "key:"+tc.create[1]+" ") {
			t.Errorf("%v: judged by %v documents, want %v: %.300v", tc.create, n, tc.judged, advice)
		}
	}
}

// TestImportRandomSuffix: a container whose keys have random suffixes takes no import. Run again, it would write its
// documents once more.
func TestImportRandomSuffix(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db, err := engine.Open(t.Context(), dir, nil)
	check(t, err)
	_, err = db.CreateContainer(t.Context(), "c", engine.ContainerDef{Synthetic: &engine.SyntheticKey{Join: []string{"/day"}, Suffixes: 64}})
	check(t, errors.Join(err, db.Close()))
	for _, flag := range []string{"--skip-existing", "--skip-bad", "--dry-run"} {
		status, out, stderr := runInput(t, `{"id":"a","day":"1"}`, "import", "-", "--db", dir, "--container", "c", flag)
		if status != cli.ExitUsage || !strings.Contains(stderr, "random suffix") {
			t.Errorf("%s: status %d: %s%s", flag, status, out, stderr)
		}
	}
	if got := clean(t, "export", dir, "c"); got != "" {
		t.Errorf("written: %s", got)
	}
}

// TestImportUsage: what is missing is said, and how to get it.
func TestImportUsage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := filepath.Join(t.TempDir(), "store")
	for _, test := range []struct {
		says string
		args []string
	}{
		{"go install github.com/cleavestore/cleave/migrate/cleave-migrate@latest", []string{"x.db", "--from", "bbolt", "--partition-key", "/k"}},
		{"--partition-key", []string{"-"}},
		{"--with is for", []string{"-", "--with", "bucket=x"}},
		{"is a directory", []string{t.TempDir(), "--partition-key", "/k"}},
		{"each step must begin with a slash", []string{"-", "--partition-key", "k"}},
		{"control characters", []string{"-", "--partition-key", "/k", "--container", "a/b"}},
	} {
		args := append([]string{"import", "--db", dir, "--container", "c"}, test.args...)
		if status, _, stderr := runInput(t, "", args...); status != 2 || !strings.Contains(stderr, test.says) {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a store was made")
	}
}

// TestImportCompanion runs a companion program: its lines are written, its errors are told.
func TestImportCompanion(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the companion of this test is a shell script")
	}
	bin := t.TempDir()
	script := "#!/bin/sh\n[ \"$*\" = \"--from bbolt --bucket=b -- " + bin + "\" ] || { echo \"$*\" >&2; exit 3; }\n" +
		`echo '{"at":"key a","doc":{"id":"a","k":1}}'; echo '{"at":"key b","error":"no object"}'` + "\n"
	if err := os.WriteFile(filepath.Join(bin, "cleave-migrate"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	dir := filepath.Join(t.TempDir(), "store")
	args := []string{"import", bin, "--from", "bbolt", "--db", dir, "--container", "c", "--partition-key", "/k"}
	status, out, stderr := runInput(t, "", append(args, "--with", "bucket=b", "--skip-bad")...)
	if status != exitFindings || !strings.Contains(stderr, bin+": key b: no object") || !strings.Contains(out, "2 documents read, 1 written") {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
	if status, _, stderr = runInput(t, "", append(args, "--with", "bucket=wrong")...); status != exitCannotOpen || !strings.Contains(stderr, "bucket=wrong") {
		t.Errorf("a companion that fails: status %d, %s", status, stderr)
	}
}

// TestImportEnded: a companion program whose import ends early clears up before it ends, also
// while it waits to print.
func TestImportEnded(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the companion of this test is a shell script")
	}
	bin, work := t.TempDir(), t.TempDir()
	left := filepath.Join(work, "left")
	script := "#!/bin/sh\ntrap 'rm \"" + left + "\"; exit' INT PIPE\n: >\"" + left + "\"\nwhile :; do echo '{\"at\":\"key a\",\"error\":\"bad\"}'; done 2>/dev/null\n"
	check(t, os.WriteFile(filepath.Join(bin, "cleave-migrate"), []byte(script), 0o700))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	status, out, stderr := runInput(t, "", "import", work, "--from", "bbolt", "--db", filepath.Join(work, "store"), "--container", "c", "--partition-key", "/k")
	if status != exitFindings || !strings.Contains(stderr, "key a: bad") {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the companion has left its file: %v", err)
	}
}
