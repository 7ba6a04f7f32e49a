package transport

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Dialer connects to an address.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// TCP is the Dialer of the network.
func TCP(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

const (
	// peerQueue and clientQueue are how many bytes wait at most to be sent to a node, or
	// between a client and a node.
	peerQueue   = 64 << 20
	clientQueue = 64 << 20
	// A node is dialed again after redialFirst, then after twice that, and so on.
	redialFirst = 20 * time.Millisecond
	redialMost  = time.Second
)

// Handler takes what comes. Its methods are called by many goroutines.
type Handler interface {
	// Message takes a Raft message for a group. It must not wait.
	Message(from, group uint64, m *pb.Message)
	// Snapshot takes a snapshot. If it returns nil the sender is told that it has arrived,
	// otherwise that it has not.
	Snapshot(ctx context.Context, s *Incoming) error
	// Connected and Disconnected tell that a connection with a node was made, or has ended.
	// They must not wait. For one node they are called in turn.
	Connected(node uint64)
	Disconnected(node uint64)
	// Client serves the connection of a client until it returns.
	Client(ctx context.Context, c *Conn)
	// Superseded tells that a node of a later incarnation of the cluster was met. It may be called
	// more than once, and before New has returned.
	Superseded(incarnation uint64)
}

// Config says what a Transport is made of.
type Config struct {
	Node        uint64
	Credentials *Credentials
	// Incarnation is that of the cluster.
	Incarnation uint64
	// Peers are the addresses of the other nodes.
	Peers map[uint64]string
	// Former are those of nodes from before a promotion. They are dialed so that they learn of it, if
	// they ever run again.
	Former map[uint64]string
	// Listener accepts connections for this node. The Transport closes it.
	Listener net.Listener
	Dial     Dialer // nil: TCP
	Handler  Handler
}

// Transport has the connections of a node. Its methods are safe for concurrent use.
type Transport struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	mu     sync.Mutex // of peers and open
	peers  map[uint64]*peer
	open   map[interface{ Close() }]bool
}

// peer is another node.
type peer struct {
	node    uint64
	serving sync.Mutex // held by the goroutine that reads from the connection
	mu      struct {
		sync.Mutex
		address string
		conn    *Conn // nil: there is none
		err     error // why there is none
		since   time.Time
	}
}

// New starts a Transport.
func New(cfg Config) *Transport {
	if cfg.Dial == nil {
		cfg.Dial = TCP
	}
	t := &Transport{cfg: cfg, peers: make(map[uint64]*peer), open: make(map[interface{ Close() }]bool)}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	for node, address := range cfg.Peers {
		t.SetPeer(node, address)
	}
	for node, address := range cfg.Former {
		t.tasks.Go(func() { t.tell(node, address) })
	}
	t.tasks.Go(t.listen)
	return t
}

// SetPeer tells of another node, the first time or again with another address. A connection that
// there is stays.
func (t *Transport) SetPeer(node uint64, address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if node == t.cfg.Node || t.ctx.Err() != nil {
		return
	}
	p := t.peers[node]
	if p == nil {
		p = &peer{node: node}
		p.mu.since = time.Now()
		t.peers[node] = p
		if node > t.cfg.Node {
			t.tasks.Go(func() { t.dial(p) })
		}
	}
	p.mu.Lock()
	p.mu.address = address
	p.mu.Unlock()
}

// peer returns another node, nil if it is not known.
func (t *Transport) peer(node uint64) *peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.peers[node]
}

// address returns where the node is.
func (p *peer) address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.address
}

// Close closes all connections and returns when no method of the Handler runs.
func (t *Transport) Close() {
	t.cancel()
	t.cfg.Listener.Close()
	t.mu.Lock()
	for c := range t.open {
		c.Close()
	}
	t.mu.Unlock()
	t.tasks.Wait()
}

// Send sends a Raft message to a node. It does not wait; without a connection, or if too
// much waits already, the message is dropped and Send returns false.
func (t *Transport) Send(node, group uint64, m *pb.Message) bool {
	p := t.peer(node)
	if p == nil {
		return false
	}
	p.mu.Lock()
	c := p.mu.conn
	p.mu.Unlock()
	return c != nil && c.Send(kindMessage, func(dst []byte) []byte { return appendMessage(dst, group, m) })
}

// PeerStatus describes the connection with another node.
type PeerStatus struct {
	Node      uint64
	Address   string
	Connected bool
	Since     time.Time // of the present state
	Err       error     // why there is no connection; nil: not known
	Dropped   uint64    // frames that were not sent on this connection
}

// Peers describes the connections with the other nodes, by node.
func (t *Transport) Peers() (out []PeerStatus) {
	t.mu.Lock()
	peers := slices.SortedFunc(maps.Values(t.peers), func(a, b *peer) int { return cmp.Compare(a.node, b.node) })
	t.mu.Unlock()
	for _, p := range peers {
		p.mu.Lock()
		s := PeerStatus{Node: p.node, Address: p.mu.address, Connected: p.mu.conn != nil, Since: p.mu.since, Err: p.mu.err}
		c := p.mu.conn
		p.mu.Unlock()
		if c != nil {
			c.mu.Lock()
			s.Dropped = c.mu.dropped
			c.mu.Unlock()
		}
		out = append(out, s)
	}
	return out
}

// dial keeps a connection to a node with a higher id.
func (t *Transport) dial(p *peer) {
	wait := redialFirst
	for t.ctx.Err() == nil {
		raw, in, err := dial(t.ctx, t.cfg.Dial, t.cfg.Credentials, p.address(), hello{purpose: forMessages, from: t.cfg.Node, to: p.node, incarnation: t.cfg.Incarnation})
		if err == nil {
			wait = redialFirst
			err = t.serve(p, newConn(raw, in, peerQueue))
		}
		t.compare(err)
		p.mu.Lock()
		p.mu.err = err
		p.mu.Unlock()
		select {
		case <-t.ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, redialMost)
	}
}

// tell dials a node from before a promotion again and again. What it learns is in the hello.
func (t *Transport) tell(node uint64, address string) {
	for t.ctx.Err() == nil {
		raw, _, err := dial(t.ctx, t.cfg.Dial, t.cfg.Credentials, address, hello{purpose: forMessages, from: t.cfg.Node, to: node, incarnation: t.cfg.Incarnation})
		if err == nil {
			raw.NetConn().Close()
		}
		t.compare(err)
		select {
		case <-t.ctx.Done():
		case <-time.After(redialMost):
		}
	}
}

// compare tells the Handler if a connection with a node came to nothing since that is of a later
// incarnation.
func (t *Transport) compare(err error) {
	var other *IncarnationError
	if errors.As(err, &other) && other.Theirs > t.cfg.Incarnation {
		t.cfg.Handler.Superseded(other.Theirs)
	}
}

// serve takes messages from a connection with a node until it ends, and returns why it ended.
// A connection that there was before ends.
func (t *Transport) serve(p *peer, c *Conn) error {
	defer c.Close()
	if !t.keep(c) {
		return context.Canceled
	}
	defer t.forget(c)
	p.mu.Lock()
	before := p.mu.conn
	p.mu.Unlock()
	if before != nil {
		before.Close()
	}
	p.serving.Lock()
	defer p.serving.Unlock()
	p.mu.Lock()
	p.mu.conn, p.mu.err, p.mu.since = c, nil, time.Now()
	p.mu.Unlock()
	t.cfg.Handler.Connected(p.node)
	err := t.messages(p, c)
	p.mu.Lock()
	p.mu.conn, p.mu.err, p.mu.since = nil, err, time.Now()
	p.mu.Unlock()
	t.cfg.Handler.Disconnected(p.node)
	return err
}

func (t *Transport) messages(p *peer, c *Conn) error {
	for {
		kind, payload, err := c.Read()
		if err != nil {
			return err
		}
		if kind != kindMessage {
			return errors.Join(ErrFrame, errors.New("it is not for a connection of nodes"))
		}
		group, m, err := decodeMessage(payload)
		if err != nil {
			return err
		}
		t.cfg.Handler.Message(p.node, group, m)
	}
}

// keep notes what Close has to close. False: the Transport is closed.
func (t *Transport) keep(c interface{ Close() }) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return false
	}
	t.open[c] = true
	return true
}

func (t *Transport) forget(c interface{ Close() }) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, c)
}

// listen accepts connections.
func (t *Transport) listen() {
	for {
		plain, err := t.cfg.Listener.Accept()
		if t.ctx.Err() != nil {
			if err == nil {
				plain.Close()
			}
			return
		}
		if err != nil { // for want of file descriptors, say
			select {
			case <-t.ctx.Done():
			case <-time.After(redialFirst):
			}
			continue
		}
		t.tasks.Go(func() { t.welcome(plain) })
	}
}

func (t *Transport) welcome(plain net.Conn) {
	raw, in, h, err := accept(t.ctx, plain, t.cfg.Credentials, t.cfg.Node, t.cfg.Incarnation)
	p := t.peer(h.from)
	if err != nil {
		if h.purpose != forClient {
			t.compare(err)
		}
		if p != nil && h.purpose == forMessages {
			p.mu.Lock()
			if p.mu.conn == nil {
				p.mu.err = err
			}
			p.mu.Unlock()
		}
		return
	}
	switch {
	case h.purpose == forClient:
		c := newConn(raw, in, clientQueue)
		defer c.Close()
		if t.keep(c) {
			defer t.forget(c)
			t.cfg.Handler.Client(t.ctx, c)
		}
	case p == nil:
		raw.Close() // a node of the cluster that this one does not know yet
	case h.purpose == forSnapshot:
		closer := rawCloser{raw.NetConn()}
		defer closer.Close()
		if t.keep(closer) {
			defer t.forget(closer)
			t.takeSnapshot(raw, in, h.from)
		}
	default:
		_ = t.serve(p, newConn(raw, in, peerQueue)) // the peer has noted it
	}
}

type rawCloser struct{ net.Conn }

func (c rawCloser) Close() { c.Conn.Close() }
