package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/cleavestore/cleave/internal/binfmt"
)

// TestLayout prints the files of small logs as docs/wal.md describes them, by nothing
// that reads logs. A command log has a call on each line of its input: its name, then
// stream, count or highest sequence, and payload.
func TestLayout(t *testing.T) {
	datadriven.RunTest(t, "testdata/layout.txt", func(t *testing.T, c *datadriven.TestData) string {
		fs := newMem(t)
		l, _ := mustOpen(t, fs, new(State), smallOptions(1))
		for line := range strings.Lines(c.Input) {
			words := append(strings.Fields(line), "", "", "")
			stream, _ := strconv.Atoi(words[1])
			n, _ := strconv.Atoi(words[2])
			payload := []byte(words[3])
			var err error
			switch words[0] {
			case "write":
				_, _, err = l.Append(Stream(stream), TypeWrite, uint32(n), payload, nil)
			case "fence":
				_, _, err = l.Append(Stream(stream), TypeFence, uint32(n), payload, nil)
			case "carried":
				_, _, err = l.AppendCarried(Stream(stream), uint64(n), payload)
			case "sync":
				err = l.Sync()
			case "vouch":
				err = l.Vouch()
			case "rotate":
				err = l.Rotate()
			default:
				t.Fatalf("%s: no call %s", c.Pos, words[0])
			}
			must(t, err)
		}
		must(t, l.Sync())
		names, err := fs.List(logDir)
		must(t, err)
		var b strings.Builder
		for _, name := range names {
			data, err := fs.ReadFile(path.Join(logDir, name))
			must(t, err)
			fmt.Fprintf(&b, "%s\n%s", name, layoutOf(data))
		}
		_, err = l.Close()
		must(t, err)
		return b.String()
	})
}

func layoutOf(data []byte) string {
	f := binfmt.New(data)
	f.Text(8, "magic")
	f.Uint(4, "version")
	f.Uint(4, "cipher")
	f.Uint(8, "number")
	id := f.Hex(8, "id")
	f.Hex(16, "store id")
	f.Uint(8, "made")
	f.ZerosTo(60)
	f.Sum("checksum", f.CRC(0, 60))
	for {
		at := f.At()
		if len(data)-at < 32 || bytes.Equal(data[at:at+32], make([]byte, 32)) {
			f.ZerosTo(len(data))
			return f.String()
		}
		seed := crc32.Checksum(binary.LittleEndian.AppendUint64(id[:8:8], uint64(at)), castagnoli)
		length := int(binary.LittleEndian.Uint32(data[at+8:]))
		f.Heading("record")
		f.Sum("header sum", crc32.Update(seed, castagnoli, data[at+4:at+32]))
		f.Sum("payload sum", f.CRC(at+32, at+length)^seed)
		f.Uint(4, "length")
		f.Uint(4, "stream")
		f.Uint(8, "seq")
		f.Uint(1, "type")
		f.Uint(3, "count")
		f.Uint(4, "mark")
		if at+24 < len(data) && data[at+24] == 5 {
			f.Uint(8, "records before it")
			f.Uint(8, "highest sequence")
			f.Uint(8, "its offset")
		} else {
			f.Text(length-32, "payload")
		}
		f.ZerosTo((f.At() + 15) &^ 15)
	}
}
