package main

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/manifest"
)

// TestInfoOfWhatIsKept: info says what containers keep that is dead, which files were replaced and are
// there yet, and how many files it has open and mapped.
func TestInfoOfWhatIsKept(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db, err := engine.Open(ctx, dir, nil)
	check(t, err)
	c, err := db.CreateContainer(ctx, "kept", engine.ContainerDef{PartitionKey: []string{"/k"}, ChangeRetention: time.Hour})
	check(t, err)
	for n := range 2 {
		_, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"1","k":"a","n":%d}`, n), nil)
		check(t, err)
	}
	check(t, db.Compact(ctx))
	check(t, db.Close())

	// What a process leaves that is killed behind a compaction.
	f, err := layout.Open(dir)
	check(t, err)
	defer f.Close()
	l, err := f.ReadLayout(ctx, layout.Properties, nil)
	check(t, err)
	p := l.Containers[0].Partitions[0]
	copied, err := f.FS.Create(path.Join(p.Dir, manifest.SegmentName(99)))
	check(t, err)
	_, err = copied.WriteAt(make([]byte, 5000), 0)
	check(t, err)
	check(t, copied.Close())
	var files manifest.Files
	of := manifest.NewDir(f.FS, p.Dir, manifest.PartitionKind)
	check(t, of.Load(&files))
	files.Obsolete = []uint64{99, 100}
	check(t, of.Store(&files))

	v := objects(t, clean(t, "info", dir, "--json"))[0]
	holders := fmt.Sprint(v["holders"])
	process := v["process"].(map[string]any)
	if v["obsolete_bytes"] != 5000.0 || !strings.Contains(holders, "change retention") || !strings.Contains(holders, "container:kept") {
		t.Errorf("obsolete %v, holders %v", v["obsolete_bytes"], holders)
	}
	for name, least := range map[string]float64{"open_files": 0, "mapped_files": 0, "max_open_files": 1, "max_mapped_files": 1} {
		if n, ok := process[name].(float64); !ok || n < least {
			t.Errorf("%s: %v", name, process[name])
		}
	}
	text := clean(t, "info", dir)
	for _, want := range []string{"the change retention of container kept holds versions", humanize.Bytes(5000) + " in files that compactions have replaced", "this process has"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
