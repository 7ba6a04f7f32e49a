package manifest

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/cleavestore/cleave/internal/binfmt"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

// TestLayout prints manifest files, with every field that there is. docs/formats.md
// describes them.
func TestLayout(t *testing.T) {
	fsys := vfs.NewMem()
	d := NewDir(fsys, ".", StoreKind)
	d.FoldFrom(1)
	s := fullStore()
	datadriven.RunTest(t, "testdata/layout.txt", func(t *testing.T, c *datadriven.TestData) string {
		switch c.Cmd {
		case "store":
			mustStore(t, d, s)
		case "edit":
			e := s.Edit()
			e.LastSeq, e.NextContainer, e.NextPartition = e.LastSeq+1, e.NextContainer+1, e.NextPartition+1
			e.DropContainers, e.DropPartitions = []uint32{3}, []uint32{5}
			e.Containers = []Container{{ID: 4, Name: "new", Kind: "json", Levels: 1}}
			e.Partitions = []Partition{{ID: 7, Container: 4, Min: Bytes{}, Max: Bytes{0xFF}}}
			if err := d.Edit(s, e); err != nil {
				t.Fatal(err)
			}
		case "limits":
			s.Containers[0].MaxLogicalThroughput = 2.5
			s.Containers[0].KeyLimits = []KeyLimit{{Key: Bytes{3, 3}, Throughput: -1}, {Key: Bytes{8, 'a', 255, 1}, Throughput: 50, Bytes: 1 << 30}}
			mustStore(t, d, s)
		case "absent":
			s.Partitions[0].Absent = true
			mustStore(t, d, s)
		case "partition":
			fsys = vfs.NewMem()
			mustStore(t, NewDir(fsys, ".", PartitionKind), fullFiles())
		default:
			t.Fatalf("%s: no command %s", c.Pos, c.Cmd)
		}
		names, err := fsys.List(".")
		if err != nil {
			t.Fatal(err)
		}
		name := names[len(names)-1]
		data, err := fsys.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return name + "\n" + layoutOf(data)
	})
}

func layoutOf(data []byte) string {
	line, body, _ := bytes.Cut(data, []byte("\n"))
	words := strings.Split(string(line), " ")
	head := strings.Join(words[:len(words)-2], " ")
	sum := fmt.Sprintf("%08x", crc32.Update(crc32.Checksum([]byte(head), castagnoli), castagnoli, body))
	f := binfmt.New(data)
	f.Text(len(head)+1, "head")
	f.Heading("%13sthe checksum that follows fits: %t", "", words[len(words)-2] == sum)
	f.Text(len(sum)+1, "checksum")
	f.Text(len(line)+1-f.At(), "length")
	f.JSON(len(body), "JSON")
	return f.String()
}

// fullStore is a store with each field of a manifest set, and with so many containers
// that a small change of it is an edit.
func fullStore() *Store {
	s := sample(7)
	s.Clean, s.NextContainer, s.NextPartition = true, 4, 7
	s.LogClosed = []wal.Closed{{File: 3, Length: 4096}, {File: 4, Length: 64}}
	s.Containers[0] = Container{
		ID: 1, Name: "orders", PartitionKey: []string{"/a", "/b"}, Levels: 2, Kind: "json", Compression: "default",
		MaxItemBytes: 2 << 20, MaxLogicalKey: 20 << 30, MaxBatchOps: 50, MaxBatchBytes: 1 << 20, DefaultTTL: -1,
		Throughput: 400.5, MaxThroughput: 5000, NoBurst: true, Replicated: true, CopyOf: 2, Copied: true, ChangeRetention: 60_000,
		Index: &IndexPolicy{Include: []string{"/*"}, Exclude: []string{"/x/?"}}, UniqueKeys: [][]string{{"/mail"}, {"/a", "/b"}},
	}
	s.Containers = append(s.Containers,
		Container{ID: 2, Name: "days", Synthetic: &Synthetic{Join: []string{"/day"}, Suffixes: 4, SuffixOf: "/id"}, Levels: 1, Kind: "json", Compression: "none"},
		Container{ID: 3, Name: "blobs", PartitionKey: []string{"/k"}, Levels: 1, Kind: "opaque", Compression: "best"})
	s.Partitions = []Partition{
		{ID: 1, Container: 1, Min: Bytes{}, Max: Bytes{0xFF}, Share: 1.5},
		{ID: 3, Container: 2, Min: Bytes{}, Max: Bytes{0x20}, Parents: []uint32{2}},
		{ID: 4, Container: 2, Min: Bytes{0x20}, Max: Bytes{0xFF}, Parents: []uint32{2}},
		{ID: 5, Container: 3, Min: Bytes{}, Max: Bytes{0xFF}},
	}
	s.Intents = []Intent{{Container: 1, Kind: "split", Parents: []uint32{1}, Children: []Partition{{ID: 6, Container: 1, Min: Bytes{}, Max: Bytes{0xFF}}}}}
	s.History = []Reshape{{Container: 2, Kind: "split", Time: 1000, Parents: []Former{{ID: 2, Min: Bytes{}, Max: Bytes{0xFF}}}, Children: []uint32{3, 4}}}
	s.Marks = []Mark{{Time: 1, Seq: 1}, {Time: 2, Seq: 2}}
	return s
}

func fullFiles() *Files {
	f := sampleFiles()
	f.StoreID, f.ChangeFloor = ID{1, 2, 3, 15: 255}, 4
	f.Runs[0].Shadowed = 2
	f.Runs[0].Files[0].FooterCRC, f.Runs[1].Files[0].FooterCRC = 0xABCD, 0xABCD
	f.Runs[0].Files[1].Part = &Part{Items: 3, RawBytes: 400, Bytes: 120}
	return f
}
