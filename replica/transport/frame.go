package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync/atomic"
)

// Version is the version of the protocol: of what this package and package protocol encode. Both ends must
// speak the same. Each change of a format raises it; tests of both packages hold the formats of a version. So does a change of
// what replicas make of an entry, as version 3 has with the commands that a group remembers, and version 4 with
// the entries that change a default time to live.
const Version = 4

// Kind says what a frame has.
type Kind byte

// The kinds of frames. Those from FirstOfClients on belong to package protocol.
const (
	kindHello      Kind = 1
	kindWelcome    Kind = 2
	kindRefusal    Kind = 3
	kindMessage    Kind = 4
	kindPing       Kind = 5
	kindBegin      Kind = 6
	kindChunk      Kind = 7
	kindEnd        Kind = 8
	kindTaken      Kind = 9
	kindOther      Kind = 10
	FirstOfClients Kind = 16
)

// MaxFrame bounds the payload of a frame, in bytes, but for the end of a snapshot. The largest is a Raft message with
// an entry that has a command, which package group bounds: to 16 MiB, with 8 MiB of batches.
const MaxFrame = 32 << 20

// MaxSmall bounds the payload of frames that need not be larger: before the other side is
// known, and of chunks.
const maxSmall = 1 << 16

const frameHead = 4 + 1 + 4

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	// ErrFrame says that what has come is no frame of this protocol.
	ErrFrame = errors.New("bytes are no frame")
	// ErrVersion says that the other side speaks another version of the protocol.
	ErrVersion = errors.New("version of the protocol differs")
	// ErrRefused says that the other side has refused the connection, and why.
	ErrRefused = errors.New("connection was refused")
	// ErrIncarnation says that the other side is of another incarnation of the cluster. It comes
	// with an *IncarnationError.
	ErrIncarnation = errors.New("incarnation of the cluster differs")
)

// IncarnationError says of which incarnations of the cluster the two sides of a connection are.
type IncarnationError struct{ Ours, Theirs uint64 }

func (e *IncarnationError) Error() string {
	old := "this side has"
	if e.Ours > e.Theirs {
		old = "the other side has"
	}
	return fmt.Sprintf("%v: a region was promoted, and %s the description of before: ours is of incarnation %d, the other one of %d", ErrIncarnation, old, e.Ours, e.Theirs)
}

// Unwrap returns ErrIncarnation.
func (e *IncarnationError) Unwrap() error { return ErrIncarnation }

// beginFrame appends the head of a frame, which endFrame completes.
func beginFrame(dst []byte, kind Kind) (_ []byte, start int) {
	return append(dst, 0, 0, 0, 0, byte(kind), 0, 0, 0, 0), len(dst)
}

// endFrame completes the frame that starts at start and reaches to the end of dst.
func endFrame(dst []byte, start int) []byte {
	frame := dst[start:]
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-frameHead))
	binary.LittleEndian.PutUint32(frame[5:], checksum(frame[:5], frame[frameHead:]))
	return dst
}

func checksum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, head), castagnoli, payload)
}

// appendFrame appends a frame.
func appendFrame(dst []byte, kind Kind, payload []byte) []byte {
	dst, start := beginFrame(dst, kind)
	return endFrame(append(dst, payload...), start)
}

// frameReader reads frames.
type frameReader struct {
	r     *bufio.Reader
	heard atomic.Bool // bytes have come since the flag was lowered
	head  [frameHead]byte
	buf   []byte
}

func newFrameReader(r io.Reader) *frameReader {
	f := new(frameReader)
	f.r = bufio.NewReaderSize(&hearing{r, &f.heard}, 64<<10)
	return f
}

// hearing notes that bytes have come: on a slow link those of one frame come for long.
type hearing struct {
	io.Reader
	heard *atomic.Bool
}

func (h *hearing) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.heard.Store(true)
	}
	return n, err
}

// read returns the next frame, whose payload is valid until the next call. io.EOF: the
// connection ended between two frames.
func (f *frameReader) read(most int) (Kind, []byte, error) {
	if _, err := io.ReadFull(f.r, f.head[:]); err != nil {
		return 0, nil, err
	}
	n := int64(binary.LittleEndian.Uint32(f.head[:]))
	if n > int64(most) {
		return 0, nil, fmt.Errorf("%w: its length is %d, at most %d is taken", ErrFrame, n, most)
	}
	if int64(cap(f.buf)) < n || cap(f.buf) > 1<<20 && n < 64<<10 {
		f.buf = make([]byte, 0, min(n, 64<<10))
	}
	f.buf = f.buf[:0]
	for int64(len(f.buf)) < n {
		// Memory is taken as bytes come.
		if len(f.buf) == cap(f.buf) {
			f.buf = append(f.buf, make([]byte, min(int64(cap(f.buf)), n-int64(len(f.buf))))...)[:len(f.buf)]
		}
		step := f.buf[len(f.buf):min(int64(cap(f.buf)), n)]
		if _, err := io.ReadFull(f.r, step); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
		f.buf = f.buf[:len(f.buf)+len(step)]
	}
	if sum := binary.LittleEndian.Uint32(f.head[5:]); sum != checksum(f.head[:5], f.buf) {
		return 0, nil, fmt.Errorf("%w: the checksum of one of kind %d with %d bytes does not verify", ErrFrame, f.head[4], n)
	}
	return Kind(f.head[4]), f.buf, nil
}

// purpose is what a connection is for.
type purpose byte

const (
	forMessages purpose = 1
	forSnapshot purpose = 2
	forClient   purpose = 3
)

// hello is what the one who dials says first.
type hello struct {
	version     uint32
	purpose     purpose
	from, to    uint64
	incarnation uint64
}

const helloMagic = "cleavNET"

func (h *hello) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, helloMagic...), h.version)
	dst = append(dst, byte(h.purpose))
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, h.from), h.to)
	return binary.AppendUvarint(dst, h.incarnation)
}

// decodeHello decodes a hello. Of one of another version only the version is decoded.
func decodeHello(b []byte) (h hello, err error) {
	if len(b) < len(helloMagic)+4 || string(b[:len(helloMagic)]) != helloMagic {
		return h, fmt.Errorf("%w: a connection begins with a hello", ErrFrame)
	}
	h.version = binary.LittleEndian.Uint32(b[len(helloMagic):])
	if h.version != Version {
		return h, nil
	}
	r := reader{b: b[len(helloMagic)+4:]}
	h.purpose = purpose(r.byte())
	h.from, h.to, h.incarnation = r.uvarint(), r.uvarint(), r.uvarint()
	if r.bad || len(r.b) > 0 || h.purpose < forMessages || h.purpose > forClient {
		return h, fmt.Errorf("%w: hello", ErrFrame)
	}
	return h, nil
}

// reader takes fields off bytes. Once a field is missing it is bad.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}
