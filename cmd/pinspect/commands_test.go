package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/edit"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/importer"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/space"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/storediff"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsonfields"
)

var rewrite = flag.Bool("rewrite", false, "accept the JSON fields as they are")

// printed are the objects that commands print.
var printed = []jsonfields.Object{
	{Name: "info: store", Value: infoReport{}},
	{Name: "tree: tree", Value: treeReport{}},
	{Name: "partitions: partition", Value: partitionRow{}},
	{Name: "partitions: logical_partition", Value: logicalRow{}},
	{Name: "top: logical_partition", Value: topRow{}},
	{Name: "hot: hot_partition", Value: hotRow{}},
	{Name: "map: map", Value: mapReport{}},
	{Name: "history: reshape", Value: reshapeRow{}},
	{Name: "segments: segment", Value: segmentRow{}},
	{Name: "segments: finding", Value: findingRow{}},
	{Name: "index: index", Value: indexRow{}},
	{Name: "index: path", Value: pathRow{}},
	{Name: "index: term", Value: termRow{}},
	{Name: "index: finding", Value: findingRow{}},
	{Name: "wal: log_file", Value: logRow{}},
	{Name: "wal: stream", Value: streamRow{}},
	{Name: "wal: record", Value: recordRow{}},
	{Name: "get: document", Value: documentRow{}},
	{Name: "export: document", Value: documentRow{}},
	{Name: "export: missing", Value: exportMissing{}},
	{Name: "query: result", Value: resultRow{}},
	{Name: "query: explain", Value: statsRow{}},
	{Name: "advise: advice", Value: adviseReport{}},
	{Name: "backup: backup", Value: backupRow{}},
	{Name: "restore: backup", Value: backupRow{}},
	{Name: "restore: restored", Value: restoredRow{}},
	{Name: "repair: repaired", Value: repairResult{}},
	{Name: "verify: finding", Value: findingRow{}},
	{Name: "verify: summary", Value: verifySummary{}},
	{Name: "version: version", Value: versionReport{}},
	{Name: "space: space", Value: space.Report{}},
	{Name: "diff: difference", Value: storediff.Difference{}},
	{Name: "diff: diff", Value: storediff.Summary{}},
	{Name: "restore-key: restored_key", Value: edit.RestoredKey{}},
	{Name: "import: imported", Value: importer.Done{}},
	{Name: "create, drop, put, delete, alter, compact: created, dropped, written, deleted, altered, compacted", Value: edit.Done{}},
}

// known says of which fields a printed object may consist.
func known(t *testing.T, name string) map[string]bool {
	for _, o := range printed {
		if o.Name == name {
			into := make(map[string]bool)
			for _, f := range jsonfields.Of(o.Value) {
				into[strings.TrimSuffix(f, ", optional")] = true
			}
			return into
		}
	}
	t.Fatalf("docs/json.md does not know %s", name)
	return nil
}

// checkFields checks that a value has no fields but known ones.
func checkFields(t *testing.T, name, path string, v any, known map[string]bool) {
	kind := "null"
	switch v := v.(type) {
	case map[string]any:
		if known[path+" object"] && !strings.HasSuffix(path, "problem") || known[path+" any"] {
			return // by name, or a document
		}
		for field, value := range v {
			checkFields(t, name, strings.TrimPrefix(path+"."+field, "."), value, known)
		}
		return
	case []any:
		for _, value := range v {
			checkFields(t, name, path+"[]", value, known)
		}
		return
	case string:
		kind = "string"
	case float64:
		kind = "number"
	case bool:
		kind = "bool"
	}
	if kind != "null" && !known[path+" "+kind] && !known[path+" any"] {
		t.Errorf("%s prints the field %q, a %s, of which docs/json.md does not know", name, path, kind)
	}
}

// Programs read the JSON: under one version its fields may be added to and never
// change. docs/json.md has them all, and what is printed is in it.
func TestJSONFields(t *testing.T) {
	check(t, jsonfields.Compare("../../docs/json.md", "pinspect", jsonfields.Text(printed), *rewrite))
	s := newSample(t)
	killed := copyStore(t, s.dir)
	neverClosed(t, killed)
	moved, _ := reshaped(t)
	backup := filepath.Join(t.TempDir(), "backup")
	for _, args := range [][]string{
		{"info", s.dir},
		{"info", killed},
		{"tree", s.dir},
		{"partitions", s.dir, "--show-keys"},
		{"segments", s.dir},
		{"index", s.dir, "--show-values"},
		{"wal", s.dir, "--records"},
		{"get", s.dir, "cities", `"C6"`, "city-0601"},
		{"export", s.dir, "blobs"},
		{"query", s.dir, "cities", "SELECT c.id FROM c WHERE c.country = 'C1'", "--explain"},
		{"top", s.dir, "--show-keys"},
		{"map", s.dir, "--show-keys"},
		{"hot", s.dir, "--show-keys"},
		{"history", moved},
		{"advise", s.dir, "--container", "cities", "--show-keys"},
		{"backup", s.dir, "-o", backup},
		{"restore", filepath.Join(t.TempDir(), "restored"), backup},
		{"restore", "--check", s.dir, backup},
		{"repair", s.dir, filepath.Join(t.TempDir(), "repaired")},
		{"verify", s.dir},
		{"version"},
		{"space", s.dir},
		{"diff", s.dir, s.dir},
	} {
		for _, v := range objects(t, clean(t, append(args, "--json")...)) {
			kind, _ := v["type"].(string)
			name := args[0] + ": " + kind
			checkFields(t, name, "", v, known(t, name))
		}
	}
}

func TestInfo(t *testing.T) {
	s := newSample(t)
	v := objects(t, clean(t, s.dir, "--json"))[0]
	documents := float64(len(s.cities) + 1)
	if v["documents"] != documents || v["exact"] != true || v["clean"] != true || v["logical_partitions"] != 8.0 {
		t.Errorf("want %v documents in 8 logical partitions: %v", documents, v)
	}
	if v["owner"] != nil {
		t.Errorf("a closed store has an owner: %v", v["owner"])
	}
	raw := len("\x00\xff bytes")
	for _, doc := range s.cities {
		raw += len(doc)
	}
	if v["raw_bytes"] != float64(raw) {
		t.Errorf("raw bytes %v, want %d", v["raw_bytes"], raw)
	}
	text := clean(t, "info", s.dir)
	for _, want := range []string{"cities", "/country", "blobs", "/a,/b", "empty", "closed cleanly", humanize.Count(len(s.cities) + 1)} {
		if !strings.Contains(text, want) {
			t.Errorf("info lacks %q:\n%s", want, text)
		}
	}
	if lines := strings.Count(text, "\n"); lines > 40 {
		t.Errorf("info has %d lines", lines)
	}
}

func TestDiskByRaw(t *testing.T) {
	small := layout.Space{Segments: 300, Log: 1 << 20, Total: 300 + 1<<20}
	if got := diskByRaw(small, 1000); got != "-, log and other files, 1.00 MiB, are larger than the documents" {
		t.Errorf("a small store: %s", got)
	}
	if got := diskByRaw(small, 2<<20); got != "0.50" {
		t.Errorf("a larger store: %s", got)
	}
}

func TestTree(t *testing.T) {
	s := newSample(t)
	v := objects(t, clean(t, "tree", s.dir, "--json"))[0]
	containers := v["containers"].([]any)
	if len(containers) != 3 {
		t.Fatalf("%d containers", len(containers))
	}
	var files, bytes float64
	for _, p := range containers[0].(map[string]any)["partitions"].([]any) {
		for _, r := range p.(map[string]any)["runs"].([]any) {
			for _, f := range r.(map[string]any)["files"].([]any) {
				files++
				bytes += f.(map[string]any)["bytes"].(float64)
			}
		}
	}
	if files < 3 || bytes != containers[0].(map[string]any)["bytes"] {
		t.Errorf("%v files of %v bytes: %v", files, bytes, containers[0])
	}
	text := clean(t, "tree", s.dir, "--container", "cities", "--partition", "2")
	if !strings.Contains(text, "partition 2") || strings.Contains(text, "partition 1") || strings.Contains(text, "blobs") {
		t.Errorf("the filter shows something else:\n%s", text)
	}
}

func TestPartitions(t *testing.T) {
	s := newSample(t)
	list := objects(t, clean(t, "partitions", s.dir, "--container", "cities", "--json", "--show-keys", "--top", "3"))
	parts, top := ofType(list, "partition"), ofType(list, "logical_partition")
	if len(parts) != 3 || len(top) != 3 || len(list) != 6 {
		t.Fatalf("%d partitions, %d logical ones, %d rows", len(parts), len(top), len(list))
	}
	var documents, share float64
	end := ""
	for _, p := range parts {
		documents += p["documents"].(float64)
		share += p["key_space_share"].(float64)
		if p["min"] != end {
			t.Errorf("partition %v begins at %v, the one before ends at %q", p["id"], p["min"], end)
		}
		end = p["max"].(string)
	}
	if documents != float64(len(s.cities)) || share < 0.999 || share > 1.001 || end != "FF" {
		t.Errorf("%v documents, %v of the key space up to %s", documents, share, end)
	}
	// The largest logical partitions, from the documents.
	bytesOf := make(map[string]int)
	for i := range 620 {
		if id, country, _ := s.city(i); s.cities[id] != "" {
			bytesOf[fmt.Sprintf("%q", country)] += len(s.cities[id])
		}
	}
	sizes := slices.Sorted(maps.Values(bytesOf))
	for i, p := range top {
		if want := sizes[len(sizes)-1-i]; p["raw_bytes"] != float64(want) || p["raw_bytes"] != float64(bytesOf[p["key"].(string)]) {
			t.Errorf("largest %d: %v, want %d bytes", i+1, p, want)
		}
	}
	// Those of one physical partition, though others have larger ones.
	for _, p := range parts {
		list := objects(t, clean(t, "partitions", s.dir, "--container", "cities", "--json", "--top", "2", "--partition", fmt.Sprint(p["id"])))
		one, top := ofType(list, "partition"), ofType(list, "logical_partition")
		if len(one) != 1 || one[0]["documents"] != p["documents"] || len(top) != min(2, int(p["logical_partitions"].(float64))) {
			t.Errorf("partition %v: %v, %v", p["id"], one, top)
		}
	}
	if text := clean(t, "partitions", s.dir); strings.Contains(text, `"C1"`) || !strings.Contains(text, "largest logical partitions") {
		t.Errorf("keys are shown, or no largest ones:\n%s", text)
	}
	if text := clean(t, "partitions", s.dir, "--top", "0"); strings.Contains(text, "largest") || !strings.Contains(text, "≤") {
		t.Errorf("documents were read, or an upper bound is not shown as one:\n%s", text)
	}
}

func TestSegments(t *testing.T) {
	s := newSample(t)
	list := objects(t, clean(t, "segments", s.dir, "--json"))
	if len(list) < 4 {
		t.Fatalf("%d segments", len(list))
	}
	for _, v := range list {
		info, err := os.Stat(s.dir + "/" + v["file"].(string))
		check(t, err)
		if v["bytes"] != float64(info.Size()) {
			t.Errorf("%v: %v bytes, has %d", v["file"], v["bytes"], info.Size())
		}
		var sections float64
		for _, section := range v["sections"].([]any) {
			sections += section.(map[string]any)["bytes"].(float64)
		}
		if sections == 0 || sections > float64(info.Size()) || v["min_seq"].(float64) > v["max_seq"].(float64) {
			t.Errorf("sections of %v bytes in a file of %d: %v", sections, info.Size(), v)
		}
	}
	text := clean(t, "segments", s.dir, "--sections")
	for _, want := range []string{"groups", "locator", "stored/raw", "dictionary", list[0]["file"].(string)} {
		if !strings.Contains(text, want) {
			t.Errorf("segments lacks %q:\n%s", want, text)
		}
	}
}

// TestFindingsAsJSON: commands that list files say with --json too what is wrong beside what they list.
func TestFindingsAsJSON(t *testing.T) {
	s := newSample(t)
	patch(t, filepath.Join(s.dir, storeFiles(t, s.dir, "p/*/MANIFEST-*")[0]), 99, func(b byte) byte { return b ^ 1 })
	for _, command := range []string{"segments", "index"} {
		r := pinspect(t, command, s.dir, "--json")
		found := ofType(objects(t, r.stdout), "finding")
		if r.status != exitFindings || len(found) != 1 || !strings.HasPrefix(found[0]["file"].(string), "p/") || found[0]["what"] == "" {
			t.Errorf("%s: status %d, %v\n%s", command, r.status, found, r.stderr)
		}
	}
}

func TestWal(t *testing.T) {
	s := newSample(t)
	list := objects(t, clean(t, "wal", s.dir, "--json", "--records"))
	files, streams, records := ofType(list, "log_file"), ofType(list, "stream"), ofType(list, "record")
	if len(files) == 0 || len(streams) == 0 || len(records) == 0 {
		t.Fatalf("%d files, %d streams, %d records", len(files), len(streams), len(records))
	}
	var inFiles, inStreams float64
	for _, f := range files {
		inFiles += f["records"].(float64)
	}
	unflushed := false
	for _, st := range streams {
		inStreams += st["records"].(float64)
		unflushed = unflushed || st["unflushed"].(bool)
	}
	if inFiles != float64(len(records)) || inStreams != inFiles || !unflushed {
		t.Errorf("%v records by file, %v by stream, %d listed, unflushed %v", inFiles, inStreams, len(records), unflushed)
	}
	if state := files[len(files)-1]["state"]; state != "closed" {
		t.Errorf("last file is %v", state)
	}
	text := clean(t, "wal", s.dir, "--records")
	for _, want := range []string{"cities", "needed", "write", "marked", files[0]["file"].(string)} {
		if !strings.Contains(text, want) {
			t.Errorf("wal lacks %q:\n%s", want, text)
		}
	}
}

func TestGet(t *testing.T) {
	s := newSample(t)
	for _, i := range []int{100, 350, 610} { // first run, overwritten, in the log
		id, country, _ := s.city(i)
		if got := clean(t, "get", s.dir, "cities", fmt.Sprintf("%q", country), id); got != s.cities[id]+"\n" {
			t.Errorf("%s: %s", id, got)
		}
	}
	v := objects(t, clean(t, "get", s.dir, "blobs", `["x", 1]`, "blob/1", "--json"))[0]
	if v["body_base64"] != "AP8gYnl0ZXM=" || v["key"] != `["x",1]` {
		t.Errorf("%v", v)
	}
	if got := clean(t, "get", s.dir, "blobs", `["x",1]`, "blob/1"); got != "\x00\xff bytes" {
		t.Errorf("%q", got)
	}
}

// TestRawID: ids of an opaque container that are no text are told apart.
func TestRawID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db, err := engine.Open(t.Context(), dir, nil)
	check(t, err)
	c, err := db.CreateContainer(t.Context(), "c", engine.ContainerDef{Kind: engine.Opaque})
	check(t, err)
	for _, id := range []string{"text", "\xfe", "\xff"} {
		_, err = c.Put(t.Context(), engine.StringKey("k"), id, []byte("b"), nil)
		check(t, err)
	}
	check(t, db.Close())
	var got []any
	for _, v := range ofType(objects(t, clean(t, "export", dir, "c", "--json")), "document") {
		got = append(got, v["id_base64"])
	}
	if want := []any{nil, "/g==", "/w=="}; !slices.Equal(got, want) {
		t.Errorf("raw ids %v, want %v", got, want)
	}
}

func TestDump(t *testing.T) {
	s := newSample(t)
	left := maps.Clone(s.cities)
	for line := range strings.Lines(clean(t, "export", s.dir, "cities")) {
		var doc struct{ ID string }
		check(t, json.Unmarshal([]byte(line), &doc))
		if left[doc.ID]+"\n" != line {
			t.Errorf("%s: %s", doc.ID, line)
		}
		delete(left, doc.ID)
	}
	if len(left) > 0 {
		t.Errorf("%d documents are missing", len(left))
	}
	last := ""
	list := objects(t, clean(t, "export", s.dir, "cities", `"C1"`, "--json"))
	for _, v := range list {
		id := v["id"].(string)
		body, err := json.Marshal(v["body"])
		check(t, err)
		if v["key"] != `"C1"` || id <= last || !bytes.Contains(body, []byte(id)) {
			t.Errorf("after %s: %v", last, v)
		}
		last = id
	}
	reversed := objects(t, clean(t, "export", s.dir, "cities", `"C1"`, "--json", "--reverse", "--limit", "2"))
	if len(reversed) != 2 || reversed[0]["id"] != last {
		t.Errorf("reversed: %v", reversed)
	}
	if got := clean(t, "export", s.dir, "empty"); got != "" {
		t.Errorf("empty container: %s", got)
	}
}

// A document is one line, whatever blanks it was given with.
func TestDumpPrintsOneLine(t *testing.T) {
	var b bytes.Buffer
	out := &output{w: bufio.NewWriter(&b)}
	check(t, printLine(out, []byte("{\n \"a\": \"x\\n<\",\r\n\t\"b\": 1.50 }")))
	check(t, printLine(out, []byte(`{ "a": 1 }`)))
	check(t, out.w.Flush())
	if want := `{"a":"x\n<","b":1.50}` + "\n" + `{ "a": 1 }` + "\n"; b.String() != want {
		t.Errorf("got %s, want %s", b.String(), want)
	}
}

func TestNothingOnDiskChanges(t *testing.T) {
	s := newSample(t)
	before := listing(t, s.dir)
	for _, args := range everyCommand(s.dir) {
		clean(t, args...)
		if after := listing(t, s.dir); after != before {
			t.Fatalf("pinspect %v changed the store:\nbefore\n%safter\n%s", args, before, after)
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, command := range []string{"info", "tree", "partitions", "segments", "wal", "get", "export", "top", "map", "advise", "repair", "verify"} {
		if text := clean(t, command, "--help"); !strings.Contains(text, "pinspect "+command) || !strings.Contains(text, "Examples:") {
			t.Errorf("help of %s lacks examples:\n%s", command, text)
		}
	}
	if text := clean(t, "--help"); !strings.Contains(text, "no such container") {
		t.Error(text)
	}
}
