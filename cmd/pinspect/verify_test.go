package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/wal"
)

// findings runs verify, which must find something, and returns it.
func findings(t *testing.T, dir string) []map[string]any {
	t.Helper()
	r := pinspect(t, "verify", dir, "--json")
	list := ofType(objects(t, r.stdout), "finding")
	if r.status != exitFindings || len(list) == 0 || r.stderr != "" {
		t.Fatalf("status %d, %d findings, %s", r.status, len(list), r.stderr)
	}
	return list
}

func TestVerifyClean(t *testing.T) {
	s := newSample(t)
	list := objects(t, clean(t, "verify", s.dir, "--json"))
	sum := list[0]
	if len(list) != 1 || sum["findings"] != 0.0 || sum["partitions"] != 6.0 || sum["segments"].(float64) < 4 || sum["log_records"] == 0.0 {
		t.Errorf("%v", list)
	}
	if text := clean(t, "verify", s.dir); !strings.HasPrefix(text, "clean") {
		t.Error(text)
	}
}

// Every byte that a manifest, a segment or a record of the log consists of is
// covered: a flipped bit is found, in the right file, at the structure that it
// lies in.
func TestVerifyNamesFileAndOffsetOfAFlippedByte(t *testing.T) {
	s := newSample(t)
	log := objects(t, clean(t, "wal", s.dir, "--json", "--records"))
	length, padding := make(map[string]int64), make(map[string]bool)
	for _, f := range ofType(log, "log_file") {
		length[f["file"].(string)] = int64(f["length_bytes"].(float64))
	}
	for _, rec := range ofType(log, "record") {
		// Up to 15 bytes behind a record's payload mean nothing.
		end := int64(rec["offset"].(float64)) + 32 + int64(rec["payload_bytes"].(float64))
		for ; end%16 != 0; end++ {
			padding[fmt.Sprint(rec["file"], end)] = true
		}
	}
	step := int64(509)
	if testing.Short() {
		step = 8111
	}
	for _, pattern := range []string{"p/*/*.seg", "wal/*.log", "MANIFEST-*", "p/*/MANIFEST-*"} {
		for _, name := range storeFiles(t, s.dir, pattern) {
			full := filepath.Join(s.dir, name)
			info, err := os.Stat(full)
			check(t, err)
			end := info.Size()
			if n, ok := length[name]; ok {
				end = n // behind it lies what was zero-filled ahead
			}
			for _, off := range offsets(end, step) {
				if padding[fmt.Sprint(name, off)] {
					continue
				}
				patch(t, full, off, func(b byte) byte { return b ^ 0x10 })
				r := pinspect(t, "verify", s.dir, "--json")
				patch(t, full, off, func(b byte) byte { return b ^ 0x10 })
				found := ofType(objects(t, r.stdout), "finding")
				named := false
				for _, f := range found {
					at := int64(f["offset"].(float64))
					named = named || f["file"] == name && (at >= 0 && at <= off || pattern != "p/*/*.seg")
				}
				if !named || r.status != exitFindings {
					t.Errorf("%s, flipped at %d of %d: status %d, found %v\n%s", name, off, end, r.status, found, r.stderr)
				}
			}
		}
	}
	clean(t, "verify", s.dir)
}

// offsets returns the first and last bytes of a file and some between.
func offsets(end, step int64) []int64 {
	list := []int64{0, 8, 13, end - 1}
	for off := int64(40); off < end; off += step {
		list = append(list, off)
	}
	return list
}

func TestVerifyReportsWhatIsMissingOrStrange(t *testing.T) {
	s := newSample(t)
	f := func(name string, damage func(dir string) string) {
		t.Run(name, func(t *testing.T) {
			dir := copyStore(t, s.dir)
			file := damage(dir)
			list := findings(t, dir)
			for _, v := range list {
				if strings.HasPrefix(v["file"].(string), file) {
					return
				}
			}
			t.Errorf("%s is not named: %v", file, list)
		})
	}
	segment := storeFiles(t, s.dir, "p/*/*.seg")[0]
	f("missing segment", func(dir string) string {
		check(t, os.Remove(filepath.Join(dir, segment)))
		return segment
	})
	f("cut segment", func(dir string) string {
		check(t, os.Truncate(filepath.Join(dir, segment), 1000))
		return segment
	})
	f("longer segment", func(dir string) string {
		data, err := os.ReadFile(filepath.Join(dir, segment))
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dir, segment), append(data, 0), 0o600))
		return segment
	})
	f("segment of another partition", func(dir string) string {
		other := storeFiles(t, s.dir, "p/000002/*.seg")[0]
		data, err := os.ReadFile(filepath.Join(dir, other))
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dir, segment), data, 0o600))
		return segment
	})
	f("missing log file", func(dir string) string {
		name := storeFiles(t, s.dir, "wal/*.log")[0]
		check(t, os.Remove(filepath.Join(dir, name)))
		return name
	})
	f("missing partition manifest", func(dir string) string {
		name := storeFiles(t, s.dir, "p/000002/MANIFEST-*")[0]
		check(t, os.Remove(filepath.Join(dir, name)))
		return "p/000002"
	})
	f("missing partition", func(dir string) string {
		check(t, os.RemoveAll(filepath.Join(dir, "p/000003")))
		return "p/000003"
	})
	f("unknown segment", func(dir string) string {
		// Committed once, and no manifest names it any more.
		var m manifest.Files
		name := storeFiles(t, dir, "p/000001/MANIFEST-*")[0]
		data, err := os.ReadFile(filepath.Join(dir, name))
		check(t, err)
		check(t, manifest.Decode(name, manifest.PartitionKind, data, &m))
		m.Runs, m.Floor = nil, 1<<40
		generation, _ := manifest.ParseName(filepath.Base(name))
		data, err = manifest.Encode(manifest.PartitionKind, generation, &m)
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		return segment
	})
	f("unknown file", func(dir string) string {
		check(t, os.WriteFile(filepath.Join(dir, "p/000001/notes.txt"), nil, 0o600))
		return "p/000001/notes.txt"
	})
	f("unknown directory", func(dir string) string {
		check(t, os.Mkdir(filepath.Join(dir, "p/old"), 0o700))
		return "p/old"
	})
	f("manifest of another partition", func(dir string) string {
		from := storeFiles(t, s.dir, "p/000001/MANIFEST-*")[0]
		to := storeFiles(t, s.dir, "p/000002/MANIFEST-*")[0]
		data, err := os.ReadFile(filepath.Join(dir, from))
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dir, to), data, 0o600))
		return to
	})
}

// What a crash leaves behind is no finding.
func TestVerifyKnowsLeftovers(t *testing.T) {
	s := newSample(t)
	for _, name := range []string{"MANIFEST-0000009999.tmp", "p/000001/" + manifest.SegmentName(1<<30), "p/000001/" + manifest.SegmentName(1<<31) + ".tmp", "wal/0000009999.tmp"} {
		check(t, os.WriteFile(filepath.Join(s.dir, name), []byte("cut off"), 0o600))
	}
	check(t, os.Mkdir(filepath.Join(s.dir, manifest.PartitionDir(4000)), 0o700))
	clean(t, "verify", s.dir)
}

// Commands that show files go on behind a damaged one, and say so.
func TestDamageIsShown(t *testing.T) {
	s := newSample(t)
	segment := storeFiles(t, s.dir, "p/*/*.seg")[0]
	check(t, os.Remove(filepath.Join(s.dir, segment)))
	others := storeFiles(t, s.dir, "p/*/*.seg")
	for _, command := range []string{"tree", "segments"} {
		r := pinspect(t, command, s.dir)
		if r.status != exitFindings || !strings.Contains(r.stdout, "! "+filepath.Join(s.dir, segment)) || !strings.Contains(r.stdout, others[0]) {
			t.Errorf("%s: status %d\n%s%s", command, r.status, r.stdout, r.stderr)
		}
	}
	// It opens without the file; info names it.
	r := pinspect(t, s.dir)
	if r.status != exitFindings || !strings.Contains(r.stdout, "! damaged") || !strings.Contains(r.stdout, filepath.Join(s.dir, segment)) {
		t.Errorf("info: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	v := objects(t, pinspect(t, s.dir, "--json").stdout)
	if len(v) != 1 || len(v[0]["damage"].([]any)) != 1 {
		t.Errorf("info --json: %v", v)
	}
	log := storeFiles(t, s.dir, "wal/*.log")[0]
	patch(t, filepath.Join(s.dir, log), 100, func(b byte) byte { return ^b })
	r = pinspect(t, "wal", s.dir)
	if r.status != exitFindings || !strings.Contains(r.stdout, "! "+filepath.Join(s.dir, log)) || !strings.Contains(r.stdout, "damaged") {
		t.Errorf("wal: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	// A store that cannot be opened: the tree is all that there is to show.
	for _, args := range [][]string{{s.dir}, {"partitions", s.dir}, {"partitions", s.dir, "--container", "cities"}} {
		r := pinspect(t, args...)
		if r.status != exitCannotOpen || !strings.Contains(r.stdout, "! "+filepath.Join(s.dir, segment)) || !strings.Contains(r.stdout, others[0]) {
			t.Errorf("%v: status %d\n%s%s", args, r.status, r.stdout, r.stderr)
		}
		v := objects(t, pinspect(t, append(args, "--json")...).stdout)
		if len(v) != 1 || v[0]["containers"].([]any)[0].(map[string]any)["partitions"] == nil {
			t.Errorf("%v: %v", args, v)
		}
	}
	for _, args := range [][]string{
		{s.dir}, {"partitions", s.dir}, {"export", s.dir, "cities"}, {"get", s.dir, "cities", `"C1"`, "x"},
		{"repair", s.dir, filepath.Join(t.TempDir(), "repaired")},
	} {
		r := pinspect(t, args...)
		if r.status != exitCannotOpen || !strings.Contains(r.stderr, filepath.Join(s.dir, log)) || !strings.Contains(r.stderr, "verify") ||
			!strings.Contains(r.stderr, "restore a backup") {
			t.Errorf("%v: status %d: %s", args, r.status, r.stderr)
		}
	}
	if says := remedy(&engine.CorruptionError{File: filepath.Join(s.dir, segment)}); !strings.HasPrefix(says, "repair writes") {
		t.Errorf("a damaged segment file: %s", says)
	}
}

// neverClosed makes a closed store one whose writer was killed, and returns
// what was noted of the last file of its log.
func neverClosed(t *testing.T, dir string) wal.Closed {
	t.Helper()
	name := storeFiles(t, dir, "MANIFEST-*")[0]
	data, err := os.ReadFile(filepath.Join(dir, name))
	check(t, err)
	var state manifest.Store
	check(t, manifest.Decode(name, manifest.StoreKind, data, &state))
	last := state.LogClosed[len(state.LogClosed)-1]
	state.Clean, state.LogClosed = false, nil
	generation, _ := manifest.ParseName(name)
	data, err = manifest.Encode(manifest.StoreKind, generation, &state)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	log := filepath.Join(dir, manifest.LogDir, wal.FileName(last.File))
	data, err = os.ReadFile(log)
	check(t, err)
	h, err := wal.DecodeFileHeader(log, data)
	check(t, err)
	check(t, os.Truncate(log, h.Made))
	return last
}

// A file that is not closed may end in a write that was cut off.
func TestTornTail(t *testing.T) {
	s := newSample(t)
	last := neverClosed(t, s.dir)
	full := filepath.Join(s.dir, "wal", fmt.Sprintf("%010d.log", last.File))
	f, err := os.OpenFile(full, os.O_RDWR, 0)
	check(t, err)
	_, err = f.WriteAt([]byte("the beginning of a record, no more"), last.Length)
	check(t, err)
	check(t, f.Close())

	files := ofType(objects(t, clean(t, "wal", s.dir, "--json")), "log_file")
	v := files[len(files)-1]
	if v["state"] != "torn" || v["length_bytes"] != float64(last.Length) || v["torn_bytes"] == 0.0 || v["torn_reason"] == "" {
		t.Errorf("%v", v)
	}
	if text := clean(t, "wal", s.dir); !strings.Contains(text, fmt.Sprintf("torn at offset %d", last.Length)) {
		t.Error(text)
	}
	if text := clean(t, "verify", s.dir); !strings.Contains(text, "torn at its end") {
		t.Error(text)
	}
	if text := clean(t, s.dir); !strings.Contains(text, "not closed") {
		t.Error(text)
	}
}

// A file of the log that later ones vouch for was sealed once: if it
// ends without, records are lost.
func TestTornFileThatOthersFollow(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "store")
	db, err := engine.Open(ctx, dir, &engine.Options{LogFileBytes: 64 << 10})
	check(t, err)
	c, err := db.CreateContainer(ctx, "docs", engine.ContainerDef{PartitionKey: []string{"/k"}})
	check(t, err)
	for i := range 22 {
		_, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"a","text":"%s"}`, i, strings.Repeat("x", 10_000)), nil)
		check(t, err)
	}
	check(t, db.Close())
	neverClosed(t, dir)
	files := ofType(objects(t, clean(t, "wal", dir, "--json")), "log_file")
	if len(files) < 4 || files[1]["state"] != "sealed" || files[2]["records"] == 0.0 {
		t.Fatalf("%v", files)
	}
	for name, length := range map[string]int64{"in a record": 30_000, "before the first record": 4096} {
		t.Run(name, func(t *testing.T) {
			dir := copyStore(t, dir)
			file := files[1]["file"].(string)
			info, err := os.Stat(filepath.Join(dir, file))
			check(t, err)
			check(t, os.Truncate(filepath.Join(dir, file), length))
			if found := findings(t, dir)[0]; found["offset"] != float64(length) || !strings.Contains(found["what"].(string), "it was made with") {
				t.Errorf("cut: %v", found)
			}
			check(t, os.Truncate(filepath.Join(dir, file), info.Size())) // zeros
			r := pinspect(t, "wal", dir, "--json")
			row := ofType(objects(t, r.stdout), "log_file")[1]
			problem, _ := row["problem"].(map[string]any)
			if r.status != exitFindings || row["state"] != "damaged" || problem["offset"] != row["length_bytes"] {
				t.Errorf("status %d: %v", r.status, row)
			}
			r = pinspect(t, "wal", dir)
			if r.status != exitFindings || !strings.Contains(r.stdout, "without a seal, but a later file vouches") {
				t.Errorf("status %d:\n%s", r.status, r.stdout)
			}
			if what := findings(t, dir)[0]["what"]; what != problem["what"] {
				t.Errorf("verify says %q, wal %q", what, problem["what"])
			}
		})
	}
}

// Documents that cannot be read leave bounds in place of counts.
func TestDamagedGroup(t *testing.T) {
	s := newSample(t)
	segment := storeFiles(t, s.dir, "p/000001/*.seg")[0]
	patch(t, filepath.Join(s.dir, segment), 100, func(b byte) byte { return b ^ 1 })
	for _, args := range [][]string{{s.dir}, {"info", s.dir, "--count"}, {"partitions", s.dir}, {"partitions", s.dir, "--top", "3"}} {
		r := pinspect(t, args...)
		if r.status != exitFindings || !strings.Contains(r.stdout, "≤") || !strings.Contains(r.stdout, "blobs") ||
			!strings.Contains(r.stderr, filepath.Join(s.dir, segment)) || !strings.Contains(r.stderr, "verify") {
			t.Errorf("%v: status %d\n%s%s", args, r.status, r.stdout, r.stderr)
		}
		r = pinspect(t, append(args, "--json")...)
		if r.status != exitFindings || !slices.ContainsFunc(objects(t, r.stdout), func(v map[string]any) bool { return v["exact"] == false }) {
			t.Errorf("%v: status %d\n%s%s", args, r.status, r.stdout, r.stderr)
		}
	}
}
