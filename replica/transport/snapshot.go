package transport

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// streamSilence is how long a side of a snapshot waits for the other one.
const streamSilence = 30 * time.Second

// maxEnd bounds the end of a snapshot, in bytes. It has the state of the group, in which each command that is remembered
// takes some 20: those of the newest 20,000 entries. A group that was made by an early version has no other bound, and an entry may have
// thousands.
const maxEnd = 256 << 20

// Incoming is a snapshot that comes. Read returns its stream; when that has ended, Message
// returns the MsgSnap.
type Incoming struct {
	Node     uint64 // that sends it
	Group    uint64
	From, To uint64 // replicas

	raw     net.Conn
	in      *frameReader
	chunk   []byte
	message *pb.Message
}

// Read implements io.Reader. io.EOF: the stream has come whole.
func (s *Incoming) Read(p []byte) (int, error) {
	for len(s.chunk) == 0 {
		if s.message != nil {
			return 0, io.EOF
		}
		if err := s.raw.SetReadDeadline(time.Now().Add(streamSilence)); err != nil {
			return 0, err
		}
		kind, payload, err := s.in.read(maxEnd)
		switch {
		case err == io.EOF:
			return 0, io.ErrUnexpectedEOF
		case err != nil:
			return 0, err
		case kind != kindEnd && len(payload) > maxSmall:
			return 0, fmt.Errorf("%w: one of kind %d has %d bytes", ErrFrame, kind, len(payload))
		case kind == kindChunk:
			s.chunk = payload
		case kind == kindEnd:
			if s.message, err = s.decodeEnd(payload); err != nil {
				return 0, err
			}
		case kind == kindRefusal:
			return 0, fmt.Errorf("%w: %s", ErrRefused, printable(payload))
		default:
			return 0, fmt.Errorf("%w: kind %d is not for a snapshot", ErrFrame, kind)
		}
	}
	n := copy(p, s.chunk)
	s.chunk = s.chunk[n:]
	return n, nil
}

// Message returns the MsgSnap, once Read has returned io.EOF.
func (s *Incoming) Message() *pb.Message { return s.message }

func (s *Incoming) decodeEnd(b []byte) (*pb.Message, error) {
	r := reader{b: b}
	group := r.uvarint()
	m := new(pb.Message)
	if r.bad || group != s.Group || proto.Unmarshal(r.b, m) != nil || m.GetType() != pb.MsgSnap || m.GetFrom() != s.From || m.GetTo() != s.To || m.GetSnapshot().GetMetadata() == nil {
		return nil, fmt.Errorf("%w: the end of a snapshot of group %d", ErrFrame, s.Group)
	}
	return m, nil
}

// takeSnapshot gives the Handler a snapshot.
func (t *Transport) takeSnapshot(raw *tls.Conn, in *frameReader, from uint64) {
	if raw.SetDeadline(time.Now().Add(streamSilence)) != nil {
		return
	}
	kind, payload, err := in.read(maxSmall)
	if err != nil || kind != kindBegin {
		return
	}
	r := reader{b: payload}
	s := &Incoming{Node: from, Group: r.uvarint(), From: r.uvarint(), To: r.uvarint(), raw: raw, in: in}
	if r.bad || len(r.b) > 0 {
		return
	}
	if raw.SetDeadline(time.Time{}) != nil {
		return
	}
	answer := appendFrame(nil, kindTaken, nil)
	if err := t.cfg.Handler.Snapshot(t.ctx, s); err != nil {
		answer = appendFrame(nil, kindRefusal, []byte(err.Error()))
	}
	if raw.SetWriteDeadline(time.Now().Add(streamSilence)) == nil {
		_, _ = raw.Write(answer) // the sender takes an end for a refusal
	}
}

// SendSnapshot sends a snapshot of a group to a node and returns when it has come whole.
// write writes its stream and returns the MsgSnap that ends it.
func (t *Transport) SendSnapshot(ctx context.Context, node, group, from, to uint64, write func(io.Writer) (*pb.Message, error)) (err error) {
	p := t.peer(node)
	if p == nil {
		return fmt.Errorf("node %d is not known", node)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	raw, in, err := dial(ctx, t.cfg.Dial, t.cfg.Credentials, p.address(), hello{purpose: forSnapshot, from: t.cfg.Node, to: node, incarnation: t.cfg.Incarnation})
	if err != nil {
		return err
	}
	defer raw.NetConn().Close()
	defer context.AfterFunc(ctx, func() { raw.NetConn().Close() })()
	defer func() {
		if err != nil && !errors.Is(err, ErrRefused) && raw.SetReadDeadline(time.Now().Add(handshakeTime)) == nil && ctx.Err() == nil {
			// The other side may have said why it takes no more.
			if why := welcomed(in); errors.Is(why, ErrRefused) {
				err = why
			}
		}
		if err != nil {
			err = fmt.Errorf("snapshot of group %d to node %d: %w", group, node, err)
		}
	}()
	w := &chunkWriter{raw: raw}
	if err = w.frame(kindBegin, binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, group), from), to)); err != nil {
		return err
	}
	m, err := write(w)
	if err == nil {
		err = w.flush()
	} else if w.err == nil {
		raw.NetConn().Close() // the stream has ended early, and the other side need not wait
	}
	if err != nil {
		return err
	}
	end, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	if err = w.frame(kindEnd, append(binary.AppendUvarint(nil, group), end...)); err != nil {
		return err
	}
	// The other side may have to wait for its disk.
	if err = raw.SetReadDeadline(time.Now().Add(streamSilence)); err != nil {
		return err
	}
	return welcomed(in)
}

// chunkWriter writes frames, and a stream as chunks.
type chunkWriter struct {
	raw  *tls.Conn
	buf  []byte
	sent []byte
	err  error // of the connection
}

const chunkBytes = 60 << 10

// Write implements io.Writer.
func (w *chunkWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		k := min(chunkBytes-len(w.buf), len(p))
		w.buf = append(w.buf, p[:k]...)
		p, n = p[k:], n+k
		if len(w.buf) == chunkBytes {
			if err := w.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (w *chunkWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	err := w.frame(kindChunk, w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *chunkWriter) frame(kind Kind, payload []byte) error {
	if err := w.raw.SetWriteDeadline(time.Now().Add(streamSilence)); err != nil {
		return err
	}
	w.sent = appendFrame(w.sent[:0], kind, payload)
	_, w.err = w.raw.Write(w.sent)
	return w.err
}
