// Package client writes to and reads from a cluster. A Client finds the leader of each group,
// follows it when it changes, and repeats a command whose outcome it has not heard under the
// command's id, so that it is carried out at most once.
package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/transport"
)

// Errors, for errors.Is; those of the engine too.
var (
	// ErrUnknown says that a write may or may not have been carried out, and that it will not
	// be repeated.
	ErrUnknown = errors.New("outcome of the write is unknown")
	// ErrClosed says that the client is closed.
	ErrClosed = errors.New("client is closed")
	// ErrResults says that a write was carried out, or refused, by an earlier try: how is not known.
	ErrResults = errors.New("write was decided by an earlier try, whose results are lost")
)

// Config says what a Client is made of.
type Config struct {
	Cluster     *cluster.Cluster
	Credentials *transport.Credentials
	Dial        transport.Dialer // nil: TCP
	// TryTime is how long one node is waited for before another one is asked. 0: a second.
	TryTime time.Duration
	// Near is a node that reads below Strong ask first. 0: all in turn.
	Near uint64
	// Region is where reads below Strong look first, if Near is 0: for replicas on nodes of the region,
	// as Cluster describes them, readers too. Others are asked if none answers.
	Region string
	// Bounds are those of reads with bounded staleness. Age 0: five seconds and 100,000 entries.
	Bounds protocol.Bounds
}

// Client is a client of a cluster. Its methods are safe for concurrent use.
type Client struct {
	cfg    Config
	routes routes
	prefix [8]byte // of the ids of commands
	number atomic.Uint64
	closed atomic.Bool
	turn   atomic.Uint64 // of the replicas that are asked
	own    *Session

	channels, timers sync.Pool // of calls
}

// link is the connection with a node.
type link struct {
	node uint64
	mu   struct {
		sync.Mutex
		// addresses are those that the client has heard of, the one that is dialed first. When that fails the next one is. A
		// certificate says whether the node is there.
		addresses []string
		conn      *transport.Conn
		dialing   chan struct{} // closed when a dial has ended; nil: none is under way
		err       error         // of the last one
		failed    time.Time     // when it was
		answers   uint64        // that have come
		silent    time.Time     // when a request was last given up and none had come since it was sent; zero: one has since then
		calls     map[uint64]chan reply
		number    uint64
	}
}

type reply struct {
	protocol.Reply
	err error // of the connection
}

const (
	redial  = 50 * time.Millisecond // after a dial that has failed
	passed  = 5 * time.Second       // how long a silent node is passed over; its connection ends about then
	backoff = 10 * time.Millisecond // before another try, growing
	longest = 100 * time.Millisecond
)

// errLink says that no answer came.
var errLink = errors.New("no answer")

// New makes a client. It connects when it is used.
func New(cfg Config) *Client {
	if cfg.Dial == nil {
		cfg.Dial = transport.TCP
	}
	if cfg.TryTime == 0 {
		cfg.TryTime = time.Second
	}
	if cfg.Bounds.Age == 0 {
		cfg.Bounds = protocol.Bounds{Age: 5 * time.Second, Entries: 100_000}
	}
	c := &Client{cfg: cfg, own: NewSession()}
	rand.Read(c.prefix[:]) // never fails
	c.channels.New = func() any { return make(chan reply, 1) }
	c.timers.New = func() any {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}
	c.routes.init(cfg.Cluster, cfg.Region)
	return c
}

// Close closes the connections. Calls that are under way end with an error.
func (c *Client) Close() {
	c.closed.Store(true)
	for _, l := range c.routes.now.Load().links {
		l.mu.Lock()
		conn := l.mu.conn
		l.mu.Unlock()
		if conn != nil {
			conn.Close()
		}
	}
}

// placeOf returns the place of a partition key in the key space.
func placeOf(key engine.PartitionKey) (epk partmap.EPK, err error) {
	if !key.Valid() {
		return epk, fmt.Errorf("%w: the partition key is not given", engine.ErrInvalid)
	}
	return key.EPK(), nil
}

// route returns the group that has a place of the key space.
func (c *Client) route(container string, epk partmap.EPK) (*groupState, error) {
	p := c.routes.now.Load()
	if _, found := p.groups[container]; !found {
		return nil, fmt.Errorf("container %q: %w", container, engine.ErrNoContainer)
	}
	g, _ := p.find(container, &epk)
	if g == nil {
		return p.gap, nil
	}
	return g, nil
}

// GroupOf returns the group of a partition key, 0 if there is no such container, or the client
// does not know the group.
func (c *Client) GroupOf(container string, key engine.PartitionKey) uint64 {
	epk, err := placeOf(key)
	if err != nil {
		return 0
	}
	g, err := c.route(container, epk)
	if err != nil {
		return 0
	}
	return g.ID
}

// Upsert writes a JSON document. It returns when the write is durable in a quorum of the
// group's replicas, or will not be repeated: see Batch.
func (c *Client) Upsert(ctx context.Context, container string, key engine.PartitionKey, doc []byte) (engine.Meta, error) {
	metas, err := c.Batch(ctx, container, key, command.Operation{Kind: command.Upsert, Body: doc})
	if err != nil {
		return engine.Meta{}, err
	}
	return metas[0], nil
}

// Batch carries operations on items of one logical partition out, all or none. It tries until
// the context ends. Errors: those of engine.Container.Commit; ErrUnknown, with the error of the
// context, with group.ErrExpired, or with engine.ErrNoContainer if the container was dropped
// meanwhile; ErrResults, if the answer to an earlier try was lost, and
// the group knows only that it has decided the command.
func (c *Client) Batch(ctx context.Context, container string, key engine.PartitionKey, ops ...command.Operation) ([]engine.Meta, error) {
	return c.batch(ctx, c.own.note, container, key, ops)
}

func (c *Client) batch(ctx context.Context, note func(group, index uint64), container string, key engine.PartitionKey, ops []command.Operation) ([]engine.Meta, error) {
	epk, err := placeOf(key)
	if err != nil {
		return nil, err
	}
	for i := range ops {
		if ttl := ops[i].TTL; ttl < 0 && ttl != engine.NoExpiry { // in a command it would be for ever
			return nil, fmt.Errorf("%w: operation %d: a TTL of %v", engine.ErrInvalid, i, ttl)
		}
	}
	t, err := c.begin(ctx, container, epk)
	if err != nil {
		return nil, err
	}
	g := t.g
	cmd := command.Command{After: g.applied.Load(), Time: time.UnixMilli(0), Batches: []command.Batch{{Key: key, Operations: ops}}}
	c.newID(&cmd.ID)
	encoded := cmd.Append(nil)
	var last error
	unknown := false // an earlier try may have been carried out
	for {
		node, err := t.next(ctx)
		if err != nil {
			return nil, giveUp(unknown, err, last)
		}
		r, sent := c.ask(ctx, node, protocol.Propose, func(dst []byte, number uint64) []byte {
			return protocol.AppendPropose(dst, number, g.ID, container, encoded)
		})
		c.learn(g, &r)
		c.gone(g, &r)
		switch {
		case r.err != nil:
			unknown = unknown || sent
			last = r.err
			t.failed(node)
		case r.Err == nil:
			return outcome(&r, note, g)
		case errors.Is(r.Err, group.ErrUnknown):
			unknown, last = true, r.Err
		case errors.Is(r.Err, group.ErrExpired) && !unknown:
			// Nobody has carried it out, so it may have another id and begin later.
			c.newID(&cmd.ID)
			cmd.After = max(r.Applied, cmd.After)
			encoded, last = cmd.Append(encoded[:0]), r.Err
		case elsewhere(r.Err):
			last = r.Err
			t.refused(node, &r)
			before := g.ID
			if g, err = t.reroute(ctx, container, epk); err != nil {
				return nil, giveUp(unknown, err, last)
			}
			if g.ID == before {
				continue
			}
			// An entry of the other group is none of this one. What was carried out in that is remembered from an earlier one on.
			if after := g.applied.Load(); unknown {
				cmd.After = min(cmd.After, after)
			} else {
				c.newID(&cmd.ID)
				cmd.After = after
			}
			encoded = cmd.Append(encoded[:0])
		case errors.Is(r.Err, group.ErrNotLeader), errors.Is(r.Err, group.ErrBusy), errors.Is(r.Err, group.ErrFailed):
			last = r.Err
			t.refused(node, &r)
		case unknown:
			return nil, fmt.Errorf("%w: %w", ErrUnknown, r.Err)
		default:
			return nil, r.Err
		}
	}
}

func outcome(r *reply, note func(group, index uint64), g *groupState) ([]engine.Meta, error) {
	o, err := r.Outcome()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	note(g.ID, o.Index)
	g.heard(o.Index)
	switch {
	case len(o.Results) == 0:
		return nil, ErrResults
	}
	return o.Results[0].Metas, o.Results[0].Err
}

func giveUp(unknown bool, err, last error) error {
	if last != nil {
		err = fmt.Errorf("%w; the last answer was: %w", err, last)
	}
	if unknown {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}

func (c *Client) newID(id *command.ID) {
	copy(id[:], c.prefix[:])
	binary.BigEndian.PutUint64(id[8:], c.number.Add(1))
}

// Status returns the status of a node.
func (c *Client) Status(ctx context.Context, node uint64) (s host.Status, err error) {
	if c.link(node) == nil {
		return s, fmt.Errorf("node %d: %w", node, engine.ErrNotFound)
	}
	c.reach(ctx, node)
	r, _ := c.ask(ctx, node, protocol.Status, protocol.AppendStatus)
	if err = errors.Join(r.err, r.Err); err != nil {
		return s, err
	}
	return s, json.Unmarshal(r.Text(), &s)
}

// StatusAt is Status of a node that is at an address, of which the client may not have heard.
func (c *Client) StatusAt(ctx context.Context, node uint64, address string) (host.Status, error) {
	c.routes.update([]protocol.Peer{{Node: node, Address: address}}, nil)
	return c.Status(ctx, node)
}

// learn keeps what an answer says of a group.
func (c *Client) learn(g *groupState, r *reply) {
	if r.err != nil {
		return
	}
	if r.Leader != 0 && c.link(r.Leader) != nil {
		g.leader.Store(r.Leader)
	}
	g.heard(r.Applied)
}

// try chooses the nodes that are asked one after the other.
type try struct {
	c     *Client
	g     *groupState
	count int
	near  bool   // any replica will do
	at    int    // in g.Replicas, once the leader has not answered
	avoid uint64 // node that has failed
	lost  int    // how often no answer has come since one came, or the client looked where the group is
	looks int    // how often it has looked
	wait  time.Duration
}

// next returns the node to ask. It waits before it asks again.
func (t *try) next(ctx context.Context) (uint64, error) {
	if t.c.closed.Load() {
		return 0, ErrClosed
	}
	if err := t.sleep(ctx); err != nil {
		return 0, err
	}
	t.count++
	if t.lost > len(t.g.Replicas)<<min(t.looks, 6) { // none of them may be there any more
		t.look(ctx)
	}
	if t.near {
		return t.nearest(), nil
	}
	if leader := t.g.leader.Load(); leader != t.avoid {
		return leader, nil
	}
	t.at++
	return t.g.Replicas[t.at%len(t.g.Replicas)], nil
}

// look asks all nodes where the group is now. Its replicas may all have moved since the client heard of them.
func (t *try) look(ctx context.Context) {
	t.lost = 0
	t.looks++
	t.c.Refresh(ctx)
	if g := t.c.routes.now.Load().byID[t.g.ID]; g != nil && g != t.g {
		t.g, t.avoid = g, 0
	}
}

// sleep waits as long as the last try has said.
func (t *try) sleep(ctx context.Context) error {
	if t.wait > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(t.wait):
		}
		t.wait = 0
	}
	return ctx.Err()
}

// failed notes that a node has not answered.
func (t *try) failed(node uint64) {
	t.avoid = node
	t.lost++
	t.pause()
}

// refused notes that a node does not lead, or takes nothing for now.
func (t *try) refused(node uint64, r *reply) {
	if r.Leader == 0 || r.Leader != t.avoid { // else the leader lives, and is perhaps elsewhere
		t.lost = 0
	}
	if errors.Is(r.Err, group.ErrBusy) {
		t.pause()
		return
	}
	if r.Leader == 0 || r.Leader == node {
		t.avoid = node // it knows no other one
	} else if r.Leader != t.avoid {
		return // at once
	}
	t.pause()
}

func (t *try) pause() { t.wait = min(backoff*time.Duration(max(t.count, 1)), longest) }

// ask sends a request to a node and waits for its answer. sent says that the node may have got it. A request that
// is too large is answered engine.ErrTooLarge: a node would close the connection, which all calls share.
func (c *Client) ask(ctx context.Context, node uint64, kind transport.Kind, fill func(dst []byte, number uint64) []byte) (r reply, sent bool) {
	return c.askFor(ctx, c.cfg.TryTime, node, kind, fill)
}

func (c *Client) askFor(ctx context.Context, most time.Duration, node uint64, kind transport.Kind, fill func(dst []byte, number uint64) []byte) (r reply, sent bool) {
	l := c.link(node)
	if l == nil {
		return reply{err: fmt.Errorf("node %d: %w: its address is not known", node, errLink)}, false
	}
	conn, err := c.connect(ctx, l, false)
	if err != nil {
		return reply{err: err}, false
	}
	answer := c.channels.Get().(chan reply)
	l.mu.Lock()
	l.mu.number++
	number := l.mu.number
	l.mu.calls[number] = answer
	heard := l.mu.answers
	l.mu.Unlock()
	size, late := 0, false
	if !conn.Send(kind, func(dst []byte) []byte {
		b := fill(dst, number)
		if size = len(b) - len(dst); size > transport.MaxFrame {
			return nil
		}
		return b
	}) {
		err = fmt.Errorf("node %d: %w: its connection is closed, or takes nothing more", node, errLink)
	}
	if size > transport.MaxFrame {
		l.mu.Lock()
		delete(l.mu.calls, number)
		l.mu.Unlock()
		r.Err = fmt.Errorf("request of %d bytes, at most %d can be sent: %w", size, transport.MaxFrame, engine.ErrTooLarge)
		return r, false
	}
	if err == nil {
		timeout := c.timers.Get().(*time.Timer)
		timeout.Reset(most)
		select {
		case r = <-answer:
		case <-ctx.Done():
			err = ctx.Err()
		case <-timeout.C:
			late = true
			err = fmt.Errorf("node %d: %w within %v", node, errLink, most)
		case <-conn.Done():
			err = fmt.Errorf("node %d: %w: the connection has ended", node, errLink)
		}
		timeout.Stop()
		c.timers.Put(timeout)
		sent = true
	}
	if err == nil {
		c.channels.Put(answer)
		return r, sent
	}
	l.mu.Lock()
	delete(l.mu.calls, number) // the answer may be in the channel already, which is not used again
	if late && l.mu.answers == heard {
		l.mu.silent = time.Now()
	}
	l.mu.Unlock()
	if sent && kind == protocol.Query {
		conn.Send(protocol.Cancel, func(dst []byte) []byte { return protocol.AppendCancel(dst, number) })
	}
	return reply{err: err}, sent
}

// reach waits for a connection with a node, for a request that no other node can answer. What has failed ask says.
func (c *Client) reach(ctx context.Context, node uint64) {
	if l := c.link(node); l != nil {
		_, _ = c.connect(ctx, l, true)
	}
}

// connect returns a connection with a node. One call dials, the others wait for it. If the last dial has failed they wait only if
// they insist on this node: it may be silent, and each dial would cost them as long as a dial may take.
func (c *Client) connect(ctx context.Context, l *link, insist bool) (*transport.Conn, error) {
	for {
		l.mu.Lock()
		conn, dialing := l.mu.conn, l.mu.dialing
		switch {
		case conn != nil:
			l.mu.Unlock()
			return conn, nil
		case dialing != nil && l.mu.err != nil && !insist:
			err := l.mu.err
			l.mu.Unlock()
			return nil, err
		case dialing != nil:
			l.mu.Unlock()
			select {
			case <-dialing:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			continue
		case l.mu.err != nil && time.Since(l.mu.failed) < redial:
			err := l.mu.err
			l.mu.Unlock()
			return nil, err
		case c.closed.Load():
			l.mu.Unlock()
			return nil, ErrClosed
		}
		c.beginDial(l)
		l.mu.Unlock()
	}
}

// answers reports whether a node is expected to answer, as far as it is known. One that is not is dialed, if it has no connection: nobody
// may ask it until it has.
func (c *Client) answers(node uint64) bool {
	l := c.link(node)
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.conn != nil:
		return l.mu.silent.IsZero() || time.Since(l.mu.silent) > passed
	case l.mu.err == nil:
		return true
	case l.mu.dialing == nil && time.Since(l.mu.failed) >= redial && !c.closed.Load():
		c.beginDial(l)
	}
	return false
}

// beginDial begins a dial. The caller holds l.mu.
func (c *Client) beginDial(l *link) {
	l.mu.dialing = make(chan struct{})
	go c.dial(l, l.mu.dialing) // without the context of a call: others wait too
}

func (c *Client) dial(l *link, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	l.mu.Lock()
	address := l.mu.addresses[0]
	l.mu.Unlock()
	conn, err := transport.DialClient(ctx, c.cfg.Dial, c.cfg.Credentials, c.cfg.Cluster.Incarnation, l.node, address)
	l.mu.Lock()
	if err != nil {
		l.mu.addresses = append(l.mu.addresses[1:], address)
	}
	l.mu.conn, l.mu.err, l.mu.failed, l.mu.dialing, l.mu.silent = conn, err, time.Now(), nil, time.Time{}
	l.mu.Unlock()
	if err == nil {
		go l.receive(conn)
		if c.closed.Load() {
			conn.Close()
		}
	}
	close(done)
}

// receive gives answers to those who wait for them.
func (l *link) receive(conn *transport.Conn) {
	defer func() {
		conn.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.mu.conn == conn {
			l.mu.conn = nil
			if !l.mu.silent.IsZero() { // nobody need wait for the first dial either
				l.mu.err, l.mu.failed = fmt.Errorf("node %d: %w: it was silent, and its connection has ended", l.node, errLink), time.Now()
			}
		}
	}()
	for {
		kind, payload, err := conn.Read()
		if err != nil || kind != protocol.Answer {
			return
		}
		p, err := protocol.DecodeAnswer(append([]byte(nil), payload...))
		if err != nil {
			return
		}
		l.mu.Lock()
		answer := l.mu.calls[p.Number]
		delete(l.mu.calls, p.Number)
		l.mu.answers++
		l.mu.silent = time.Time{}
		l.mu.Unlock()
		if answer != nil {
			answer <- reply{Reply: p}
		}
	}
}
