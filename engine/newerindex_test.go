package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// TestIndexOfNewerFormat: an index that a newer program has written counts as none. Queries
// read the documents, and a compaction makes the index anew.
func TestIndexOfNewerFormat(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem()
	opts := testOptions(mem)
	db, c := openStore(t, opts, ContainerDef{PartitionKey: []string{"/k"}, Index: IndexAll()})
	write := func() {
		for i := range 100 {
			must(t, second(c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"a","n":%d}`, i, i%5), nil)))
		}
		must(t, db.Flush(ctx))
	}
	write()
	must(t, db.Close())
	mem = mem.Kill()
	raiseIndexes(t, mem)
	opts.fs = mem
	db, err := Open(ctx, "store", opts)
	must(t, err)
	defer db.Close()
	c, err = db.Container("c")
	must(t, err)
	count := func() {
		t.Helper()
		n, err := c.Count(ctx, AllPartitions(), Eq("/n", 3))
		if err != nil || n != 20 {
			t.Errorf("%d documents, %v", n, err)
		}
	}
	count()
	write()
	if err := db.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	count()
	checkVerified(t, db)
}

// raiseIndexes gives the indexes of all segment files a format of the future, and makes the
// checksums right that cover it: of the page, of the section of checksums, of the footer, and
// of the footer in the manifest.
func raiseIndexes(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	le, castagnoli := binary.LittleEndian, crc32.MakeTable(crc32.Castagnoli)
	raised := 0
	for _, name := range mem.Names() {
		if ok, _ := path.Match("p/*/*.seg", name); !ok {
			continue
		}
		b, err := mem.ReadFile(name)
		must(t, err)
		foot := b[len(b)-512:]
		f, err := segment.DecodeFooter(name, foot, int64(len(b)))
		must(t, err)
		sections := make(map[segment.SectionKind]segment.Section)
		for i, s := range f.Sections {
			sections[s.Kind] = s
			if s.Kind != segment.SectionChecksums {
				continue
			}
			x := sections[segment.SectionIndex]
			version := x.Off + x.Len - 128 + 8
			le.PutUint32(b[version:], 1000)
			first := sections[segment.SectionPartitions].Off
			page := (version - first) / 4096
			le.PutUint32(b[s.Off+4*page:], crc32.Checksum(b[first+4096*page:min(first+4096*(page+1), s.Off)], castagnoli))
			le.PutUint32(foot[48+24*i+4:], crc32.Checksum(b[s.Off:s.Off+s.Len], castagnoli))
		}
		sum := crc32.Checksum(foot[:508], castagnoli)
		le.PutUint32(foot[508:], sum)
		must(t, mem.WriteFile(name, b))
		for _, manifest := range mem.Names() {
			if path.Dir(manifest) != path.Dir(name) || !strings.HasPrefix(path.Base(manifest), "MANIFEST-") {
				continue
			}
			text, err := mem.ReadFile(manifest)
			must(t, err)
			line, body, _ := bytes.Cut(text, []byte("\n"))
			body = bytes.Replace(body, fmt.Append(nil, f.CRC), fmt.Append(nil, sum), 1)
			words := strings.Fields(string(line))
			head := strings.Join(words[:len(words)-2], " ") // without the checksum and the length
			whole := crc32.Update(crc32.Checksum([]byte(head), castagnoli), castagnoli, body)
			must(t, mem.WriteFile(manifest, fmt.Appendf(nil, "%s %08x %d\n%s", head, whole, len(body), body)))
		}
		raised++
	}
	if raised == 0 {
		t.Fatal("no segment file")
	}
}
