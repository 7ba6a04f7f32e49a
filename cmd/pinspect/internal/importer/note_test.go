package importer

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSourceState: the state of a source that is named by a symbolic link is that of its
// files, and an empty log beside it, which a reader of SQLite leaves, is none.
func TestSourceState(t *testing.T) {
	work := t.TempDir()
	file, dir := filepath.Join(work, "app.db"), filepath.Join(work, "badger")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	state := func(source string) string {
		t.Helper()
		s, err := sourceState(source)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(file, "a")
	for _, source := range []string{file, dir} {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(source, link); err != nil {
			t.Skip(err)
		}
		first, change := state(link), filepath.Join(dir, "000001.vlog")
		if source == file {
			change = file + "-wal"
			write(change, "")
			if state(link) != first || state(file) != first {
				t.Error("an empty log changes the state")
			}
		}
		write(change, "commit")
		if state(link) == first {
			t.Errorf("%s: a commit does not change the state", filepath.Base(source))
		}
		if state(link) != state(source) {
			t.Errorf("%s: the state by the link is another one", filepath.Base(source))
		}
	}
}
