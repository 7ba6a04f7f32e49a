package transport

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	handshakeTime = 5 * time.Second
	// pingEvery is how often a side that has sent nothing sends a ping, and silence how many
	// such times may pass without a byte before the connection is closed.
	pingEvery = time.Second
	silence   = 4
)

// Conn is one end of a connection whose handshake is done. Send may be called by many
// goroutines, Read by one.
type Conn struct {
	raw   *tls.Conn
	in    *frameReader
	limit int // bytes that may wait to be sent
	wake  chan struct{}
	done  chan struct{} // closed by Close

	mu struct {
		sync.Mutex
		buf     []byte // frames that wait
		closed  bool
		dropped uint64 // frames
	}
}

func newConn(raw *tls.Conn, in *frameReader, limit int) *Conn {
	c := &Conn{raw: raw, in: in, limit: limit, wake: make(chan struct{}, 1), done: make(chan struct{})}
	in.heard.Store(true)
	go c.write()
	go c.watch()
	return c
}

// Send sends a frame whose payload fill appends to its argument. It does not wait. False: the frame
// is dropped, since the connection is closed, too much waits already, or fill has returned nil.
func (c *Conn) Send(kind Kind, fill func(dst []byte) []byte) bool {
	c.mu.Lock()
	if c.mu.closed || len(c.mu.buf) > c.limit {
		c.mu.dropped++
		c.mu.Unlock()
		return false
	}
	first := len(c.mu.buf) == 0
	buf, start := beginFrame(c.mu.buf, kind)
	if buf = fill(buf); buf == nil {
		c.mu.Unlock()
		return false
	}
	c.mu.buf = endFrame(buf, start)
	c.mu.Unlock()
	if first {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// Read returns the next frame, whose payload is valid until the next call. Errors: ErrFrame,
// after which the connection is closed; those of the connection.
func (c *Conn) Read() (Kind, []byte, error) {
	for {
		kind, payload, err := c.in.read(MaxFrame)
		if err != nil {
			c.Close()
			return 0, nil, err
		}
		c.in.heard.Store(true)
		if kind != kindPing {
			return kind, payload, nil
		}
	}
}

// Close closes the connection; what waits to be sent is dropped.
func (c *Conn) Close() {
	c.mu.Lock()
	closed := c.mu.closed
	c.mu.closed, c.mu.buf = true, nil
	c.mu.Unlock()
	if !closed {
		close(c.done)
		c.raw.NetConn().Close() // a closing alert would wait for a peer that does not read
	}
}

// Done is closed when the connection is closed.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Remote returns the address of the other side.
func (c *Conn) Remote() string { return c.raw.RemoteAddr().String() }

// watch closes the connection when nothing has come for a while, also while a write waits: the other side may have
// stopped, and reads nothing more.
func (c *Conn) watch() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for silent := 0; silent < silence; silent++ {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		if c.in.heard.Swap(false) {
			silent = -1
		}
	}
	c.Close()
}

// write writes what Send has left, and pings.
func (c *Conn) write() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	var spare []byte
	wrote := false
	ping := appendFrame(nil, kindPing, nil)
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
			if !wrote {
				if _, err := c.raw.Write(ping); err != nil {
					c.Close()
					return
				}
			}
			wrote = false
			continue
		case <-c.wake:
		}
		// Other groups may be about to send, and one write serves them too.
		for n := -1; n < c.waiting(); {
			n = c.waiting()
			runtime.Gosched()
		}
		c.mu.Lock()
		buf := c.mu.buf
		c.mu.buf = spare[:0]
		c.mu.Unlock()
		if len(buf) > 0 {
			wrote = true
			if _, err := c.raw.Write(buf); err != nil {
				c.Close()
				return
			}
		}
		if spare = buf; cap(spare) > 1<<20 {
			spare = nil
		}
	}
}

// waiting returns how many bytes wait to be sent.
func (c *Conn) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.buf)
}

// dial connects to a node and greets it.
func dial(ctx context.Context, network Dialer, creds *Credentials, address string, h hello) (_ *tls.Conn, _ *frameReader, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	plain, err := network(ctx, address)
	if err != nil {
		return nil, nil, fmt.Errorf("node %d at %s: %w", h.to, address, err)
	}
	raw := tls.Client(plain, creds.dialer(h.to))
	stop := context.AfterFunc(ctx, func() { plain.Close() })
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			plain.Close()
			err = fmt.Errorf("node %d at %s: %w", h.to, address, explain(err, h.to))
		}
	}()
	if err = raw.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	h.version = Version
	_, unsent := raw.Write(appendFrame(nil, kindHello, h.append(nil)))
	in := newFrameReader(raw)
	// Also if the hello was not sent: what has come may say why.
	if err = welcomed(in); err != nil {
		var other *IncarnationError
		if errors.As(err, &other) {
			other.Ours = h.incarnation
		}
		return nil, nil, err
	}
	err = unsent
	return raw, in, err
}

// welcomed reads the answer to a hello, or to the end of a snapshot.
func welcomed(in *frameReader) error {
	switch kind, payload, err := in.read(maxSmall); {
	case err != nil:
		return err
	case kind == kindWelcome || kind == kindTaken:
		return nil
	case kind == kindRefusal && strings.HasPrefix(string(payload), ErrVersion.Error()): // it is of one of another version
		return fmt.Errorf("%w: %w%s", ErrRefused, ErrVersion, printable(payload[len(ErrVersion.Error()):]))
	case kind == kindRefusal:
		return fmt.Errorf("%w: %s", ErrRefused, printable(payload))
	case kind == kindOther:
		r := reader{b: payload}
		other := &IncarnationError{Theirs: r.uvarint()}
		if r.bad || len(r.b) > 0 {
			return fmt.Errorf("%w: incarnation", ErrFrame)
		}
		return other
	default:
		return fmt.Errorf("%w: kind %d is no answer", ErrFrame, kind)
	}
}

// printable returns a text of another program, cut and without control characters.
func printable(b []byte) string {
	if len(b) > 1000 {
		b = b[:1000]
	}
	out := []rune(string(b))
	for i, r := range out {
		if r < ' ' || r == 0x7f {
			out[i] = ' '
		}
	}
	return string(out)
}

// accept answers the hello of one who has dialed.
func accept(ctx context.Context, plain net.Conn, creds *Credentials, node, incarnation uint64) (_ *tls.Conn, _ *frameReader, h hello, err error) {
	raw := tls.Server(plain, creds.server())
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { plain.Close() })
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			plain.Close()
		}
	}()
	if err = raw.HandshakeContext(ctx); err != nil {
		return nil, nil, h, err
	}
	in := newFrameReader(raw)
	kind, payload, err := in.read(maxSmall)
	if err != nil {
		return nil, nil, h, err
	}
	if kind != kindHello {
		return nil, nil, h, fmt.Errorf("%w: kind %d is no hello", ErrFrame, kind)
	}
	if h, err = decodeHello(payload); err != nil {
		return nil, nil, h, err
	}
	if err = greet(h, nodeOf(raw.ConnectionState().PeerCertificates[0]), node, incarnation); err != nil {
		answer := appendFrame(nil, kindRefusal, []byte(err.Error()))
		if errors.Is(err, ErrIncarnation) {
			answer = appendFrame(nil, kindOther, binary.AppendUvarint(nil, incarnation))
		}
		_, sent := raw.Write(answer)
		return nil, nil, h, errors.Join(err, sent)
	}
	var version [4]byte
	version[0] = Version
	_, err = raw.Write(appendFrame(nil, kindWelcome, version[:]))
	return raw, in, h, err
}

// greet returns why a hello is refused: holder is the node that the certificate names.
func greet(h hello, holder, node, incarnation uint64) error {
	switch {
	case h.version != Version:
		return fmt.Errorf("%w: the program that dials speaks %d, node %d speaks %d; run the same program on both", ErrVersion, h.version, node, Version)
	case h.to != node:
		return fmt.Errorf("this is node %d, not node %d", node, h.to)
	case h.purpose != forClient && (h.from == 0 || h.from != holder):
		return fmt.Errorf("%w: it is not that of node %d", ErrCertificate, h.from)
	case h.purpose != forClient && h.from == node:
		return fmt.Errorf("node %d is this one: two nodes have the same id", node)
	case h.incarnation != incarnation: // behind the checks of the certificate: it may end this node
		return &IncarnationError{Ours: incarnation, Theirs: h.incarnation}
	}
	return nil
}

// DialClient connects a client, which has the description of an incarnation of the cluster, to a
// node. Errors: ErrCertificate, ErrRefused, ErrIncarnation, ErrFrame; those of the network.
func DialClient(ctx context.Context, network Dialer, creds *Credentials, incarnation, node uint64, address string) (*Conn, error) {
	raw, in, err := dial(ctx, network, creds, address, hello{purpose: forClient, to: node, incarnation: incarnation})
	if err != nil {
		return nil, err
	}
	return newConn(raw, in, clientQueue), nil
}
