package outputfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/manifest"
)

// TestOutsideStores: a name in a store is refused, at whatever depth and by whatever link, also if what it names is missing.
func TestOutsideStores(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	must(os.MkdirAll(at("db/"+manifest.PartitionsDir+"/1"), 0o700))
	must(os.WriteFile(at("db/"+manifest.Name(7)), nil, 0o600))
	must(os.MkdirAll(at("other/"+manifest.PartitionsDir), 0o700)) // without a manifest it is none
	cases := map[string]bool{
		"db": true, "db/new": true, "db/new/new": true, "db/" + manifest.PartitionsDir + "/1/new": true, "other/../db/new": true,
		"planned": true, "planned/new": true, "planned/../planned/a/b": true,
		"new": false, "new/new": false, "other/new": false, "db/../new": false, "planned2": false, "planned.json": false, "..planned": false,
	}
	if err := os.Symlink("db", at("link")); err != nil {
		t.Logf("the file system has no symbolic links: %v", err)
	} else {
		for name, to := range map[string]string{"here": "db/" + manifest.Name(7), "nowhere": "db/none", "through": "other/../nowhere", "round": "round"} {
			must(os.Symlink(filepath.FromSlash(to), at(name)))
			cases[name] = name != "round"
		}
		cases["link/new"] = true
	}
	for name, refused := range cases {
		err := OutsideStores(at(name), "", at("planned"))
		if errors.As(err, new(*cli.UsageError)) != refused || refused && !strings.Contains(err.Error(), at(name)+" would lie in the store ") || !refused && err != nil {
			t.Errorf("%s: %v, want refused: %v", name, err, refused)
		}
	}
}
