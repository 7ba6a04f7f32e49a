package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/cleavestore/cleave/internal/jsondoc"
)

// DefaultLineBytes is the longest line that Lines accepts unless told
// otherwise: more than any container takes as a document.
const DefaultLineBytes = 4 << 20

// ErrLineTooLong says that a line is over the limit.
var ErrLineTooLong = errors.New("line too long")

// LineError reports what is wrong in a line of an input.
type LineError struct {
	Name   string // of the input, as it was opened
	Line   int64  // from 1
	Column int    // byte of the line, from 1; 0: the whole line is meant
	Err    error
}

// Error implements error.
func (e *LineError) Error() string {
	if e.Column > 0 {
		return fmt.Sprintf("%s: line %d, column %d: %v", e.Name, e.Line, e.Column, e.Err)
	}
	return fmt.Sprintf("%s: line %d: %v", e.Name, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// Lines reads the lines of an NDJSON input. It is for one goroutine.
type Lines struct {
	name    string
	limit   int
	source  counter
	text    *bufio.Reader
	closers []func() error

	long []byte // a line that is longer than the buffer of text
	line int64
	err  error // of the opening
}

// OpenLines reads a file. limit is the longest line in bytes; 0:
// DefaultLineBytes. Close must be called. The error is that of os.Open.
func OpenLines(name string, limit int) (*Lines, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	l := NewLines(file, name, limit)
	l.closers = append(l.closers, file.Close)
	return l, nil
}

// NewLines reads r; name is for errors. What is wrong with the beginning of
// the input is reported by All. Close releases decoders, and leaves r open.
func NewLines(r io.Reader, name string, limit int) *Lines {
	if limit <= 0 {
		limit = DefaultLineBytes
	}
	l := &Lines{name: name, limit: limit, source: counter{from: r}}
	compressed := bufio.NewReaderSize(&l.source, ioBytes)
	plain, release, err := Decompress(compressed)
	if err != nil {
		l.err = err
		return l
	}
	l.text, l.closers = compressed, append(l.closers, release)
	if plain != io.Reader(compressed) {
		l.text = bufio.NewReaderSize(plain, ioBytes)
	}
	if mark, _ := l.text.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, l.err = l.text.Discard(len(byteOrderMark))
	}
	return l
}

const (
	ioBytes        = 256 << 10
	maxZstdWindow  = 128 << 20
	byteOrderMark  = "\xef\xbb\xbf"
	gzipMagic      = "\x1f\x8b"
	zstdMagic      = "\x28\xb5\x2f\xfd"
	skippableMagic = "\x2a\x4d\x18" // after a byte 0x50 to 0x5f
)

// Decompress returns a reader of the plain text of r, which may be compressed by gzip or zstd, by
// the magic number. release gives back the decoder, and leaves r open.
func Decompress(r *bufio.Reader) (plain io.Reader, release func() error, err error) {
	magic, err := r.Peek(4)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte(gzipMagic)):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, fmt.Errorf("gzip: %w", noEOF(err))
		}
		return named{"gzip", z}, z.Close, nil
	case string(magic) == zstdMagic,
		len(magic) == 4 && magic[0]&0xf0 == 0x50 && string(magic[1:]) == skippableMagic:
		// One goroutine: it is this one that reads.
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, nil, fmt.Errorf("zstd: %w", noEOF(err))
		}
		return named{"zstd", z}, func() error { z.Close(); return nil }, nil
	}
	return r, func() error { return nil }, nil
}

// All returns the lines without their ends, blank ones left out; blanks around
// a document stay. A line is valid until the next is asked for. Errors are
// *LineError. One that matches ErrLineTooLong stands for its line, and the lines
// behind it follow; any other comes as the last pair. The input is read once:
// ranging over it again goes on behind the last line.
func (l *Lines) All() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for l.err == nil {
			line, err := l.next()
			if err == io.EOF {
				return
			}
			if errors.Is(err, ErrLineTooLong) {
				if !yield(nil, &LineError{Name: l.name, Line: l.line, Err: err}) {
					return
				}
				continue
			}
			if err != nil {
				l.err = err
				break
			}
			if len(line) > 0 && !yield(line, nil) {
				return
			}
		}
		if l.err != nil {
			yield(nil, &LineError{Name: l.name, Line: max(l.line, 1), Err: l.err})
		}
	}
}

// next returns the next line, blank ones as nothing.
func (l *Lines) next() ([]byte, error) {
	line, err := l.text.ReadSlice('\n')
	if len(line) > 0 || err != io.EOF {
		l.line++
	}
	if err == bufio.ErrBufferFull {
		l.long = append(l.long[:0], line...)
		for err == bufio.ErrBufferFull && len(l.long) <= l.limit {
			line, err = l.text.ReadSlice('\n')
			l.long = append(l.long, line...)
		}
		line = l.long
		if len(line) > l.limit {
			for err == bufio.ErrBufferFull {
				_, err = l.text.ReadSlice('\n') // the rest of it
			}
		}
	}
	if err == io.EOF && len(line) > 0 {
		err = nil // the last line needs no end
	}
	trimmed := bytes.TrimSuffix(line, []byte("\n"))
	if err != nil {
		return nil, err
	}
	if len(trimmed) > l.limit {
		return nil, fmt.Errorf("%w: over %d bytes", ErrLineTooLong, l.limit)
	}
	if len(bytes.TrimSpace(trimmed)) == 0 {
		return nil, nil
	}
	return bytes.TrimSuffix(trimmed, []byte("\r")), nil
}

// Refused returns the *LineError for the line that All yielded last, which was
// refused with err: at the column that a *jsondoc.Error in it names. A *LineError
// stays what it is.
func (l *Lines) Refused(err error) error {
	if errors.As(err, new(*LineError)) {
		return err
	}
	e := &LineError{Name: l.name, Line: l.line, Err: err}
	var document *jsondoc.Error
	if errors.As(err, &document) {
		e.Column = document.Offset + 1
	}
	return e
}

// Name returns the name of the input.
func (l *Lines) Name() string { return l.name }

// Line returns the number of the line that All yielded last, from 1; 0 before.
func (l *Lines) Line() int64 { return l.line }

// Consumed returns how many bytes were taken from the input, compressed ones if
// it is compressed.
func (l *Lines) Consumed() int64 { return l.source.n }

// Close releases what reading needed. The lines it yielded are invalid.
func (l *Lines) Close() error {
	var errs []error
	for _, release := range l.closers {
		errs = append(errs, release())
	}
	l.closers = nil
	return errors.Join(errs...)
}

// counter counts the bytes that pass.
type counter struct {
	from io.Reader
	n    int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// named puts the name of the decoder before its errors.
type named struct {
	name string
	from io.Reader
}

func (d named) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%s: %w", d.name, err)
	}
	return n, err
}

// noEOF keeps the end of a broken input from looking like the end of a whole
// one.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
