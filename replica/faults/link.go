package faults

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link carries the connections that one node makes to another one. Each direction can be cut.
type link struct {
	listener net.Listener
	target   string
	cut      [2]atomic.Bool // from the one who dials, and to it
	mu       sync.Mutex
	conns    map[net.Conn]bool
	closed   bool
	tasks    sync.WaitGroup
}

func newLink(target string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{listener: l, target: target, conns: make(map[net.Conn]bool)}
	k.tasks.Go(k.serve)
	return k, nil
}

func (k *link) address() string { return k.listener.Addr().String() }

// keep notes a connection. False: the link is closed.
func (k *link) keep(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.conns[c] = true
	}
	return !k.closed
}

func (k *link) drop(c net.Conn) {
	c.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, c)
}

func (k *link) serve() {
	for {
		from, err := k.listener.Accept()
		if err != nil {
			return
		}
		k.tasks.Go(func() {
			if !k.keep(from) {
				from.Close()
				return
			}
			defer k.drop(from)
			to, err := net.DialTimeout("tcp", k.target, time.Second)
			if err != nil {
				return
			}
			if !k.keep(to) {
				to.Close()
				return
			}
			defer k.drop(to)
			var both sync.WaitGroup
			both.Go(func() { k.carry(from, to, &k.cut[0]) })
			both.Go(func() { k.carry(to, from, &k.cut[1]) })
			both.Wait()
		})
	}
}

// carry carries bytes, and the end of the connection, unless the direction is cut.
func (k *link) carry(from, to net.Conn, cut *atomic.Bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		for cut.Load() && !k.ended() {
			time.Sleep(2 * time.Millisecond)
		}
		if n > 0 {
			if _, failed := to.Write(buf[:n]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			from.Close()
			to.Close()
			return
		}
	}
}

func (k *link) ended() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

func (k *link) close() {
	k.listener.Close()
	k.mu.Lock()
	k.closed = true
	for c := range k.conns {
		c.Close()
	}
	k.mu.Unlock()
	k.tasks.Wait()
}
