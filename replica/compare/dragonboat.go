package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/logger"
	sm "github.com/lni/dragonboat/v4/statemachine"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/transport"
)

// dragonboatEngine returns a store with dragonboat in the place of the packages group, raftlog and
// host: the state machine of each of its 8 Raft groups is a physical partition of an engine.
// Clients are those of Cleave, with its protocol and TLS. Two things are left out that Cleave has: a
// command that is repeated is carried out again, and an answer does not carry the metadata of items.
func dragonboatEngine() *system {
	return &system{
		name: "dragonboat", title: "dragonboat v4 with Cleave's engine, 8 groups", durability: "the log of two of three, in Pebble, by fdatasync; TLS to clients only",
		setup:   func(p *plan) error { return setupCleave(p, 8) },
		serve:   serveDragonboat,
		connect: connectCleave,
	}
}

// proposeTime is how long a proposal may take before its client hears that its outcome is unknown.
const proposeTime = 5 * time.Second

func serveDragonboat(ctx context.Context, p *plan, node int) (err error) {
	for _, name := range []string{"raft", "rsm", "transport", "grpc", "dragonboat", "logdb", "settings", "config", "utils", "pebblekv"} {
		logger.GetLogger(name).SetLevel(logger.ERROR)
	}
	d, err := cluster.Load(description(p))
	if err != nil {
		return err
	}
	creds, err := transport.LoadCredentials(nodeDir(p, node))
	if err != nil {
		return err
	}
	db, err := engine.Open(ctx, filepath.Join(nodeDir(p, node), "store"), &engine.Options{MemoryBudget: 256 << 20, MaxPartitionBytes: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s := &dragonboatServer{db: db, d: d, id: d.Nodes[node].ID}
	if s.c, err = db.EnsureContainer(ctx, container, d.Containers[0].Def()); err != nil {
		return err
	}
	dir := filepath.Join(nodeDir(p, node), "dragonboat")
	s.hosted, err = dragonboat.NewNodeHost(config.NodeHostConfig{NodeHostDir: dir, WALDir: dir, RTTMillisecond: 100, RaftAddress: p.Addresses[node]})
	if err != nil {
		return err
	}
	defer s.hosted.Close()
	members := make(map[uint64]dragonboat.Target)
	for i, n := range d.Nodes {
		members[n.ID] = p.Addresses[i]
	}
	for _, g := range d.Groups() {
		create := func(uint64, uint64) sm.IOnDiskStateMachine {
			return &partition{c: s.c, min: g.Range.Min.String(), max: g.Range.Max.String()}
		}
		err = s.hosted.StartOnDiskReplica(members, false, create, config.Config{
			ReplicaID: s.id, ShardID: g.ID, ElectionRTT: 10, HeartbeatRTT: 3, CheckQuorum: true, SnapshotEntries: 100_000, CompactionOverhead: 10_000,
		})
		if err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", p.Peers[node])
	if err != nil {
		return err
	}
	clients := transport.New(transport.Config{Node: s.id, Credentials: creds, Listener: listener, Handler: s})
	defer clients.Close()
	// Each group gets the leader that Cleave prefers, so that both have them on the same nodes.
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		for _, g := range d.Groups() {
			if leader, _, known, err := s.hosted.GetLeaderID(g.ID); err == nil && known && leader == s.id && leader != g.Replicas[0] {
				_ = s.hosted.RequestLeaderTransfer(g.ID, g.Replicas[0]) // again in a second
			}
		}
	}
}

// dragonboatServer answers clients.
type dragonboatServer struct {
	db     *engine.DB
	c      *engine.Container
	d      *cluster.Cluster
	id     uint64
	hosted *dragonboat.NodeHost
}

// Client implements transport.Handler.
func (s *dragonboatServer) Client(ctx context.Context, c *transport.Conn) {
	for {
		kind, payload, err := c.Read()
		if err != nil {
			return
		}
		q, err := protocol.DecodeRequest(kind, payload)
		head := protocol.Head{Number: q.Number}
		switch {
		case err != nil:
			refuse(c, head, err)
		case kind == protocol.Propose:
			s.propose(c, head, q.Group, bytes.Clone(q.Command))
		case kind == protocol.Read:
			go s.read(ctx, c, head, q.Read)
		default:
			refuse(c, head, errors.ErrUnsupported)
		}
	}
}

// answer sends an answer. A client that does not read loses its connection.
func answer(c *transport.Conn, fill func(dst []byte) []byte) {
	if !c.Send(protocol.Answer, fill) {
		c.Close()
	}
}

func refuse(c *transport.Conn, head protocol.Head, err error) {
	answer(c, func(dst []byte) []byte { return head.AppendError(dst, err) })
}

func (s *dragonboatServer) propose(c *transport.Conn, head protocol.Head, shard uint64, encoded []byte) {
	if _, err := command.Decode(encoded); err != nil {
		refuse(c, head, err)
		return
	}
	command.Stamp(encoded, time.Now())
	state, err := s.hosted.Propose(s.hosted.GetNoOPSession(shard), encoded, proposeTime)
	if err != nil {
		refuse(c, head, fmt.Errorf("%w: %w", group.ErrBusy, err))
		return
	}
	go func() {
		r := <-state.ResultC()
		done := r.GetResult()
		state.Release()
		switch {
		case !r.Completed():
			refuse(c, head, group.ErrUnknown)
		case done.Value == 0:
			refuse(c, head, errors.New(string(done.Data)))
		default:
			out := group.Outcome{Index: done.Value, Results: []engine.BatchResult{{Metas: make([]engine.Meta, 1)}}}
			head.Applied = done.Value
			answer(c, func(dst []byte) []byte { return head.AppendOutcome(dst, &out) })
		}
	}()
}

func (s *dragonboatServer) read(ctx context.Context, c *transport.Conn, head protocol.Head, q protocol.ReadRequest) {
	ctx, cancel := context.WithTimeout(ctx, proposeTime)
	defer cancel()
	found, err := s.hosted.SyncRead(ctx, q.Group, q)
	item, ok := found.(engine.Item)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		err = fmt.Errorf("%w: %w", group.ErrBusy, err) // there may be no leader yet
	}
	if err != nil || !ok {
		refuse(c, head, err)
		return
	}
	answer(c, func(dst []byte) []byte { return head.AppendItem(dst, &item) })
}

// The other methods of transport.Handler are about connections between nodes, which are
// dragonboat's here.
func (s *dragonboatServer) Message(uint64, uint64, *pb.Message) {}
func (s *dragonboatServer) Connected(uint64)                    {}
func (s *dragonboatServer) Disconnected(uint64)                 {}
func (s *dragonboatServer) Superseded(uint64)                   {}
func (s *dragonboatServer) Snapshot(context.Context, *transport.Incoming) error {
	return errors.ErrUnsupported
}

// partition is a physical partition as a state machine. The index of an entry is that of
// dragonboat. Entries of its own, which it does not show, are empty here.
type partition struct {
	c        *engine.Container
	min, max string
	id       engine.PartitionID
	next     uint64
}

// Open implements sm.IOnDiskStateMachine.
func (p *partition) Open(<-chan struct{}) (uint64, error) {
	for _, s := range p.c.Partitions() {
		if s.Min == p.min && s.Max == p.max {
			p.id = s.ID
		}
	}
	applied, err := p.c.AppliedIndex(p.id)
	p.next = applied + 1
	return applied, err
}

// Update implements sm.IOnDiskStateMachine.
func (p *partition) Update(entries []sm.Entry) ([]sm.Entry, error) {
	for i := range entries {
		e := &entries[i]
		for ; p.next < e.Index; p.next++ {
			if _, err := p.c.ApplyAt(context.Background(), p.id, engine.Entry{Index: p.next, Time: time.UnixMilli(1), Durability: engine.Buffered}); err != nil {
				return nil, err
			}
		}
		c, err := command.Decode(e.Cmd)
		if err != nil {
			return nil, err
		}
		entry := engine.Entry{Index: e.Index, Time: c.Time, Durability: engine.Buffered}
		refused := error(nil)
		if entry.Batches, refused = c.Build(p.c); refused != nil {
			entry.Batches = nil
		}
		applied, err := p.c.ApplyAt(context.Background(), p.id, entry)
		if err != nil {
			return nil, err
		}
		p.next = e.Index + 1
		if len(applied.Results) > 0 && refused == nil {
			refused = applied.Results[0].Err
		}
		e.Result = sm.Result{Value: e.Index}
		if refused != nil {
			e.Result = sm.Result{Data: []byte(refused.Error())}
		}
	}
	return entries, nil
}

// Lookup implements sm.IOnDiskStateMachine.
func (p *partition) Lookup(query any) (any, error) {
	q, ok := query.(protocol.ReadRequest)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return p.c.Read(context.Background(), q.Key, q.ID)
}

// Sync implements sm.IOnDiskStateMachine.
func (p *partition) Sync() error {
	_, err := p.c.FlushPartition(context.Background(), p.id)
	return err
}

// PrepareSnapshot implements sm.IOnDiskStateMachine.
func (p *partition) PrepareSnapshot() (any, error) { return nil, nil }

// SaveSnapshot implements sm.IOnDiskStateMachine. The stream begins with its length.
func (p *partition) SaveSnapshot(_ any, w io.Writer, _ <-chan struct{}) error {
	var b bytes.Buffer
	if _, err := p.c.ExportPartition(context.Background(), p.id, &b); err != nil {
		return err
	}
	_, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(b.Len())), b.Bytes()...))
	return err
}

// RecoverFromSnapshot implements sm.IOnDiskStateMachine.
func (p *partition) RecoverFromSnapshot(r io.Reader, _ <-chan struct{}) error {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	content, err := p.c.InstallPartition(context.Background(), io.LimitReader(r, int64(binary.LittleEndian.Uint64(head[:]))))
	if err == nil {
		p.id, p.next = content.Partition, content.Index+1
	}
	return err
}

// Close implements sm.IOnDiskStateMachine.
func (p *partition) Close() error { return nil }
