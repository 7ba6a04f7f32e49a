package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/transport"
)

// copying returns what is left of a replicated store without Raft and without a store: the first node of each of 8 groups sends
// what clients put to the other two, all three write it to a log and sync that, and a put is acknowledged when two have it. The
// connections, their TLS, the encoding of messages, and the clients are Cleave's, and entries are gathered as it does. Nothing is
// read back after a start, no leader is elected, and nothing is repeated. So it shows what the machine takes for the copies and
// the syncs alone.
func copying() *system {
	return &system{
		name: "copying", title: "Neither Raft nor a store: Cleave's connections and syncs, 8 groups", durability: "the log of two of three, by fdatasync; TLS",
		keepsNothing: true,
		setup:        func(p *plan) error { return setupCleave(p, 8) },
		serve:        serveCopying,
		connect:      connectCleave,
	}
}

// copyingLog is how long the log is, which is filled ahead and written round and round.
const copyingLog = 64 << 20

func serveCopying(ctx context.Context, p *plan, node int) (err error) {
	d, err := cluster.Load(description(p))
	if err != nil {
		return err
	}
	creds, err := transport.LoadCredentials(nodeDir(p, node))
	if err != nil {
		return err
	}
	fs, err := vfs.CreateRoot(nodeDir(p, node))
	if err != nil {
		return err
	}
	log, err := fs.Create("copied.log")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if _, err = log.WriteAt(make([]byte, copyingLog), 0); err != nil {
		return err
	}
	if err = log.Sync(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", p.Peers[node])
	if err != nil {
		return err
	}
	s := &copyingServer{id: d.Nodes[node].ID, log: log, lines: make(map[uint64]*line), failed: make(chan error, 1), ready: make(chan struct{})}
	s.wake = sync.NewCond(&s.mu)
	peers := make(map[uint64]string)
	for _, n := range d.Nodes {
		if n.ID != s.id {
			peers[n.ID] = n.Address
		}
	}
	for _, g := range d.Groups() {
		s.lines[g.ID] = &line{server: s, id: g.ID, leader: g.Replicas[0], docs: make(map[engine.PartitionKey][]byte)}
	}
	s.net = transport.New(transport.Config{Node: s.id, Credentials: creds, Peers: peers, Listener: listener, Handler: s})
	close(s.ready)
	defer s.net.Close()
	var syncs sync.WaitGroup
	defer syncs.Wait()
	defer s.stop()
	syncs.Go(s.syncLoop)
	select {
	case <-ctx.Done():
		return nil
	case err = <-s.failed:
		return err
	}
}

// copyingServer is a node.
type copyingServer struct {
	id     uint64
	net    *transport.Transport
	ready  chan struct{} // closed when net is set
	lines  map[uint64]*line
	log    vfs.File
	failed chan error

	connected atomic.Int32 // other nodes

	mu      sync.Mutex // of what follows
	wake    *sync.Cond
	at      int64    // place in the log
	written []func() // what is to be done when what is written is durable
	stopped bool
}

// append writes to the log, and has done called when that is durable.
func (s *copyingServer) append(b []byte, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at+int64(len(b)) > copyingLog {
		s.at = 0
	}
	if _, err := s.log.WriteAt(b, s.at); err != nil {
		s.fail(err)
		return
	}
	s.at += int64(len(b))
	s.written = append(s.written, done)
	s.wake.Signal()
}

// fail ends the node.
func (s *copyingServer) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

func (s *copyingServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.wake.Signal()
}

// syncLoop makes durable what was written. One sync serves all that was written by then, as in package host.
func (s *copyingServer) syncLoop() {
	for {
		s.mu.Lock()
		for len(s.written) == 0 && !s.stopped {
			s.wake.Wait()
		}
		for n := 0; n < len(s.written); {
			n = len(s.written)
			s.mu.Unlock()
			runtime.Gosched()
			s.mu.Lock()
		}
		some, stopped := s.written, s.stopped
		s.written = nil
		s.mu.Unlock()
		if stopped {
			return
		}
		if err := s.log.Sync(); err != nil {
			s.fail(err)
			return
		}
		for _, done := range some {
			done()
		}
	}
}

// Client implements transport.Handler.
func (s *copyingServer) Client(_ context.Context, c *transport.Conn) {
	<-s.ready
	for {
		kind, payload, err := c.Read()
		if err != nil {
			return
		}
		q, err := protocol.DecodeRequest(kind, payload)
		head := protocol.Head{Number: q.Number}
		l := s.lines[max(q.Group, q.Read.Group)]
		switch {
		case err != nil:
			refuse(c, head, err)
		case l == nil || l.leader != s.id:
			if l != nil {
				head.Leader = l.leader
			}
			refuse(c, head, group.ErrNotLeader)
		case s.connected.Load() < nodes-1:
			refuse(c, head, group.ErrBusy) // what is sent now would not arrive
		case kind == protocol.Propose:
			l.propose(c, head, bytes.Clone(q.Command))
		case kind == protocol.Read:
			l.read(c, head, q.Read)
		default:
			refuse(c, head, errors.ErrUnsupported)
		}
	}
}

// Message implements transport.Handler: MsgApp has what is to be copied, MsgAppResp says that it is durable.
func (s *copyingServer) Message(from, id uint64, m *pb.Message) {
	<-s.ready
	l := s.lines[id]
	switch {
	case l == nil:
	case m.GetType() == pb.MsgApp && len(m.GetEntries()) == 1:
		s.append(m.GetEntries()[0].GetData(), func() {
			s.net.Send(from, id, &pb.Message{Type: pb.MsgAppResp.Enum(), To: &from, From: &s.id, Index: m.GetEntries()[0].Index})
		})
	case m.GetType() == pb.MsgAppResp:
		l.has(m.GetIndex())
	}
}

// Connected implements transport.Handler.
func (s *copyingServer) Connected(uint64) { s.connected.Add(1) }

// Disconnected implements transport.Handler.
func (s *copyingServer) Disconnected(uint64) { s.connected.Add(-1) }

// The other methods of transport.Handler are about what there is not.
func (s *copyingServer) Superseded(uint64) {}
func (s *copyingServer) Snapshot(context.Context, *transport.Incoming) error {
	return errors.ErrUnsupported
}

// line copies what is put to one group, one entry at a time. What is put meanwhile is gathered for the next one.
type line struct {
	server *copyingServer
	id     uint64
	leader uint64

	mu      sync.Mutex // of what follows
	waiting []copied
	sent    []copied // those of the entry that is under way
	entry   uint64   // its number
	have    int      // replicas that have it
	docs    map[engine.PartitionKey][]byte
}

// copied is a put.
type copied struct {
	c       *transport.Conn
	head    protocol.Head
	encoded []byte
	key     engine.PartitionKey
	doc     []byte
}

func (l *line) propose(c *transport.Conn, head protocol.Head, encoded []byte) {
	cmd, err := command.Decode(encoded)
	if err != nil || len(cmd.Batches) != 1 || len(cmd.Batches[0].Operations) != 1 {
		refuse(c, head, errors.Join(errors.ErrUnsupported, err))
		return
	}
	b := &cmd.Batches[0]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, copied{c, head, encoded, b.Key, b.Operations[0].Body})
	l.begin()
}

// begin sends the next entry, if none is under way.
func (l *line) begin() {
	if len(l.sent) > 0 || len(l.waiting) == 0 {
		return
	}
	l.sent, l.waiting, l.have = l.waiting, l.sent[:0], 0
	l.entry++
	var all [][]byte
	for i := range l.sent {
		all = append(all, l.sent[i].encoded)
	}
	data := command.Gather(nil, all)
	entry := l.entry
	for _, p := range l.server.net.Peers() {
		l.server.net.Send(p.Node, l.id, &pb.Message{
			Type: pb.MsgApp.Enum(), To: &p.Node, From: &l.server.id,
			Entries: []*pb.Entry{{Type: pb.EntryNormal.Enum(), Index: &entry, Data: data}},
		})
	}
	l.server.append(data, func() { l.has(entry) })
}

// has notes that one more replica has an entry. Two are enough.
func (l *line) has(entry uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if entry != l.entry {
		return
	}
	if l.have++; l.have != 2 {
		return
	}
	for i := range l.sent {
		p := &l.sent[i]
		l.docs[p.key] = p.doc
		p.head.Applied = entry
		answer(p.c, func(dst []byte) []byte {
			return p.head.AppendOutcome(dst, &group.Outcome{Index: entry, Results: []engine.BatchResult{{Metas: make([]engine.Meta, 1)}}})
		})
	}
	clear(l.sent)
	l.sent = l.sent[:0]
	l.begin()
}

func (l *line) read(c *transport.Conn, head protocol.Head, q protocol.ReadRequest) {
	l.mu.Lock()
	doc, ok := l.docs[q.Key]
	l.mu.Unlock()
	if !ok {
		refuse(c, head, engine.ErrNotFound)
		return
	}
	answer(c, func(dst []byte) []byte {
		return head.AppendItem(dst, &engine.Item{Meta: engine.Meta{ID: q.ID}, Body: doc})
	})
}
