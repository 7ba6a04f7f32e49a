package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

func gzipped(t testing.TB, text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstandard(t testing.TB, text string) string {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return string(w.EncodeAll([]byte(text), nil))
}

// read collects lines as "number:text".
func read(l *Lines) (lines []string, err error) {
	for line, err := range l.All() {
		if err != nil {
			return lines, err
		}
		lines = append(lines, fmt.Sprintf("%d:%s", l.Line(), line))
	}
	return lines, nil
}

// A refused line is named with the byte at which the trouble is.
func TestRefusedLine(t *testing.T) {
	l := NewLines(strings.NewReader("{}\n  {\"a\":x}\n"), "f", 0)
	n := 0
	for line, err := range l.All() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n < 2 {
			continue
		}
		err := l.Refused(fmt.Errorf("document: %w", &jsondoc.Error{Offset: bytes.IndexByte(line, 'x'), Kind: jsondoc.ErrSyntax, Msg: "m"}))
		if !strings.HasPrefix(err.Error(), "f: line 2, column 8: ") {
			t.Error(err)
		}
		if err := l.Refused(io.ErrClosedPipe); !strings.HasPrefix(err.Error(), "f: line 2: ") {
			t.Error(err)
		}
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 3*ioBytes)
	f := func(text string, want ...string) {
		t.Helper()
		skippable := "\x51\x2a\x4d\x18\x03\x00\x00\x00abc"
		for name, input := range map[string]string{
			"plain":      text,
			"gzip":       gzipped(t, text),
			"members":    gzipped(t, text[:len(text)/2]) + gzipped(t, text[len(text)/2:]),
			"zstd":       zstandard(t, text),
			"frames":     zstandard(t, text[:len(text)/2]) + zstandard(t, text[len(text)/2:]),
			"skip frame": skippable + zstandard(t, text),
		} {
			if name == "plain" && text == "" {
				continue
			}
			for _, r := range []io.Reader{strings.NewReader(input), iotest.OneByteReader(strings.NewReader(input)), iotest.DataErrReader(strings.NewReader(input))} {
				l := NewLines(r, "in", 0)
				got, err := read(l)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%s: %v: got %.200q, want %.200q", name, err, got, want)
				}
				if l.Consumed() != int64(len(input)) {
					t.Errorf("%s: %d bytes consumed of %d", name, l.Consumed(), len(input))
				}
				if err := l.Close(); err != nil {
					t.Errorf("%s: close: %v", name, err)
				}
			}
		}
	}
	f("")
	f("\n\n \n")
	f(`{"a":1}`, `1:{"a":1}`)
	f("one\ntwo\n", "1:one", "2:two")
	f("one\r\n\r\n  two \nthree", "1:one", "3:  two ", "4:three")
	f("\xef\xbb\xbfone\n\xef\xbb\xbftwo", "1:one", "2:\xef\xbb\xbftwo")
	f("a\n"+long+"\nb\n", "1:a", "2:"+long, "3:b")
	f(long, "1:"+long)
}

func TestLinesErrors(t *testing.T) {
	text := strings.Repeat("{\"a\":1}\n", 100_000)
	damaged := func(s string) string {
		b := []byte(s)
		for i := len(b) - 40; i < len(b)-20; i++ {
			b[i] ^= 0xff
		}
		return string(b)
	}
	noise := make([]string, 0, 4000)
	g := newGenerator(t, Params{Shape: "ycsb", LogicalPartitions: 1})
	for doc := range g.All(0, 500) {
		noise = append(noise, string(doc))
	}
	body := strings.Join(noise, "\n")
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		input io.Reader
		min   int64 // line of the error at least
		cause error
		text  string
	}{
		"gzip cut":         {strings.NewReader(gzipped(t, text)[:200]), 1, io.ErrUnexpectedEOF, "gzip: "},
		"gzip cut in head": {strings.NewReader("\x1f\x8b\x08"), 1, io.ErrUnexpectedEOF, "gzip: "},
		"gzip no gzip":     {strings.NewReader("\x1f\x8bfoo and bar and more of it"), 1, gzip.ErrHeader, "gzip: "},
		"gzip damaged":     {strings.NewReader(damaged(gzipped(t, body))), 1, nil, "gzip: "},
		"zstd cut":         {strings.NewReader(zstandard(t, body)[:100_000]), 1, io.ErrUnexpectedEOF, "zstd: "},
		"zstd damaged":     {strings.NewReader(damaged(zstandard(t, body))), 1, nil, "zstd: "},
		"zstd no zstd":     {strings.NewReader(zstdMagic + "\xff\xff\xff\xff\xff\xff\xff\xff"), 1, nil, "zstd: "},
		"reader fails":     {io.MultiReader(strings.NewReader("a\nb\nc"), iotest.ErrReader(boom)), 3, boom, "line 3: boom"},
		"fails at once":    {iotest.ErrReader(boom), 1, boom, "line 1: boom"},
		"line too long":    {strings.NewReader("a\n" + strings.Repeat("x", 5_000_000) + "\nc"), 2, ErrLineTooLong, "line 2: line too long: over 4194304 bytes"},
		"last too long":    {strings.NewReader(strings.Repeat("x", DefaultLineBytes+1)), 1, ErrLineTooLong, ""},
	} {
		l := NewLines(c.input, "file.x", 0)
		_, err := read(l)
		var lineErr *LineError
		if !errors.As(err, &lineErr) {
			t.Errorf("%s: no LineError: %v", name, err)
			continue
		}
		if lineErr.Name != "file.x" || lineErr.Line < c.min || !strings.HasPrefix(err.Error(), "file.x: line ") || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
		if c.cause != nil && !errors.Is(err, c.cause) {
			t.Errorf("%s: %v is no %v", name, err, c.cause)
		}
		if _, again := read(l); again == nil && c.cause != ErrLineTooLong {
			t.Errorf("%s: the error is forgotten", name)
		}
		l.Close()
	}
}

func TestLineLimit(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
	}{{"12345\n", true}, {"12345", true}, {"123456\n", false}, {"123456", false}} {
		if _, err := read(NewLines(strings.NewReader(c.text), "in", 5)); (err == nil) != c.ok {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

// A line that is too long stands for itself: those behind it follow.
func TestLineTooLong(t *testing.T) {
	l := NewLines(strings.NewReader("a\n"+strings.Repeat("x", DefaultLineBytes+3*ioBytes)+"\nb\n123"), "in", 0)
	var got []string
	for line, err := range l.All() {
		if err != nil {
			if l.Refused(err) != err || !strings.HasPrefix(err.Error(), "in: line 2: ") {
				t.Error(err)
			}
			line = []byte("error")
		}
		got = append(got, string(line))
	}
	if !slices.Equal(got, []string{"a", "error", "b", "123"}) {
		t.Errorf("%q", got)
	}
}

// A loop that is left early and entered again goes on where it was.
func TestLinesGoOn(t *testing.T) {
	l := NewLines(strings.NewReader("a\nb\nc\n"), "in", 0)
	for line := range l.All() {
		if string(line) != "a" || l.Line() != 1 {
			t.Fatalf("line %d: %s", l.Line(), line)
		}
		break
	}
	if got, err := read(l); err != nil || !slices.Equal(got, []string{"2:b", "3:c"}) {
		t.Errorf("%v: %q", err, got)
	}
	if got, err := read(l); err != nil || len(got) != 0 {
		t.Errorf("behind the end: %v: %q", err, got)
	}
}

func TestOpenLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "data.ndjson.zst")
	if _, err := OpenLines(name, 0); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(name, []byte(zstandard(t, "a\nb\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLines(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := read(l); err != nil || !slices.Equal(got, []string{"1:a", "2:b"}) || l.Name() != name {
		t.Errorf("%v: %q", err, got)
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Errorf("close: %v", err)
	}
	dir, err := OpenLines(t.TempDir(), 0)
	if err != nil {
		return
	}
	defer dir.Close()
	if _, err := read(dir); err == nil {
		t.Error("a directory reads like an empty file")
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\n"))
	f.Add([]byte(gzipped(f, "a\nb\n")))
	f.Add([]byte(zstandard(f, "a\nb\n")))
	f.Fuzz(func(t *testing.T, input []byte) {
		l := NewLines(bytes.NewReader(input), "in", 1000)
		defer l.Close()
		lines := 0
		for line, err := range l.All() {
			if err != nil {
				return
			}
			if len(line) == 0 || len(line) > 1000 || bytes.IndexByte(line, '\n') >= 0 {
				t.Fatalf("line %d: %q", l.Line(), line)
			}
			if lines++; lines > 10_000 {
				return // a small input can hold a very long text
			}
		}
	})
}

func BenchmarkLines(b *testing.B) {
	g := newGenerator(b, Params{Shape: "food", Seed: 1, LogicalPartitions: 100})
	var text []byte
	for doc := range g.All(0, 5000) {
		text = append(append(text, doc...), '\n')
	}
	for name, input := range map[string]string{"plain": string(text), "gzip": gzipped(b, string(text)), "zstd": zstandard(b, string(text))} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				l := NewLines(strings.NewReader(input), "in", 0)
				for _, err := range l.All() {
					if err != nil {
						b.Fatal(err)
					}
				}
				l.Close()
			}
		})
	}
}
