package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// result is what a command left behind.
type result struct {
	status         int
	stdout, stderr string
}

// pinspect runs a command line in this process.
func pinspect(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	status := execute(t.Context(), args, &environment{stdout: &out, stderr: &errs})
	return result{status, out.String(), errs.String()}
}

// clean runs a command that must find nothing wrong and returns its output.
func clean(t *testing.T, args ...string) string {
	t.Helper()
	r := pinspect(t, args...)
	if r.status != cli.ExitOK || r.stderr != "" && !(strings.Contains(r.stderr, " written to ") && strings.Count(r.stderr, "\n") == 1) {
		t.Fatalf("pinspect %s: status %d\n%s%s", strings.Join(args, " "), r.status, r.stdout, r.stderr)
	}
	return r.stdout
}

// objects decodes output of one JSON object a line.
func objects(t *testing.T, text string) []map[string]any {
	t.Helper()
	var list []map[string]any
	for line := range strings.Lines(text) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("no JSON object on a line: %v\n%s", err, line)
		}
		if v["v"] != float64(jsonVersion) || v["type"] == nil {
			t.Errorf("object without version or type: %s", line)
		}
		list = append(list, v)
	}
	return list
}

// ofType returns the objects of a type.
func ofType(list []map[string]any, name string) []map[string]any {
	var out []map[string]any
	for _, v := range list {
		if v["type"] == name {
			out = append(out, v)
		}
	}
	return out
}

// sample is a store on disk with what it must contain.
type sample struct {
	dir    string
	cities map[string]string // id to document
}

func (s *sample) city(i int) (id, country, doc string) {
	id, country = fmt.Sprintf("city-%04d", i), fmt.Sprintf("C%d", i%7)
	return id, country, fmt.Sprintf(`{"id":%q,"country":%q,"people":%d,"note":%q}`, id, country, 1000*i, strings.Repeat("lorem ipsum ", i%9))
}

// newSample builds a closed store: container cities (JSON) with three physical
// partitions, overwritten and deleted documents, several runs, a rest in the
// log; container blobs (opaque); container empty.
func newSample(t *testing.T) *sample {
	t.Helper()
	s := &sample{dir: filepath.Join(t.TempDir(), "store"), cities: make(map[string]string)}
	ctx := t.Context()
	db, err := engine.Open(ctx, s.dir, &engine.Options{Durability: engine.Buffered, LogFileBytes: 64 << 10})
	check(t, err)
	cities, err := db.CreateContainer(ctx, "cities", engine.ContainerDef{PartitionKey: []string{"/country"}, MinPartitions: 3, Index: engine.IndexAll()})
	check(t, err)
	blobs, err := db.CreateContainer(ctx, "blobs", engine.ContainerDef{Kind: engine.Opaque, PartitionKey: []string{"/a", "/b"}})
	check(t, err)
	_, err = db.CreateContainer(ctx, "empty", engine.ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2})
	check(t, err)
	put := func(i int) {
		id, _, doc := s.city(i)
		_, err := cities.Upsert(ctx, []byte(doc), nil)
		check(t, err)
		s.cities[id] = doc
	}
	remove := func(i int) {
		id, country, _ := s.city(i)
		check(t, cities.Delete(ctx, engine.StringKey(country), id, nil))
		delete(s.cities, id)
	}
	for i := range 400 {
		put(i)
	}
	check(t, db.Flush(ctx))
	for i := 300; i < 600; i++ {
		put(i)
	}
	for i := range 50 {
		remove(3 * i)
	}
	_, err = blobs.Put(ctx, engine.JoinKeys(engine.StringKey("x"), engine.NumberKey(1)), "blob/1", []byte("\x00\xff bytes"), nil)
	check(t, err)
	check(t, db.Flush(ctx))
	for i := 600; i < 620; i++ {
		put(i)
	}
	check(t, db.Close())
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listing describes every file below a directory: name, mode, time of the last
// change, content.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	check(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var sum [sha256.Size]byte
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			sum = sha256.Sum256(data)
		}
		fmt.Fprintf(&b, "%s %v %d %x\n", name, info.Mode(), info.ModTime().UnixNano(), sum)
		return nil
	}))
	return b.String()
}

// everyCommand is a command line of each kind.
func everyCommand(dir string) [][]string {
	return [][]string{
		{dir},
		{"info", dir, "--count"},
		{"info", dir, "--json"},
		{"tree", dir},
		{"tree", dir, "--json"},
		{"partitions", dir},
		{"partitions", dir, "--top", "3", "--json"},
		{"segments", dir, "--sections"},
		{"segments", dir, "--json"},
		{"wal", dir},
		{"wal", dir, "--records"},
		{"wal", dir, "--json"},
		{"get", dir, "cities", `"C6"`, "city-0601"},
		{"export", dir, "cities"},
		{"export", dir, "cities", `"C1"`, "--json"},
		{"query", dir, "cities", "SELECT TOP 3 c.id, c.people FROM c WHERE c.people > 1000 ORDER BY c.people", "--explain"},
		{"query", dir, "cities", "SELECT * FROM c WHERE c.country = @c", "--param", "c=C1", "--json"},
		{"top", dir},
		{"top", dir, "--each", "--json"},
		{"map", dir},
		{"map", dir, "--json"},
		{"hot", dir},
		{"hot", dir, "--each", "--json"},
		{"history", dir},
		{"history", dir, "--json"},
		{"advise", dir, "--container", "cities"},
		{"advise", dir, "--container", "cities", "--key", "/people", "--json"},
		{"verify", dir},
		{"verify", dir, "--json"},
	}
}

// copyStore copies a store into a directory of its own.
func copyStore(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	check(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// storeFiles returns the files of a store, relative to it, by the end of their
// names.
func storeFiles(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), pattern)
	check(t, err)
	if len(names) == 0 {
		t.Fatalf("the store has no files %s", pattern)
	}
	return names
}

// patch changes a byte of a file.
func patch(t *testing.T, name string, off int64, change func(byte) byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], off)
	check(t, err)
	b[0] = change(b[0])
	_, err = f.WriteAt(b[:], off)
	check(t, err)
}
