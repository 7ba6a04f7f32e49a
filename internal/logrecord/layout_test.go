package logrecord

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/cleavestore/cleave/internal/binfmt"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

// TestLayout prints the operations in log records as docs/formats.md describes them, by
// nothing that decodes them. A command is a record with the kinds on the lines of its
// input.
func TestLayout(t *testing.T) {
	pk := partmap.String("key").Encoded()
	datadriven.RunTest(t, "testdata/layout.txt", func(t *testing.T, c *datadriven.TestData) string {
		carried := c.Cmd == "carried"
		var b []byte
		for kind := range strings.Lines(c.Input) {
			k := item.Key{PK: pk, ID: []byte("id")}
			v := item.Version{Seq: 300, Modified: 1_700_000_000_000, Flags: item.Tombstone}
			switch strings.TrimSpace(kind) {
			case "put":
				v.Flags, v.Expires, v.Body = 0, v.Modified+5000, []byte(`{"id":"id"}`)
			case "delete":
			case "delete-partition":
				k.ID = nil
			case "claim":
				v.Flags, v.Body = item.Claim, []byte("holder")
			case "mark-with-rule":
				b = AppendMark(b, v.Seq, manifest.Applied{Index: 12, Time: v.Modified, TTL: lifetime.Rule{Revision: 3, Default: 5000, Own: v.Modified, Unsaid: v.Modified - 4999}})
				continue
			case "mark":
				b = AppendMark(b, v.Seq, manifest.Applied{Index: 12, Time: v.Modified})
				continue
			default:
				t.Fatalf("%s: no kind %s", c.Pos, kind)
			}
			if carried {
				b = AppendCarried(b, &k, &v)
			} else {
				b = append(AppendHead(b, &k, &v), v.Body...)
			}
		}
		return layoutOf(b, carried)
	})
}

func layoutOf(b []byte, carried bool) string {
	f := binfmt.New(b)
	for f.At() < len(b) {
		f.Heading("operation")
		if carried {
			f.Uvarint("sequence")
		}
		kind := f.Uint(1, "kind")
		if kind == 5 || kind == 6 {
			f.Uvarint("index")
			f.Uvarint("time")
			if kind == 6 {
				f.Uvarint("revision")
				f.Uvarint("default")
				f.Uvarint("own")
				f.Uvarint("unsaid")
			}
			continue
		}
		f.Text(int(f.Uvarint("key bytes")), "key")
		if kind != 3 {
			f.Text(int(f.Uvarint("id bytes")), "id")
		}
		f.Uvarint("modified")
		f.Uvarint("expires")
		if kind == 1 || kind == 4 {
			f.Text(int(f.Uvarint("body bytes")), "body")
		}
	}
	return f.String()
}
