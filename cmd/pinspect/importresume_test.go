package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
)

// companionScript stands for cleave-migrate: it prints so many documents as its source has
// lines, and kills its parent behind the document KILL_AT.
const companionScript = `#!/bin/sh
for source; do :; done
n=$(wc -l <"$source")
i=0
while [ $i -lt $n ]; do
	i=$((i+1))
	echo '{"at":"key '$i'","doc":{"id":"'$i'","k":'$((i%7))'}}'
	if [ "$i" = "$KILL_AT" ]; then kill -9 $PPID; exit; fi
done
`

// TestImportKilled kills an import in its middle. The next run goes on behind the last
// note, and the container then has each document of the source once.
func TestImportKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the companion of this test is a shell script")
	}
	const documents, kill = 20_000, 19_000 // more are under way in pipes than lie behind the last note
	bin, work := t.TempDir(), t.TempDir()
	check(t, os.WriteFile(filepath.Join(bin, "cleave-migrate"), []byte(companionScript), 0o700))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	source, dir := filepath.Join(work, "source"), filepath.Join(work, "store")
	check(t, os.WriteFile(source, bytes.Repeat([]byte("\n"), documents), 0o600))
	args := []string{"import", source, "--from", "bbolt", "--db", dir, "--container", "c", "--partition-key", "/k"}

	self, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), programEnv+"=yes", "KILL_AT="+strconv.Itoa(kill))
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the command was not killed: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "import.json"))
	check(t, err)
	var at struct {
		Read int64 `json:"read"`
		At   string
	}
	check(t, json.Unmarshal(text, &at))
	if at.Read < 8192 || at.Read > kill || at.At != fmt.Sprintf("%s: key %d", source, at.Read) {
		t.Fatalf("the note: %s", text)
	}

	status, out, stderr := runInput(t, "", append(args, "--json")...)
	o := objects(t, out)
	if status != 0 || !strings.Contains(stderr, "goes on behind record ") || !strings.Contains(stderr, at.At) {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if o[0]["read"] != float64(documents) || o[0]["written"] != float64(documents) || o[0]["resumed_after"] != float64(at.Read) {
		t.Errorf("%s", out)
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(clean(t, "export", dir, "c")) {
		if seen[line] {
			t.Errorf("twice: %s", line)
		}
		seen[line] = true
	}
	for i := 1; i <= documents; i++ {
		if !seen[fmt.Sprintf(`{"id":"%d","k":%d}`+"\n", i, i%7)] {
			t.Fatalf("document %d is missing", i)
		}
	}
	if len(seen) != documents {
		t.Errorf("%d documents", len(seen))
	}
	if _, err := os.Stat(filepath.Join(dir, "import.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the note after the end: %v", err)
	}
}

// TestImportInterrupted: an import that is interrupted while it waits for its source says
// so by its status, and goes on behind the newest document.
func TestImportInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the companion of this test is a shell script")
	}
	bin, work := t.TempDir(), t.TempDir()
	// Document 200 has no id. Once it is among the rejects the import has taken all that came
	// before, and the script interrupts it.
	script := strings.NewReplacer(
		"i=$((i+1))\n", "i=$((i+1)); name=id; [ $i != 200 ] || name=none\n",
		`{"id":`, `{"'$name'":`,
		"kill -9 $PPID; exit", `until [ -s "$REJECTS" ]; do :; done; kill -INT $PPID; exec tail -f /dev/null`,
	).Replace(companionScript)
	check(t, os.WriteFile(filepath.Join(bin, "cleave-migrate"), []byte(script), 0o700))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	source, dir := filepath.Join(work, "source"), filepath.Join(work, "store")
	check(t, os.WriteFile(source, bytes.Repeat([]byte("\n"), 300), 0o600))
	rejects := filepath.Join(work, "rejects")
	args := []string{"import", source, "--from", "bbolt", "--db", dir, "--container", "c", "--partition-key", "/k", "--rejects", rejects}
	self, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), programEnv+"=yes", "KILL_AT=200", "REJECTS="+rejects)
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != cli.ExitInterrupted || !strings.Contains(string(out), "interrupted") {
		t.Fatalf("%v\n%s", err, out)
	}
	status, out, stderr := runInput(t, "", args...)
	if status != exitFindings || !strings.Contains(stderr, "goes on behind record 200 ") || !strings.Contains(out, "300 documents read, 299 written") ||
		!strings.Contains(stderr, "1 document was refused, in a run before this one") {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
}

// TestImportBadRecord: a record that cannot be written ends the import with its place, the
// reason and what to do. The same command goes on there, unless what it relies on has
// changed: then it begins with the first record and says why.
func TestImportBadRecord(t *testing.T) {
	work := t.TempDir()
	source, dir := filepath.Join(work, "in.ndjson"), filepath.Join(work, "store")
	const good = `{"id":"a","k":1}` + "\n" + `{"id":"b"}` + "\n"
	check(t, os.WriteFile(source, []byte(good+"nonsense\n"+`{"id":"c","k":1}`+"\n"), 0o600))
	args := []string{"import", source, "--db", dir, "--container", "c", "--partition-key", "/k"}
	stop := func() {
		t.Helper()
		status, _, stderr := runInput(t, "", args...)
		if status != exitFindings || !strings.Contains(stderr, source+": line 3: ") || !strings.Contains(stderr, "offset 1") || !strings.Contains(stderr, "--skip-bad") {
			t.Fatalf("status %d: %s", status, stderr)
		}
	}
	begins := func(why string, more ...string) {
		t.Helper()
		status, out, stderr := runInput(t, "", append(args, append(more, "--skip-bad")...)...)
		if status != exitFindings || !strings.Contains(stderr, why) || !strings.Contains(stderr, "begins with the first record") || !strings.Contains(out, "read, 3 written") {
			t.Errorf("want %q: status %d: %s%s", why, status, out, stderr)
		}
	}
	stop()
	if status, out, stderr := runInput(t, "", append(args, "--skip-bad")...); status != exitFindings || !strings.Contains(stderr, "goes on behind record 2 ") ||
		!strings.Contains(out, "4 documents read, 3 written, 0 skipped, 1 refused") || !strings.Contains(out, "1 document has no value at /k") {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}

	stop()
	begins("--restart is given", "--restart")
	stop()
	clean(t, "delete", dir, "c", "undefined", "b")
	begins("the last document that it has written is gone")
	stop()
	check(t, os.WriteFile(source, []byte(good+"nonsense, and longer\n"+`{"id":"c","k":1}`+"\n"), 0o600))
	begins("the source has changed")
	stop()
	begins("an import of other documents", "--keep-system")
	stop()
	clean(t, "drop", dir, "c", "--yes")
	begins("the last document that it has written is gone")
	stop()
	check(t, os.WriteFile(filepath.Join(dir, "import.json"), []byte(`{"v":1,`), 0o600)) // no note that this program reads
	if status, out, stderr := runInput(t, "", append(args, "--skip-bad")...); status != exitFindings || !strings.Contains(out, "read, 3 written") {
		t.Errorf("a damaged note: status %d: %s%s", status, out, stderr)
	}
}

// TestImportSourceRenamed: an import goes on where the command names the same source by another path.
func TestImportSourceRenamed(t *testing.T) {
	work := t.TempDir()
	t.Chdir(work)
	check(t, os.WriteFile("in.ndjson", []byte(`{"id":"a","k":1}`+"\nnonsense\n"+`{"id":"b","k":1}`+"\n"), 0o600))
	for _, source := range []string{"in.ndjson", "." + string(filepath.Separator) + "in.ndjson", filepath.Join(work, "in.ndjson"), "in.ndjson"} {
		status, _, stderr := runInput(t, "", "import", source, "--db", "store", "--container", "c", "--partition-key", "/k")
		if status != exitFindings || !strings.Contains(stderr, source+": line 2: ") {
			t.Errorf("%s: status %d: %s", source, status, stderr)
		}
	}
	status, out, stderr := runInput(t, "", "import", "in.ndjson", "--db", "store", "--container", "c", "--partition-key", "/k", "--skip-bad")
	if status != exitFindings || !strings.Contains(stderr, "goes on behind record 1 (in.ndjson: line 1)") || !strings.Contains(out, "3 documents read, 2 written") {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
}

// TestImportRejectsResumed: the file of rejects has each once, also when an import goes on
// behind a note that lies before the newest of them, and when it was interrupted before the
// first note.
func TestImportRejectsResumed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the companion of this test is a shell script")
	}
	bin := t.TempDir()
	script := strings.Replace(companionScript, "echo '", `[ $((i%100)) = 5 ] && echo '{"at":"key '$i'","error":"bad"}' || echo '`, 1)
	check(t, os.WriteFile(filepath.Join(bin, "cleave-migrate"), []byte(script), 0o700))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	kills := []string{"19000", "50"}
	if testing.Short() {
		kills = kills[:1]
	}
	for _, kill := range kills {
		work := t.TempDir()
		source, dir, rejects := filepath.Join(work, "source"), filepath.Join(work, "store"), filepath.Join(work, "rejects")
		check(t, os.WriteFile(source, bytes.Repeat([]byte("\n"), 20_000), 0o600))
		args := []string{"import", source, "--from", "bbolt", "--db", dir, "--container", "c", "--partition-key", "/k", "--rejects", rejects}
		self, err := os.Executable()
		check(t, err)
		cmd := exec.CommandContext(t.Context(), self, args...)
		cmd.Env = append(os.Environ(), programEnv+"=yes", "KILL_AT="+kill)
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("the command was not killed: %v\n%s", err, out)
		}
		if kill == "19000" {
			check(t, os.Rename(rejects, rejects+".seen"))
			if status, _, stderr := runInput(t, "", args...); status != 2 || !strings.Contains(stderr, "--restart") {
				t.Errorf("without the rejects: status %d: %s", status, stderr)
			}
			check(t, os.Rename(rejects+".seen", rejects))
		}
		status, out, stderr := runInput(t, "", args...)
		if status != exitFindings || strings.Contains(stderr, "goes on behind") != (kill == "19000") || !strings.Contains(out, "20,000 documents read, 19,800 written") || !strings.Contains(out, "0 skipped, 200 refused") {
			t.Fatalf("killed at %s: status %d: %s%s", kill, status, out, stderr)
		}
		text, err := os.ReadFile(rejects)
		check(t, err)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		for i, line := range lines {
			if want := fmt.Sprintf(`{"at":"%s: key %d","reason":"bad"}`, source, 100*i+5); line != want {
				t.Fatalf("killed at %s: line %d: %s, want %s", kill, i+1, line, want)
			}
		}
		if len(lines) != 200 {
			t.Errorf("killed at %s: %d rejects", kill, len(lines))
		}
		if status, _, stderr := runInput(t, "", args...); status != 2 || !strings.Contains(stderr, "name another file") {
			t.Errorf("a second import with the same --rejects: status %d: %s", status, stderr)
		}
	}
}

// TestImportRejectsAnew: an import that must begin with the first record does so with its own
// file of rejects. Where it cannot begin, the place of the interrupted one is kept.
func TestImportRejectsAnew(t *testing.T) {
	work := t.TempDir()
	source, dir, rejects := filepath.Join(work, "in.json"), filepath.Join(work, "store"), filepath.Join(work, "rejects")
	const docs = `{"id":"a","k":1}` + "\n" + `{"id":7}` + "\n" + `{"id":"b","k":1}` + "\n"
	args := []string{"import", source, "--from", "cosmos-export", "--db", dir, "--container", "c", "--partition-key", "/k", "--rejects", rejects}
	cut := func(in string) {
		t.Helper()
		check(t, os.WriteFile(source, []byte(in), 0o600))
		if status, _, stderr := runInput(t, "", args...); status != exitCannotOpen || !strings.Contains(stderr, "EOF") {
			t.Fatalf("status %d: %s", status, stderr)
		}
	}
	finish := func(why string, more ...string) {
		t.Helper()
		status, out, stderr := runInput(t, "", append(args, more...)...)
		if status != exitFindings || !strings.Contains(stderr, "begins with the first record: "+why) || !strings.Contains(out, "3 documents read, 2 written") {
			t.Errorf("%s: status %d: %s%s", why, status, out, stderr)
		}
		if text, err := os.ReadFile(rejects); err != nil || strings.Count(string(text), "\n") != 1 {
			t.Errorf("%s: %v: %s", why, err, text)
		}
		check(t, os.Remove(rejects))
	}
	cut(docs + `{"id":7}{`)
	check(t, os.WriteFile(source, []byte(docs), 0o600))
	finish("the source has changed")
	cut(docs + `{"id":7}{`)
	check(t, os.WriteFile(source, []byte(docs), 0o600))
	finish("--restart is given", "--restart")
	cut(docs + `{`)
	check(t, os.Remove(rejects))
	check(t, os.WriteFile(source, []byte(docs), 0o600))
	finish("--restart is given", "--restart")

	cut(docs + `{"id":7}{`)
	note, err := os.ReadFile(filepath.Join(dir, "import.json"))
	check(t, err)
	for _, more := range [][]string{{"--keep-system"}, {"--restart", "--rejects", source}} {
		if status, _, stderr := runInput(t, "", append(args, more...)...); status != 2 || !strings.Contains(stderr, "name another file") {
			t.Errorf("%q: status %d: %s", more, status, stderr)
		}
	}
	if after, err := os.ReadFile(filepath.Join(dir, "import.json")); err != nil || !bytes.Equal(after, note) {
		t.Errorf("the note after imports that could not begin: %v: %s, was %s", err, after, note)
	}
}

// TestImportOpaque: bytes of a store of keys and values get into an opaque container as
// they are.
func TestImportOpaque(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the companion of this test is a shell script")
	}
	bin := t.TempDir()
	script := "#!/bin/sh\n[ \"$*\" = \"--from badger --key=owner --value=bytes -- " + bin + "\" ] || { echo \"$*\" >&2; exit 3; }\n" +
		`echo '{"at":"key \"ann/1\"","key":"ann","id":"1","bytes":"/wBh"}'; echo '{"at":"key \"ann/2\"","key":"ann","id":"2"}'` + "\n"
	check(t, os.WriteFile(filepath.Join(bin, "cleave-migrate"), []byte(script), 0o700))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	dir := filepath.Join(t.TempDir(), "store")
	args := []string{"import", bin, "--from", "badger", "--db", dir, "--container", "c", "--opaque"}
	for _, more := range [][]string{nil, {"--skip-existing"}} {
		status, out, stderr := runInput(t, "", append(append(args, more...), "--with", "key=owner")...)
		if status != 0 || !strings.Contains(out, "2 documents read") || more != nil && !strings.Contains(out, "0 written with 0 partition keys (0 at most of one), 2 skipped") {
			t.Fatalf("status %d: %s%s", status, out, stderr)
		}
	}
	if got := clean(t, "get", dir, "c", `"ann"`, "1"); got != "\xff\x00a" && got != "\xff\x00a\n" {
		t.Errorf("%q", got)
	}
	clean(t, "create", dir, "j", "--partition-key", "/k")
	for says, wrong := range map[string][]string{
		"needs --with key":        args,
		"is for bbolt":            {"import", bin, "--db", dir, "--container", "c", "--opaque", "--with", "key=owner"},
		"exclude each other":      append(args, "--with", "key=owner", "--partition-key", "/k"),
		`"j" holds JSON`:          {"import", bin, "--from", "badger", "--db", dir, "--container", "j", "--opaque", "--with", "key=owner"},
		`"c" is opaque`:           {"import", "-", "--db", dir, "--container", "c"},
		"--partition-key says /x": {"import", "-", "--db", dir, "--container", "j", "--partition-key", "/x"},
		"--db":                    {"import", "-", "--container", "j"},
	} {
		if status, _, stderr := runInput(t, "", wrong...); status != 2 || !strings.Contains(stderr, says) {
			t.Errorf("%q: status %d: %s", wrong, status, stderr)
		}
	}
}

// TestImportDryRun: a dry run judges the partition key, proposes one if none is given, and
// tells that a path leads nowhere.
func TestImportDryRun(t *testing.T) {
	var in strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&in, `{"id":"%d","tenant":"t%d","kind":"note"}`+"\n", i, i%500)
	}
	status, out, stderr := runInput(t, in.String(), "import", "-", "--container", "c", "--dry-run")
	if status != 0 || !strings.Contains(out, "2,000 would be written, ") || !strings.Contains(out, "/tenant is good:") {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
	status, out, stderr = runInput(t, in.String(), "import", "-", "--container", "c", "--dry-run", "--partition-key", "/kind")
	if status != 0 || !strings.Contains(out, "/kind is poor:") || !strings.Contains(out, "/tenant is better: it is good.") {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
	status, out, stderr = runInput(t, in.String(), "import", "-", "--container", "c", "--dry-run", "--partition-key", "/tennant")
	if status != 0 || !strings.Contains(out, "2,000 documents have no value at /tennant.") || !strings.Contains(out, "/tennant is poor:") {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
	status, out, _ = runInput(t, in.String(), "import", "-", "--container", "c", "--dry-run", "--json")
	if o := objects(t, out); status != 0 || o[0]["advice"] == nil {
		t.Errorf("status %d: %s", status, out)
	}
}

// TestImportDryRunNewStore: a dry run says of a directory without a store what an import then
// does: it makes one in a new file system and in an absent directory, and in no other.
func TestImportDryRunNewStore(t *testing.T) {
	for _, name := range []string{"", "lost+found", "foreign"} {
		dir := filepath.Join(t.TempDir(), "db")
		if name != "" {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		args := []string{"import", "-", "--container", "c", "--partition-key", "/k", "--db", dir}
		dry, _, dryErr := runInput(t, `{"id":"a","k":1}`, append(args, "--dry-run")...)
		status, _, stderr := runInput(t, `{"id":"a","k":1}`, args...)
		if dry != status || (status == 0) != (name != "foreign") {
			t.Errorf("%q: dry run %d %s; import %d %s", name, dry, dryErr, status, stderr)
		}
	}
}
