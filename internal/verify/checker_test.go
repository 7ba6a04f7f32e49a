package verify

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

var storeID = manifest.ID{1}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// store returns the files of a store without partitions, with these records in its log.
func store(t *testing.T, payloads ...[]byte) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	must(t, mem.Mkdir(manifest.LogDir))
	must(t, mem.Mkdir(manifest.PartitionsDir))
	o := wal.Options{StoreID: storeID}
	none, err := wal.Recover(t.Context(), mem, manifest.LogDir, wal.State{}, o, nil)
	must(t, err)
	log, err := wal.Create(mem, manifest.LogDir, none, 10, o)
	must(t, err)
	for _, p := range payloads {
		_, _, err := log.AppendCarried(1, 5, p)
		must(t, err)
	}
	closed, err := log.Close()
	must(t, err)
	s := manifest.Store{Head: manifest.Head{StoreID: storeID, SeqLimit: 10, NextPartition: 2, LogFirst: 1, LogClosed: []wal.Closed{closed}}}
	must(t, manifest.NewDir(mem, ".", manifest.StoreKind).Store(&s))
	return mem
}

// findings returns what a check of manifests and log finds in a store.
func findings(t *testing.T, mem *vfs.Mem) (found []string) {
	c := New(t.Context(), mem, false, func(file string, _ int64, what string) { found = append(found, fmt.Sprint(file, ": ", what)) })
	c.Manifests()
	c.Log(wal.Options{StoreID: storeID})
	return found
}

// TestFindings: a store as it should be has no findings, and each fault has one that names
// its file.
func TestFindings(t *testing.T) {
	right := logrecord.AppendCarried(nil, &item.Key{PK: partmap.String("key").Encoded(), ID: []byte("id")}, &item.Version{Seq: 5, Modified: 1, Body: []byte("body")})
	logFile := path.Join(manifest.LogDir, wal.FileName(1))
	change := func(mem *vfs.Mem, name string, change func([]byte)) {
		data, err := vfs.ReadFile(mem, name, 1<<30)
		must(t, err)
		change(data)
		must(t, mem.WriteFile(name, data))
	}
	for name, test := range map[string]struct {
		records [][]byte
		plant   func(mem *vfs.Mem)
		want    string // file; "": nothing is wrong
	}{
		"as it is":            {[][]byte{right}, func(*vfs.Mem) {}, ""},
		"a partition's crash": {nil, func(mem *vfs.Mem) { must(t, mem.Mkdir(manifest.PartitionDir(7))) }, ""},
		"an unknown name":     {nil, func(mem *vfs.Mem) { must(t, mem.Mkdir("p/photos")) }, "p/photos"},
		"no operation":        {[][]byte{right, []byte("record")}, func(*vfs.Mem) {}, logFile},
		"a damaged record": {[][]byte{right}, func(mem *vfs.Mem) {
			change(mem, logFile, func(b []byte) { b[bytes.Index(b, []byte("body"))] ^= 1 })
		}, logFile},
		"a damaged manifest": {nil, func(mem *vfs.Mem) {
			change(mem, manifest.Name(1), func(b []byte) { b[len(b)-3] ^= 1 })
		}, manifest.Name(1)},
	} {
		mem := store(t, test.records...)
		test.plant(mem)
		found := findings(t, mem)
		if test.want == "" && len(found) > 0 || test.want != "" && (len(found) != 1 || !strings.Contains(found[0], test.want)) {
			t.Errorf("%s: %q, want %q", name, found, test.want)
		}
	}
}

// renamedFS has no log file at its first opens.
type renamedFS struct {
	vfs.FS
	opens, missing int
}

func (f *renamedFS) Open(name string) (vfs.File, error) {
	if path.Dir(name) == manifest.LogDir {
		if f.opens++; f.opens <= f.missing {
			name += ".gone"
		}
	}
	return f.FS.Open(name)
}

// TestLogLooksTwice: what a second look at the log does not find is no damage.
func TestLogLooksTwice(t *testing.T) {
	for missing, want := range []int{0, 0, 1} {
		fs, found := &renamedFS{FS: store(t), missing: missing}, 0
		c := New(t.Context(), fs, false, func(string, int64, string) { found++ })
		c.Log(wal.Options{StoreID: storeID})
		if found != want {
			t.Errorf("missing at %d opens: %d findings, want %d", missing, found, want)
		}
	}
}
