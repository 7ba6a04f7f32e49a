package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dgraph-io/badger/v4"
	bolt "go.etcd.io/bbolt"
)

// read runs the program and returns documents and errors by their place.
func read(t *testing.T, args ...string) (docs, refused map[string]string) {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	docs, refused = make(map[string]string), make(map[string]string)
	for text := range strings.Lines(out.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if l.Error != "" {
			refused[l.At] = l.Error
		} else {
			docs[l.At] = string(l.Doc)
		}
	}
	return docs, refused
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pairs are keys and values that a store of keys and values has, and what becomes of them
// with -key tenant.
var pairs = []struct{ key, value, doc, refused string }{
	{"a/1", `{"n":1}`, `{"tenant":"a","id":"1","n":1}`, ""},
	{"a/2", `{"id":"2","n":1.0,"<":null}`, `{"tenant":"a","id":"2","n":1.0,"<":null}`, ""},
	{"e/1", "{\"caf\xe9\": 1}", "{\"tenant\":\"e\",\"id\":\"1\",\"caf\xe9\":1}", ""}, // is refused later
	{"e/2", `{"n":1 , "\ud800" :2}`, `{"tenant":"e","id":"2","n":1,"\ud800":2}`, ""},
	{"b/x/y", `{}`, `{"tenant":"b","id":"x/y"}`, ""},
	{"d/a&b", `{"tenant":"\u0064","id":"a\u0026b"}`, `{"tenant":"d","id":"a&b"}`, ""},
	{"b/3", `{"id":"4"}`, "", `another "id"`},
	{"b/4", `{"id":4}`, "", `another "id"`},
	{"b/null", `{"id":null}`, "", `another "id"`},
	{"c/5", `[1]`, "", "no JSON object"},
	{"c/6", `{"n":1`, "", "EOF"},
	{"none", `{}`, "", `has no "/"`},
	{"\xff/7", `{}`, "", "no UTF-8"},
}

func checkPairs(t *testing.T, place string, docs, refused map[string]string) {
	t.Helper()
	for _, p := range pairs {
		at := fmt.Sprintf(place, p.key)
		if docs[at] != p.doc || !strings.Contains(refused[at], p.refused) || (p.doc == "") != (refused[at] != "") {
			t.Errorf("%s: %s, refused %q; want %s, %q", at, docs[at], refused[at], p.doc, p.refused)
		}
	}
	if len(docs)+len(refused) != len(pairs) {
		t.Errorf("%d documents, %d refused, of %d pairs", len(docs), len(refused), len(pairs))
	}
}

// TestBolt reads a bucket of a file that another handle has open.
func TestBolt(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.db")
	db, err := bolt.Open(name, 0o600, nil)
	must(t, err)
	defer db.Close() // it holds the lock of the file meanwhile
	must(t, db.Update(func(tx *bolt.Tx) error {
		outer, err := tx.CreateBucket([]byte("outer"))
		if err != nil {
			return err
		}
		b, err := outer.CreateBucket([]byte("inner"))
		for _, p := range pairs {
			err = errors.Join(err, b.Put([]byte(p.key), []byte(p.value)))
		}
		return err
	}))
	docs, refused := read(t, "-from", "bbolt", "-bucket", "outer/inner", "-key", "tenant", name)
	checkPairs(t, "bucket outer/inner, key %q", docs, refused)
	if docs, refused := read(t, "-from", "bbolt", "-bucket", "outer", name); len(docs) != 0 || len(refused) != 1 {
		t.Errorf("the outer bucket: %q, %q", docs, refused)
	}
	docs, _ = read(t, "-from", "bbolt", "-bucket", "outer/inner", "-value", "base64", name)
	if got := docs[`bucket outer/inner, key "c/5"`]; got != `{"id":"c/5","value":"WzFd"}` {
		t.Errorf("base64: %s", got)
	}
	var out bytes.Buffer
	must(t, run(t.Context(), []string{"-from", "bbolt", "-bucket", "outer/inner", "-value", "bytes", "-key", "owner", name}, &out))
	for _, want := range []string{
		`{"at":"bucket outer/inner, key \"c/6\"","key":"c","id":"6","bytes":"eyJuIjox"}`,
		`{"at":"bucket outer/inner, key \"none\"","error":"key \"none\" has no \"/\""}`,
		`{"at":"bucket outer/inner, key \"\\xff/7\"","error":"key \"\\xff/7\" is no UTF-8"}`,
	} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("bytes: no line %s in\n%s", want, &out)
		}
	}
	if err := run(t.Context(), []string{"-from", "bbolt", "-bucket", "outer/inner", "-value", "bytes", name}, &out); err == nil || !strings.Contains(err.Error(), "needs -key") {
		t.Errorf("bytes without -key: %v", err)
	}
}

// TestOptionsOfOthers: an option that the kind of source does not know is refused: it would choose nothing.
func TestOptionsOfOthers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.db")
	db, err := bolt.Open(name, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		return errors.Join(err, b.Put([]byte("users:a"), []byte("{}")), b.Put([]byte("others:b"), []byte("{}")))
	}))
	must(t, db.Close())
	for want, args := range map[string][]string{
		"prefix is for badger, and not for bbolt":        {"bbolt", "-bucket", "b", "-prefix", "users:"},
		"id is for sqlite, and not for bbolt":            {"bbolt", "-bucket", "b", "-id", "x"},
		"bucket is for bbolt, and not for badger":        {"badger", "-bucket", "b"},
		"value is for bbolt, badger, and not for sqlite": {"sqlite", "-table", "t", "-value", "base64"},
	} {
		var out bytes.Buffer
		err := run(t.Context(), append(append([]string{"-from"}, args...), name), &out)
		if err == nil || err.Error() != want || out.Len() > 0 {
			t.Errorf("-from %q: %v, and printed %s", args, err, &out)
		}
	}
	docs, _ := read(t, "-from", "bbolt", "-bucket", "b", name)
	if len(docs) != 2 {
		t.Errorf("the bucket has %q", docs)
	}
}

// TestDamagedBolt: a damaged page is an error that names the file, and not the end of the process.
func TestDamagedBolt(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.db")
	db, err := bolt.Open(name, 0o600, &bolt.Options{PageSize: 4096})
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		for i := range 20 {
			err = errors.Join(err, b.Put(fmt.Appendf(nil, "%03d", i), fmt.Appendf(nil, `{"x":"%01000d"}`, i)))
		}
		return err
	}))
	must(t, db.Close())
	whole, err := os.ReadFile(name)
	must(t, err)
	met := 0
	for page := 2; page < len(whole)/4096; page++ {
		for _, from := range []int{0, 10, 16} { // all of the page, its number of elements, its elements
			damaged := bytes.Clone(whole)
			copy(damaged[page*4096+from:][:4096-from], bytes.Repeat([]byte{0xff}, 4096))
			must(t, os.WriteFile(name, damaged, 0o600))
			var out bytes.Buffer
			err := run(t.Context(), []string{"-from", "bbolt", "-bucket", "b", name}, &out)
			if err != nil && strings.HasPrefix(err.Error(), name+": the file is damaged: ") {
				met++
			}
		}
	}
	if met == 0 {
		t.Error("no damage was met")
	}
}

// TestTruncated: a file that a copy or a backup has not finished is refused.
func TestTruncated(t *testing.T) {
	dir := t.TempDir()
	name, backup := filepath.Join(dir, "a.db"), filepath.Join(dir, "backup")
	db, err := bolt.Open(name, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		for i := range 100 {
			err = errors.Join(err, b.Put(fmt.Appendf(nil, "%03d", i), fmt.Appendf(nil, `{"x":"%01000d"}`, i)))
		}
		return err
	}))
	must(t, db.View(func(tx *bolt.Tx) error { return tx.CopyFile(name+".cut", 0o600) }))
	must(t, db.Close())
	if docs, refused := read(t, "-from", "bbolt", "-bucket", "b", name+".cut"); len(docs) != 100 || len(refused) != 0 {
		t.Errorf("a whole copy: %d documents, %d refused", len(docs), len(refused))
	}
	info, err := os.Stat(name + ".cut")
	must(t, err)
	must(t, os.Truncate(name+".cut", info.Size()-1))
	must(t, os.WriteFile(backup, nil, 0o600))
	for source, args := range map[string][]string{name + ".cut": {"-from", "bbolt", "-bucket", "b"}, backup: {"-from", "badger"}} {
		var out bytes.Buffer
		if err := run(t.Context(), append(args, source), &out); err == nil || !strings.Contains(err.Error(), source+": the file is truncated") || out.Len() > 0 {
			t.Errorf("%v, and %d bytes printed", err, out.Len())
		}
	}
}

// TestTooLarge: a record that is too large for pinspect to read is an error with the place of the record.
func TestTooLarge(t *testing.T) {
	var out bytes.Buffer
	w := &printer{out: bufio.NewWriter(&out)}
	must(t, w.line(line{At: "key a", Bytes: make([]byte, maxBytes+1)}, nil))
	must(t, w.out.Flush())
	if want := `{"at":"key a","error":"larger than any container takes"}` + "\n"; out.String() != want {
		t.Errorf("%.100s, want %s", &out, want)
	}
}

// TestBoltLive copies a file again and again while a writer keeps two keys equal in each
// commit: no copy has one without the other.
func TestBoltLive(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.db")
	db, err := bolt.Open(name, 0o600, &bolt.Options{NoSync: true})
	must(t, err)
	defer db.Close()
	write := func(n int) error {
		return db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("b"))
			for i := range 100 { // over many pages
				err = errors.Join(err, b.Put(fmt.Appendf(nil, "%03d", i), fmt.Appendf(nil, `{"n":%d,"x":"%0200d"}`, n, i)))
			}
			return err
		})
	}
	must(t, write(0))
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var written atomic.Int64
	turn := make(chan bool)
	wg.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			if n%3 == 0 {
				<-turn // so that copies come to their end, too
			}
			if err := write(n); err != nil {
				t.Error(err)
			}
			written.Add(1)
		}
	})
	whole := 0
	for range 50 {
		to, err := os.CreateTemp(t.TempDir(), "copy")
		must(t, err)
		defer to.Close()
		select {
		case turn <- true:
		default:
		}
		if err := copyBolt(ctx, name, to); err != nil {
			if !strings.Contains(err.Error(), "a commit came during each") {
				t.Error(err)
			}
			continue
		}
		whole++
		docs, refused := read(t, "-from", "bbolt", "-bucket", "b", to.Name())
		first := ""
		for at, doc := range docs {
			n, _, _ := strings.Cut(doc[strings.Index(doc, `"n":`):], ",")
			if first == "" {
				first = n
			}
			if n != first {
				t.Fatalf("%s has %s, another key of the same commit has %s", at, n, first)
			}
		}
		if len(docs) != 100 || len(refused) != 0 {
			t.Fatalf("%d documents, %d refused", len(docs), len(refused))
		}
	}
	stop()
	close(turn)
	wg.Wait()
	if whole == 0 || written.Load() == 0 {
		t.Errorf("%d whole copies beside %d commits: nothing was tried", whole, written.Load())
	}
}

// TestBadger reads a directory, and a backup that a writer makes while it writes.
func TestBadger(t *testing.T) {
	dir := t.TempDir()
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
	must(t, err)
	must(t, db.Update(func(tx *badger.Txn) (err error) {
		for _, p := range pairs {
			err = errors.Join(err, tx.Set([]byte("users:"+p.key), []byte(p.value)))
		}
		return errors.Join(err, tx.Set([]byte("other"), []byte("x")))
	}))
	args := []string{"-from", "badger", "-prefix", "users:", "-key", "tenant"}
	if err := run(t.Context(), append(args, dir), new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "DB.Backup") {
		t.Errorf("a directory in use: %v, want an error that names DB.Backup", err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	file, err := os.Create(backup)
	must(t, err)
	_, err = db.Backup(file, 0)
	must(t, errors.Join(err, file.Close()))
	docs, refused := read(t, append(args, backup)...)
	checkPairs(t, `key %q`, cut(docs), cut(refused))
	must(t, db.Close())
	docs, refused = read(t, append(args, dir)...)
	checkPairs(t, `key %q`, cut(docs), cut(refused))
}

// cut takes the prefix out of places.
func cut(m map[string]string) map[string]string {
	out := make(map[string]string)
	for at, v := range m {
		out[strings.Replace(at, "users:", "", 1)] = v
	}
	return out
}

// TestSQLite reads a table in WAL mode while a transaction of a writer is open: it sees
// what was committed.
func TestSQLite(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a b?.db")
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("?", "%3f", " ", "%20").Replace(name)+"?_pragma=journal_mode(wal)")
	must(t, err)
	defer db.Close()
	for _, statement := range []string{
		`CREATE TABLE "a ""b" (tenant TEXT, n INTEGER, f REAL, big INTEGER, data BLOB, j TEXT, at DATETIME, PRIMARY KEY (tenant, n))`,
		`INSERT INTO "a ""b" VALUES ('x', 1, 1.5, 9007199254740993, x'00ff', '{"a":[1]}', '2026-01-02T03:04:05Z')`,
		`INSERT INTO "a ""b" VALUES ('y', 2, NULL, 5, NULL, 'nonsense', NULL)`,
		`CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)`, `INSERT INTO t VALUES (7, 'seven')`,
		`CREATE TABLE u (x TEXT)`,
		`CREATE TABLE bound (id TEXT PRIMARY KEY, j BLOB)`, `INSERT INTO bound VALUES ('a', x'7b2261223a317d'), ('b', x'ff')`,
		`CREATE TABLE mixed (k PRIMARY KEY)`, `INSERT INTO mixed VALUES (1), ('1'), (x'31'), (2.5)`,
		`CREATE TABLE days (d DATE PRIMARY KEY, n INTEGER)`, `INSERT INTO days VALUES ('2026-01-02', 1), ('2026-01-02 00:00:00', 2), ('2026-01-02T00:00:00Z', 3)`,
		`CREATE TABLE odd (id TEXT PRIMARY KEY)`, `INSERT INTO odd VALUES ('a'), (CAST(x'fe' AS TEXT)), (CAST(x'ff' AS TEXT))`,
		`CREATE TABLE bars (a TEXT, b TEXT, PRIMARY KEY (a, b))`, `INSERT INTO bars VALUES ('x', 'y|z'), ('x|y', 'z'), ('y', 'z')`,
	} {
		_, err := db.Exec(statement)
		must(t, err)
	}
	tx, err := db.Begin()
	must(t, err)
	defer tx.Rollback()
	_, err = tx.Exec(`INSERT INTO t VALUES (8, 'not committed')`)
	must(t, err)

	docs, refused := read(t, "-from", "sqlite", "-table", `a "b`, "-json", "j", name)
	want := `{"id":"x|1","tenant":"x","n":1,"f":1.5,"big":"9007199254740993","data":"AP8=","j":{"a":[1]},"at":"2026-01-02T03:04:05Z"}`
	if got := docs[`row 1, id "x|1"`]; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := refused[`row 2, id "y|2"`]; got != "column j is no JSON" || len(docs)+len(refused) != 2 {
		t.Errorf("%q, %q", docs, refused)
	}
	docs, refused = read(t, "-from", "sqlite", "-table", "bound", "-json", "j", name)
	if docs[`row 1, id "a"`] != `{"id":"a","j":{"a":1}}` || refused[`row 2, id "b"`] != "column j is no JSON" {
		t.Errorf("JSON in bytes: %q, %q", docs, refused)
	}
	docs, _ = read(t, "-from", "sqlite", "-table", "t", name)
	if len(docs) != 1 || docs[`row 1, id "7"`] != `{"id":"7","name":"seven"}` {
		t.Errorf("beside a transaction: %q", docs)
	}
	if docs, refused = read(t, "-from", "sqlite", "-table", "bars", name); len(docs) != 1 || len(refused) != 2 {
		t.Errorf("ids that would be the same: %q, %q", docs, refused)
	}
	if docs, refused = read(t, "-from", "sqlite", "-table", "odd", name); len(docs) != 1 || len(refused) != 2 {
		t.Errorf("ids that are no UTF-8: %q, %q", docs, refused)
	}
	docs, refused = read(t, "-from", "sqlite", "-table", "days", name)
	if len(docs) != 3 || docs[`row 2, id "2026-01-02 00:00:00"`] != `{"id":"2026-01-02 00:00:00","d":"2026-01-02T00:00:00Z","n":2}` {
		t.Errorf("ids that are one time: %q, %q", docs, refused)
	}
	docs, refused = read(t, "-from", "sqlite", "-query", "SELECT * FROM days", "-id", "d", name)
	if len(docs) != 0 || len(refused) != 3 || !strings.Contains(refused[`row 1, id ""`], `CAST("d" AS TEXT) AS "d"`) {
		t.Errorf("ids of a query that are one time: %q, %q", docs, refused)
	}
	docs, refused = read(t, "-from", "sqlite", "-table", "mixed", name)
	if len(docs) != 2 || docs[`row 1, id "1"`] != `{"id":"1","k":1}` || len(refused) != 2 {
		t.Errorf("ids of several kinds: %q, %q", docs, refused)
	}
	docs, _ = read(t, "-from", "sqlite", "-query", `SELECT tenant, big FROM "a ""b" WHERE n = 1`, "-id", "tenant", "-integers", "number", name)
	if len(docs) != 1 || docs[`row 1, id "x"`] != `{"id":"x","tenant":"x","big":9007199254740993}` {
		t.Errorf("a query: %q", docs)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "say table=NAME"},
		{[]string{"-table", "u"}, "there is no primary key"},
		{[]string{"-table", "none"}, "no such table: none"},
		{[]string{"-query", "SELECT x FROM none"}, "no such table: none"},
		{[]string{"-table", "t", "-id", "none"}, "id=none: there is no such column"},
		{[]string{"-table", "bound", "-json", "J"}, "json=J: there is no such column"},
		{[]string{"-table", "t", "-integers", "string"}, "-integers"},
	} {
		err := run(t.Context(), append(append([]string{"-from", "sqlite"}, c.args...), name), new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
	}
}

// TestPinspect imports a bbolt file and a backup of Badger by pinspect, which runs this
// program. An import that ends at a bad record leaves no copy of its source.
func TestPinspect(t *testing.T) {
	bin := t.TempDir()
	for dir, pkg := range map[string]string{"../..": "./cmd/pinspect", ".": "."} {
		cmd := exec.Command("go", "build", "-o", bin+string(filepath.Separator), pkg)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	work, temp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp)
	pinspect := func(args ...string) (string, error) {
		out, err := exec.Command(filepath.Join(bin, "pinspect"), args...).CombinedOutput()
		return string(out), err
	}
	// More than pipes and buffers hold lies behind the bad record.
	records := map[string]string{"acme/ann": `{"age":33}`, "b/bad": `[]`}
	for i := range 1000 {
		records[fmt.Sprintf("c/%03d", i)] = `{"text":"` + strings.Repeat("x", 4000) + `"}`
	}
	myBolt, myBadger := filepath.Join(work, "my.db"), filepath.Join(work, "my.backup")
	db, err := bolt.Open(myBolt, 0o600, nil)
	must(t, err)
	defer db.Close()
	must(t, db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("users"))
		for key, value := range records {
			err = errors.Join(err, b.Put([]byte(key), []byte(value)))
		}
		return err
	}))
	store, err := badger.Open(badger.DefaultOptions("").WithInMemory(true).WithLogger(nil))
	must(t, err)
	defer store.Close()
	must(t, store.Update(func(tx *badger.Txn) (err error) {
		for key, value := range records {
			err = errors.Join(err, tx.Set([]byte(key), []byte(value)))
		}
		return err
	}))
	backup, err := os.Create(myBadger)
	must(t, err)
	_, err = store.Backup(backup, 0)
	must(t, errors.Join(err, backup.Close()))

	for from, source := range map[string][]string{"bbolt": {myBolt, "--with", "bucket=users"}, "badger": {myBadger}} {
		dir := filepath.Join(work, from)
		args := append([]string{"import", "--from", from, "--db", dir, "--container", "users", "--partition-key", "/tenant", "--with", "key=tenant"}, source...)
		out, err := pinspect(append(args, "--with", "nothing=x")...)
		if err == nil || !strings.Contains(out, "not defined: -nothing") || strings.Contains(out, "Usage of") {
			t.Errorf("%s: a --with that there is not: %v\n%s", from, err, out)
		}
		if out, err := pinspect(args...); err == nil || !strings.Contains(out, `key "b/bad": the value is no JSON object`) {
			t.Errorf("%s: %v\n%s", from, err, out)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
			t.Errorf("%s: an import that ended early left %v, %v", from, left, err)
		}
		if out, err := pinspect(append(args, "--skip-bad")...); err == nil || !strings.Contains(out, "1,002 documents read, 1,001 written") {
			t.Errorf("%s: %v\n%s", from, err, out)
		}
		if got, err := pinspect("get", dir, "users", `"acme"`, "ann"); err != nil || got != `{"tenant":"acme","id":"ann","age":33}`+"\n" {
			t.Errorf("%s: imported: %v\n%s", from, err, got)
		}
	}
}
