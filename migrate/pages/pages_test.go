// Package pages holds the pages for people who come from other stores to what they say:
// its tests compile the code of both sides, and run the imports on sources that they make.
// It is a module of its own, so that those stores' libraries stay out of others.
package pages

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/Azure/azure-sdk-for-go/sdk/azcore" // for the checker
	_ "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/dgraph-io/badger/v4"
	"go.etcd.io/bbolt"
	_ "modernc.org/sqlite"

	_ "github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/doctest"
)

const root = "../.."

var names = []string{"docs/from-bbolt.md", "docs/from-badger.md", "docs/from-sqlite.md", "docs/from-cosmos-db.md"}

// marked returns a page with only those blocks that a test of this package runs.
func marked(t *testing.T, name, test string) *doctest.Page {
	t.Helper()
	page, err := doctest.Read(root, name)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []doctest.Block
	for _, b := range page.Blocks {
		if strings.TrimSpace(b.Notes["run by"]) == test {
			delete(b.Notes, "run by")
			blocks = append(blocks, b)
		}
	}
	page.Blocks = blocks
	return page
}

// TestSides: the code of both sides compiles, as it stands on the page.
func TestSides(t *testing.T) {
	checker, err := doctest.NewChecker(".", "github.com/cleavestore/cleave/engine",
		"github.com/Azure/azure-sdk-for-go/sdk/azcore", "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos",
		"github.com/dgraph-io/badger/v4", "go.etcd.io/bbolt",
		"bytes", "context", "database/sql", "encoding/json", "errors", "net/http", "time")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		page := marked(t, name, "TestSides")
		if n := len(page.Blocks); n < 4 || n%2 != 0 {
			t.Errorf("%s: %d blocks of code, want pairs", name, n)
		}
		for i, b := range page.Blocks {
			if cleave := strings.HasPrefix(b.Text, "// Cleave"); b.Lang != "go" || cleave != (i%2 == 1) {
				t.Errorf("%s:%d: the two sides do not take turns", name, b.Line)
			}
		}
		for _, err := range checker.Check(page) {
			t.Error(err)
		}
	}
}

// TestImports runs the imports of the pages.
func TestImports(t *testing.T) {
	bin := t.TempDir()
	for dir, pkg := range map[string]string{root: "./cmd/pinspect", "..": "./cleave-migrate"} {
		cmd := exec.Command("go", "build", "-o", bin+string(filepath.Separator), pkg)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			page := marked(t, name, "TestImports")
			if len(page.Blocks) == 0 {
				t.Fatal("the page shows no import")
			}
			dir := t.TempDir()
			makeSources(t, dir)
			shell := &doctest.Shell{Dir: dir, Env: append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC")}
			for _, b := range page.Blocks {
				if err := shell.Run(context.Background(), name, b); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// makeSources makes the files that the pages import.
func makeSources(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	bolt, err := bbolt.Open(filepath.Join(dir, "my.db"), 0o600, nil)
	must(err)
	must(bolt.Update(func(tx *bbolt.Tx) error {
		users, err := tx.CreateBucket([]byte("users"))
		if err != nil {
			return err
		}
		files, err := tx.CreateBucket([]byte("files"))
		if err != nil {
			return err
		}
		return errors.Join(users.Put([]byte("acme/ann"), []byte(`{"age":33}`)), users.Put([]byte("acme/bob"), []byte(`{"age":44}`)),
			users.Put([]byte("zen/eve"), []byte(`{"age":55}`)), files.Put([]byte("acme/logo"), []byte("\x89PNG")))
	}))
	must(bolt.Close())

	store, err := badger.Open(badger.DefaultOptions(t.TempDir()).WithLogger(nil))
	must(err)
	must(store.Update(func(txn *badger.Txn) (err error) {
		for i := range 3 {
			err = errors.Join(err, txn.Set(fmt.Appendf(nil, "users:acme/u%d", i), fmt.Appendf(nil, `{"n":%d}`, i)))
		}
		return errors.Join(err, txn.Set([]byte("other:1"), []byte("x")))
	}))
	backup, err := os.Create(filepath.Join(dir, "users.backup"))
	must(err)
	_, err = store.Backup(backup, 0)
	must(errors.Join(err, backup.Close(), store.Close()))

	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(dir, "app.db")))
	must(err)
	for _, statement := range []string{
		`CREATE TABLE orders (tenant TEXT, number INTEGER, total REAL, PRIMARY KEY (tenant, number))`,
		`INSERT INTO orders VALUES ('acme', 1, 9.5), ('acme', 2, 3), ('zen', 1, 100)`,
	} {
		_, err := db.Exec(statement)
		must(err)
	}
	must(db.Close())
	must(os.WriteFile(filepath.Join(dir, "export.json"), []byte(`[{"id":"1","customer":"ann","total":7,"_rid":"x","_ts":1},
{"id":"2","customer":"bob","total":8,"_rid":"y","_ts":2}]`), 0o600))
}
