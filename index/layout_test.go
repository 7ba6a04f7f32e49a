package index

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/cleavestore/cleave/internal/binfmt"
)

// TestLayout prints indexes as docs/secondary-indexes.md describes them, by nothing that reads
// indexes. A command index has documents, with a number before them: how often those of
// the line come, in turns. An empty document, as -, is a tombstone.
func TestLayout(t *testing.T) {
	datadriven.RunTest(t, "testdata/layout.txt", func(t *testing.T, c *datadriven.TestData) string {
		var docs []string
		for line := range strings.Lines(c.Input) {
			words := strings.Fields(line)
			times, err := strconv.Atoi(words[0])
			if err != nil {
				t.Fatalf("%s: %v", c.Pos, err)
			}
			for range times {
				for _, doc := range words[1:] {
					docs = append(docs, strings.TrimPrefix(doc, "-"))
				}
			}
		}
		var policy Policy
		for _, arg := range c.CmdArgs {
			policy.Include = append(policy.Include, arg.Key)
		}
		return layoutOf(build(t, mustCompile(t, policy), docs, 1<<20, newTempFiles()))
	})
}

func layoutOf(b []byte) string {
	le := binary.LittleEndian
	f := binfmt.New(b)
	trailer := b[len(b)-128:]
	number := func(i int) int { return int(le.Uint64(trailer[24+8*i:])) }
	keys, fences, policy := number(2), number(3), number(4)
	for at := fences; at < policy; at += 16 {
		block, n := int(le.Uint64(b[at:])), int(le.Uint32(b[at+8:]))
		for _, p := range bitmapsOf(b[block : block+n]) {
			f.ZerosTo(p[0])
			bitmap(f, b[p[0]:p[0]+p[1]])
		}
		f.Heading("block")
		for f.At() < block+n {
			f.Uvarint("shared")
			f.Text(int(f.Uvarint("other")), "term")
			switch ordinals := f.Uvarint("ordinals"); {
			case ordinals == 1:
				f.Uvarint("ordinal")
			case ordinals < 512:
				f.Hex(int(f.Uvarint("bytes")), "list")
			default:
				f.Uvarint("bitmap / 32")
				f.Uvarint("bytes")
			}
		}
	}
	f.Heading("fence keys")
	f.ZerosTo(keys)
	from := keys
	for at := fences; at < policy; at += 16 {
		end := keys + int(le.Uint32(b[at+12:]))
		f.Text(end-from, "key")
		from = end
	}
	f.ZerosTo(fences)
	f.Heading("fences")
	for f.At() < policy {
		f.Uint(8, "block")
		f.Uint(4, "its bytes")
		f.Uint(4, "end of its key")
	}
	f.Heading("policy")
	f.Text(len(b)-128-policy, "JSON")
	f.Heading("trailer")
	f.Text(8, "magic")
	f.Uint(4, "version")
	f.Uint(4, "versions of the file")
	f.Hex(8, "fingerprint")
	for _, name := range []string{
		"terms", "ordinals", "fence keys", "fences", "policy", "terms of one ordinal", "terms of a list", "bytes of lists", "terms of a bitmap", "bytes of bitmaps",
	} {
		f.Uint(8, name)
	}
	f.ZerosTo(len(b))
	return f.String()
}

// bitmapsOf returns offset and length of the bitmaps of a block.
func bitmapsOf(block []byte) (list [][2]int) {
	next := func() int {
		v, n := binary.Uvarint(block)
		block = block[n:]
		return int(v)
	}
	skip := func() {
		n := next()
		block = block[n:]
	}
	for len(block) > 0 {
		next()
		skip()
		switch ordinals := next(); {
		case ordinals == 1:
			next()
		case ordinals < 512:
			skip()
		default:
			list = append(list, [2]int{32 * next(), next()})
		}
	}
	return list
}

// bitmap prints a roaring bitmap in the frozen format.
func bitmap(f *binfmt.Printer, b []byte) {
	le := binary.LittleEndian
	f.Heading("bitmap")
	n := int(le.Uint32(b[len(b)-4:]) >> 15)
	types := b[len(b)-4-n : len(b)-4]
	counts := b[len(b)-4-3*n:]
	for _, kind := range []byte{1, 3, 2} {
		for i, k := range types {
			count := int(le.Uint16(counts[2*i:]))
			switch {
			case k != kind:
			case k == 1:
				f.Hex(8192, fmt.Sprintf("bits, %d set", count+1))
			case k == 2:
				f.Hex(2*(count+1), "array")
			case k == 3:
				for range count {
					f.Uint(2, "run: first")
					f.Uint(2, "length - 1")
				}
			}
		}
	}
	f.Hex(2*n, "keys")
	f.Hex(2*n, "counts")
	f.Hex(n, "types")
	f.Hex(4, "containers")
}
