package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExportDamaged exports a store of which a group of documents is damaged, and
// one that has lost a file, each the newest or the oldest of a partition: the rest is
// there, each document as it was written last, and what is missing is listed.
func TestExportDamaged(t *testing.T) {
	s := newSample(t)
	var files []map[string]any // of the first partition, the newest first
	for _, v := range objects(t, clean(t, "segments", s.dir, "--json")) {
		if v["container"] == "cities" && (len(files) == 0 || v["partition"] == files[0]["partition"]) {
			files = append(files, v)
		}
	}
	if len(files) < 2 {
		t.Fatalf("%d files", len(files))
	}
	for i := range 4 {
		file, what := files[i%2*(len(files)-1)], [...]string{"group", "file"}[i/2]
		t.Run(fmt.Sprintf("%s of %v", what, file["file"]), func(t *testing.T) {
			dir := copyStore(t, s.dir)
			name := filepath.Join(dir, file["file"].(string))
			if what == "file" {
				check(t, os.Remove(name))
			} else {
				for _, section := range file["sections"].([]any) {
					if v := section.(map[string]any); v["name"] == "groups" {
						patch(t, name, int64(v["offset"].(float64)+v["bytes"].(float64)/2), func(b byte) byte { return b ^ 0x10 })
					}
				}
			}
			r := pinspect(t, "export", dir, "cities")
			if r.status != exitFindings || !strings.Contains(r.stderr, name) {
				t.Fatalf("status %d\n%s", r.status, r.stderr)
			}
			whole := make(map[string]bool)
			for _, doc := range s.cities {
				whole[doc] = true
			}
			n := 0
			for line := range strings.Lines(r.stdout) {
				if n++; !whole[strings.TrimSuffix(line, "\n")] {
					t.Errorf("stale or unknown: %s", line)
				}
			}
			if n == len(s.cities) || n < len(s.cities)/2 {
				t.Errorf("%d of %d documents", n, len(s.cities))
			}
			out := filepath.Join(t.TempDir(), "rest.ndjson")
			if f := pinspect(t, "export", dir, "cities", "-o", out); f.status != exitFindings {
				t.Errorf("into a file: status %d\n%s", f.status, f.stderr)
			}
			text, err := os.ReadFile(out)
			check(t, err)
			if string(text) != r.stdout {
				t.Error("the file has something else")
			}
			list := objects(t, pinspect(t, "export", dir, "cities", "--json").stdout)
			last := list[len(list)-1]
			lost, _ := last["lost"].([]any)
			if len(list) != n+1 || len(lost) == 0 {
				t.Fatalf("--json: %d objects, the last %v", len(list), last)
			}
			first := lost[0].(map[string]any)
			if first["file"] != name || first["min"] == first["max"] || what == "group" && first["offset"].(float64) < 0 {
				t.Errorf("--json: %v", first)
			}

			// The same documents come key by key, and one by one.
			keys := 0
			for i := range 7 {
				r := pinspect(t, "export", dir, "cities", fmt.Sprintf(`"C%d"`, i))
				keys += strings.Count(r.stdout, "\n")
			}
			if keys != n {
				t.Errorf("%d documents key by key, %d at once", keys, n)
			}
			exported := make(map[string]bool)
			for line := range strings.Lines(r.stdout) {
				exported[strings.TrimSuffix(line, "\n")] = true
			}
			for i := 150; i < 620; i += 25 {
				id, country, doc := s.city(i)
				r := pinspect(t, "get", dir, "cities", `"`+country+`"`, id)
				switch r.status {
				case 0:
					if strings.TrimSuffix(r.stdout, "\n") != doc {
						t.Errorf("get %s: %s", id, r.stdout)
					}
				case exitFindings:
					// A get asks the newest file first. The locator of a file has one byte of
					// the hash of an id, so it may send a get of any id to the damaged group.
					if what == "file" && exported[doc] || !strings.Contains(r.stderr, name) {
						t.Errorf("get %s: %s", id, r.stderr)
					}
				default:
					t.Fatalf("get %s: status %d\n%s", id, r.status, r.stderr)
				}
			}
			if f := pinspect(t, "export", dir, "blobs"); f.status != 0 {
				t.Errorf("another container: status %d\n%s", f.status, f.stderr)
			}
		})
	}
}
