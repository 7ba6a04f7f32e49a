// Package memnet is a network in memory, for tests: its connections work in a bubble of
// testing/synctest. Links between addresses can be cut.
package memnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Network connects addresses. The zero value is ready.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	conns     map[*conn]bool
	deaf      map[string]bool // addresses that what is written to does not come to
	cut       map[[2]string]bool
}

// Listen listens at an address.
func (n *Network) Listen(address string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners, n.conns, n.deaf = make(map[string]*listener), make(map[*conn]bool), make(map[string]bool)
	}
	l := &listener{n: n, address: addr(address), incoming: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[address] = l
	return l
}

// Dialer returns a function that dials from an address.
func (n *Network) Dialer(from string) func(ctx context.Context, to string) (net.Conn, error) {
	return func(ctx context.Context, to string) (net.Conn, error) {
		n.mu.Lock()
		l := n.listeners[to]
		n.mu.Unlock()
		if l == nil {
			return nil, fmt.Errorf("dial %s: %w", to, errRefused)
		}
		here, there := pipe(n, addr(from), addr(to))
		select {
		case l.incoming <- there:
			return here, nil
		case <-l.closed:
			return nil, fmt.Errorf("dial %s: %w", to, errRefused)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

var errRefused = errors.New("connection refused")

// Kill closes what listens at an address and all its connections, as the end of a process does.
func (n *Network) Kill(address string) {
	n.mu.Lock()
	l := n.listeners[address]
	delete(n.listeners, address)
	var all []*conn
	for c := range n.conns {
		if string(c.local) == address || string(c.remote) == address {
			all = append(all, c)
		}
	}
	n.mu.Unlock()
	if l != nil {
		l.Close()
	}
	for _, c := range all {
		c.Close()
	}
}

// Blackhole makes an address hear nothing and say nothing, with its connections open, or ends
// that: what was said meanwhile is lost.
func (n *Network) Blackhole(address string, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf[address] = on
}

// Cut loses what one address writes to another one, or ends that.
func (n *Network) Cut(from, to string, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut == nil {
		n.cut = make(map[[2]string]bool)
	}
	n.cut[[2]string{from, to}] = on
}

func (n *Network) lost(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[[2]string{string(c.local), string(c.remote)}] || n.deaf[string(c.local)] || n.deaf[string(c.remote)]
}

type addr string

func (a addr) Network() string { return "memory" }
func (a addr) String() string  { return string(a) }

type listener struct {
	n        *Network
	address  addr
	incoming chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return l.address }

// half is one direction of a connection.
type half struct {
	mu       sync.Mutex
	cond     *sync.Cond
	buf      []byte
	closed   bool
	deadline time.Time
}

func newHalf() *half {
	h := new(half)
	h.cond = sync.NewCond(&h.mu)
	return h
}

// mostBuffered is how much a connection takes before a write waits, in bytes.
const mostBuffered = 1 << 20

type conn struct {
	n             *Network
	local, remote addr
	in, out       *half
}

func pipe(n *Network, from, to addr) (here, there *conn) {
	a, b := newHalf(), newHalf()
	here = &conn{n: n, local: from, remote: to, in: a, out: b}
	there = &conn{n: n, local: to, remote: from, in: b, out: a}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[here], n.conns[there] = true, true
	return here, there
}

func (c *conn) Read(p []byte) (int, error) {
	h := c.in
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buf) == 0 {
		switch {
		case h.closed:
			return 0, io.EOF
		case !h.deadline.IsZero() && !time.Now().Before(h.deadline):
			return 0, os.ErrDeadlineExceeded
		}
		h.cond.Wait()
	}
	n := copy(p, h.buf)
	h.buf = h.buf[n:]
	h.cond.Broadcast()
	return n, nil
}

func (c *conn) Write(p []byte) (int, error) {
	if c.n.lost(c) {
		return len(p), nil
	}
	h := c.out
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buf) >= mostBuffered && !h.closed {
		h.cond.Wait()
	}
	if h.closed {
		return 0, io.ErrClosedPipe
	}
	h.buf = append(h.buf, p...)
	h.cond.Broadcast()
	return len(p), nil
}

func (c *conn) Close() error {
	for _, h := range []*half{c.in, c.out} {
		h.mu.Lock()
		h.closed = true
		h.cond.Broadcast()
		h.mu.Unlock()
	}
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	delete(c.n.conns, c)
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline does nothing: a write waits until the other side reads or closes.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

func (c *conn) SetReadDeadline(t time.Time) error {
	h := c.in
	h.mu.Lock()
	h.deadline = t
	h.mu.Unlock()
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), h.cond.Broadcast)
	}
	return nil
}
