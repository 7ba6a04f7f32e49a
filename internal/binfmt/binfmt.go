// Package binfmt prints binary formats field by field, for golden text tests. It is for
// tests only.
package binfmt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strings"
)

// Printer prints bytes, a line for each field: offset, width, name, value. Integers
// are little-endian. A field that the bytes are too short for is printed as such, and
// all that follow it.
type Printer struct {
	b    []byte
	at   int
	text strings.Builder
}

// New returns a printer of b.
func New(b []byte) *Printer { return &Printer{b: b} }

// At returns the offset of the next field.
func (f *Printer) At() int { return f.at }

// Heading prints a line of its own.
func (f *Printer) Heading(format string, args ...any) { fmt.Fprintf(&f.text, format+"\n", args...) }

// String returns what was printed, and how many bytes were not.
func (f *Printer) String() string {
	if rest := len(f.b) - f.at; rest > 0 {
		return fmt.Sprintf("%s%d bytes left at %d\n", f.text.String(), rest, f.at)
	}
	return f.text.String()
}

// take returns the next n bytes, nil if there are fewer.
func (f *Printer) take(n int) []byte {
	if n < 0 || n > len(f.b)-f.at {
		f.Heading("the bytes end: %d at %d, want %d", len(f.b)-f.at, f.at, n)
		f.b = f.b[:f.at]
		return nil
	}
	f.at += n
	return f.b[f.at-n : f.at]
}

func (f *Printer) line(width int, name, format string, value any) {
	line := fmt.Sprintf("%6d %4d  %-20s "+format, f.at-width, width, name, value)
	f.text.WriteString(strings.TrimRight(line, " ") + "\n")
}

// Uint prints an integer of width bytes.
func (f *Printer) Uint(width int, name string) uint64 {
	b := make([]byte, 8)
	if copy(b, f.take(width)) == width {
		f.line(width, name, "%d", binary.LittleEndian.Uint64(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// Sum prints a CRC32C, and whether it is want.
func (f *Printer) Sum(name string, want uint32) {
	if b := f.take(4); b != nil {
		says := "fits"
		if binary.LittleEndian.Uint32(b) != want {
			says = fmt.Sprintf("%x does not fit", b)
		}
		f.line(4, name, "%s", says)
	}
}

// CRC returns the CRC32C of the bytes from one offset up to another.
func (f *Printer) CRC(from, to int) uint32 {
	return crc32.Checksum(f.b[from:max(from, min(to, len(f.b)))], crc32.MakeTable(crc32.Castagnoli))
}

// Uvarint prints an integer of varying width.
func (f *Printer) Uvarint(name string) uint64 {
	v, n := binary.Uvarint(f.b[f.at:])
	if f.take(max(n, 1)) != nil {
		f.line(n, name, "%d", v)
	}
	return v
}

// Varint prints a zigzag integer of varying width.
func (f *Printer) Varint(name string) int64 {
	v, n := binary.Varint(f.b[f.at:])
	if f.take(max(n, 1)) != nil {
		f.line(n, name, "%d", v)
	}
	return v
}

// Hex prints n bytes as digits; of more than 64 the first 32 and a checksum.
func (f *Printer) Hex(n int, name string) []byte {
	b := f.take(n)
	switch {
	case b == nil:
	case n > 64:
		f.line(n, name, "%s", fmt.Sprintf("%x… CRC32C %08x", b[:32], f.CRC(f.at-n, f.at)))
	default:
		f.line(n, name, "%x", b)
	}
	return b
}

// Text prints n bytes as a string in quotes.
func (f *Printer) Text(n int, name string) string {
	b := f.take(n)
	if b != nil {
		f.line(n, name, "%q", b)
	}
	return string(b)
}

// ZerosTo prints how many zeros lie up to an offset, and what lies there if it is not
// zeros.
func (f *Printer) ZerosTo(end int) {
	b := f.take(end - f.at)
	if rest := strings.Trim(string(b), "\x00"); rest != "" {
		f.line(len(b), "not zeros", "%x", b)
	} else if len(b) > 0 {
		f.line(len(b), "zeros", "%s", "")
	}
}

// JSON prints n bytes that are a JSON object: a line for each member, and for each element
// of one that is an array.
func (f *Printer) JSON(n int, name string) {
	b := f.take(n)
	f.line(len(b), name, "%s", "")
	object := json.NewDecoder(bytes.NewReader(b))
	_, err := object.Token()
	for err == nil && object.More() {
		var value json.RawMessage
		var list []json.RawMessage
		member, _ := object.Token()
		if err = object.Decode(&value); err != nil {
			break
		}
		if value[0] != '[' || json.Unmarshal(value, &list) != nil {
			f.Heading("%14s%v: %s", "", member, value)
			continue
		}
		f.Heading("%14s%v:", "", member)
		for _, v := range list {
			f.Heading("%16s%s", "", v)
		}
	}
	if err != nil {
		f.Heading("no JSON object: %v", err)
	}
}
