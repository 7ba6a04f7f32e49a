package backup

import (
	"encoding/binary"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/cleavestore/cleave/internal/binfmt"
)

// TestLayout prints backups as docs/formats.md describes them, by nothing that reads
// backups.
func TestLayout(t *testing.T) {
	full, next, _ := fullAndNext(t)
	datadriven.RunTest(t, "testdata/layout.txt", func(t *testing.T, c *datadriven.TestData) string {
		if c.Cmd == "full" {
			return layoutOf(full)
		}
		return layoutOf(next)
	})
}

func layoutOf(data []byte) string {
	f := binfmt.New(data)
	f.Text(8, "magic")
	f.Uint(4, "version")
	id := f.Hex(16, "id")
	f.ZerosTo(36)
	f.Sum("sum", f.CRC(0, 36))
	var sums []byte
	for blocks := 0; f.At() < len(data); blocks++ {
		at := f.At()
		f.Heading("block")
		kind := f.Uint(1, "kind")
		f.ZerosTo(at + 4)
		n := int(f.Uint(4, "length"))
		place := append(binary.LittleEndian.AppendUint64(append([]byte(nil), id...), uint64(at)), data[at:at+8]...)
		f.Sum("sum", crcOf(append(place, data[at+12:at+12+n]...)))
		switch kind {
		case 1:
			f.JSON(n, "catalog")
		case 2:
			f.Uint(4, "stream")
			f.Uint(8, "highest")
			f.Text(n-12, "record")
		case 3:
			f.Text(n, "data")
		case 4:
			f.Uint(8, "length of the stream")
			f.Uint(8, "blocks before")
			f.Sum("sum of their sums", crcOf(sums))
		}
		sums = append(sums, data[at+8:at+12]...)
	}
	return f.String()
}
