package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/wal"
)

// FormatVersion is the version of the manifest. Version 1 has no replicas that were removed, and before version 3 it
// holds all states. Records have been the same since version 1.
const FormatVersion = 3

const manifestMagic = "cleavRFT"

// kind says what a record is for. The values are on disk.
type kind byte

const (
	kindAppend  kind = 1
	kindInstall kind = 2
	kindDone    kind = 3
	kindVoid    kind = 4
)

// record is a decoded record.
type record struct {
	kind    kind
	hard    hardState // of kindAppend and kindInstall
	base    Base      // of kindInstall; of kindDone and kindVoid only the index
	first   uint64    // of kindAppend: index of the first entry
	entries []*pb.Entry
}

// hardState is a pb.HardState. Term 0: there is none.
type hardState struct{ term, vote, commit uint64 }

func (h *hardState) proto() *pb.HardState {
	if h.term == 0 {
		return nil
	}
	return &pb.HardState{Term: new(h.term), Vote: new(h.vote), Commit: new(h.commit)}
}

// Base is the state of a group at an entry: of the one behind which its log begins, or of
// a snapshot.
type Base struct {
	Index, Term uint64
	ConfState   *pb.ConfState
	// State is what the owner of the log keeps for the group at that entry.
	State []byte
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func appendHard(dst []byte, h *hardState) []byte {
	dst = binary.AppendUvarint(dst, h.term)
	dst = binary.AppendUvarint(dst, h.vote)
	return binary.AppendUvarint(dst, h.commit)
}

func appendBase(dst []byte, b *Base) ([]byte, error) {
	dst, err := appendPoint(dst, b)
	return appendBytes(dst, b.State), err
}

// appendPoint encodes what a base has before its state.
func appendPoint(dst []byte, b *Base) ([]byte, error) {
	conf, err := proto.MarshalOptions{Deterministic: true}.Marshal(b.ConfState)
	if err != nil {
		return nil, err
	}
	dst = binary.AppendUvarint(dst, b.Index)
	dst = binary.AppendUvarint(dst, b.Term)
	return appendBytes(dst, conf), nil
}

// appendEntries encodes an append.
func appendEntries(dst []byte, h *hardState, entries []*pb.Entry) []byte {
	size := 1 + 5*binary.MaxVarintLen64
	for _, e := range entries {
		size += 2*binary.MaxVarintLen64 + len(e.GetData())
	}
	dst = appendHard(append(slices.Grow(dst, size), byte(kindAppend)), h)
	first := uint64(0)
	if len(entries) > 0 {
		first = entries[0].GetIndex()
	}
	dst = binary.AppendUvarint(dst, first)
	dst = binary.AppendUvarint(dst, uint64(len(entries)))
	for _, e := range entries {
		dst = binary.AppendUvarint(dst, e.GetTerm())
		dst = append(dst, byte(e.GetType()))
		dst = appendBytes(dst, e.GetData())
	}
	return dst
}

// cursor reads fields. After the first error all fields are zero.
type cursor struct {
	b   []byte
	at  int
	err error
}

func (c *cursor) fail(what string) {
	if c.err == nil {
		c.err = fmt.Errorf("byte %d: %s", c.at, what)
	}
}

func (c *cursor) uvarint(what string) uint64 {
	if c.err != nil {
		return 0
	}
	v, n := binary.Uvarint(c.b[c.at:])
	if n <= 0 {
		c.fail(what)
		return 0
	}
	c.at += n
	return v
}

// bytes returns a field that begins with its length; it is a part of what is decoded.
func (c *cursor) bytes(what string) []byte {
	n := c.uvarint(what)
	if c.err == nil && n > uint64(len(c.b)-c.at) {
		c.fail(what + " is longer than what holds it")
	}
	return c.take(int(min(n, math.MaxInt32)), what)
}

func (c *cursor) take(n int, what string) []byte {
	if c.err == nil && n > len(c.b)-c.at {
		c.fail(what)
	}
	if c.err != nil {
		return nil
	}
	c.at += n
	return c.b[c.at-n : c.at : c.at]
}

// count reads the number of things that take at least size bytes each.
func (c *cursor) count(size int, what string) int {
	n := c.uvarint(what)
	if c.err == nil && n > uint64((len(c.b)-c.at)/size) {
		c.fail(what + ": more than there are bytes for")
		return 0
	}
	return int(n)
}

func (c *cursor) end() error {
	if c.err == nil && c.at != len(c.b) {
		c.fail("bytes follow the end")
	}
	return c.err
}

func (c *cursor) hard() (h hardState) {
	h = hardState{c.uvarint("term"), c.uvarint("vote"), c.uvarint("commit")}
	if c.err == nil && h.term == 0 && h != (hardState{}) {
		c.fail("a vote or a commit without a term")
	}
	return h
}

func (c *cursor) base() Base {
	b := c.point()
	b.State = append([]byte(nil), c.bytes("state")...)
	return b
}

// point reads what a base has before its state.
func (c *cursor) point() (b Base) {
	b.Index, b.Term = c.uvarint("base index"), c.uvarint("base term")
	conf := c.bytes("ConfState")
	b.ConfState = new(pb.ConfState)
	if c.err == nil {
		if err := proto.Unmarshal(conf, b.ConfState); err != nil {
			c.fail("ConfState: " + err.Error())
		}
	}
	if c.err == nil && (b.Index == 0) != (b.Term == 0) {
		c.fail("a base with an index and no term, or a term and no index")
	}
	return b
}

// noted reads a base whose state may be in a file.
func (c *cursor) noted() (b Base, f stateFile) {
	b = c.point()
	switch length := c.uvarint("state"); {
	case length <= inlineBytes:
		b.State = append([]byte(nil), c.take(int(length), "state")...)
	case length > maxStateBytes:
		c.fail("state is longer than any")
	default:
		f.length = uint32(length)
		if sum := c.take(4, "checksum of the state"); sum != nil {
			f.sum = binary.LittleEndian.Uint32(sum)
		}
	}
	return b, f
}

// decodeRecord decodes the payload of a record. What it returns shares no memory with b.
func decodeRecord(b []byte) (r record, err error) {
	c := cursor{b: b}
	if k := c.take(1, "kind"); k != nil {
		r.kind = kind(k[0])
	}
	switch r.kind {
	case kindAppend:
		r.hard, r.first = c.hard(), c.uvarint("first index")
		n := c.count(3, "entries")
		if c.err == nil && (n > 0) != (r.first > 0) || r.first > math.MaxUint64-uint64(n) {
			c.fail("a first index without entries, or entries without one")
		}
		for i := 0; i < n && c.err == nil; i++ {
			e := &pb.Entry{Index: new(r.first + uint64(i)), Term: new(c.uvarint("term"))}
			if t := c.take(1, "type"); t != nil {
				if _, ok := pb.EntryType_name[int32(t[0])]; !ok {
					c.fail("no type of an entry")
				}
				e.Type = pb.EntryType(t[0]).Enum()
			}
			if data := c.bytes("data"); len(data) > 0 {
				e.Data = append([]byte(nil), data...)
			}
			if c.err == nil && e.GetTerm() == 0 {
				c.fail("an entry of no term")
			}
			r.entries = append(r.entries, e)
		}
	case kindInstall:
		r.hard, r.base = c.hard(), c.base()
		if c.err == nil && r.base.Index == 0 {
			c.fail("an installation of nothing")
		}
	case kindDone, kindVoid:
		r.base.Index = c.uvarint("index")
	default:
		c.fail(fmt.Sprintf("no kind of record: %d", r.kind))
	}
	if err := c.end(); err != nil {
		return record{}, err
	}
	return r, nil
}

// manifest is what MANIFEST says.
type manifest struct {
	store      [16]byte
	nextStream uint32
	first      uint64
	closed     []wal.Closed
	groups     []groupState
	removed    []replicaOf // in the order in which they were removed
}

// replicaOf is a replica that a node has had.
type replicaOf struct{ group, replica uint64 }

// groupState is a group as the manifest describes it.
type groupState struct {
	stream  wal.Stream
	id      uint64
	replica uint64
	hard    hardState
	base    Base
	file    stateFile // of the state of the base; zero: the manifest has it
}

func (m *manifest) encode() ([]byte, error) {
	body := append([]byte(nil), m.store[:]...)
	body = binary.AppendUvarint(body, uint64(m.nextStream))
	body = binary.AppendUvarint(body, m.first)
	body = binary.AppendUvarint(body, uint64(len(m.closed)))
	for _, c := range m.closed {
		body = binary.AppendUvarint(body, c.File)
		body = binary.AppendUvarint(body, uint64(c.Length))
	}
	body = binary.AppendUvarint(body, uint64(len(m.groups)))
	var err error
	for i := range m.groups {
		g := &m.groups[i]
		body = binary.AppendUvarint(body, uint64(g.stream))
		body = binary.AppendUvarint(body, g.id)
		body = binary.AppendUvarint(body, g.replica)
		body = appendHard(body, &g.hard)
		if body, err = appendPoint(body, &g.base); err != nil {
			return nil, err
		}
		if g.file.length > 0 {
			body = binary.LittleEndian.AppendUint32(binary.AppendUvarint(body, uint64(g.file.length)), g.file.sum)
		} else {
			body = appendBytes(body, g.base.State)
		}
	}
	body = binary.AppendUvarint(body, uint64(len(m.removed)))
	for _, r := range m.removed {
		body = binary.AppendUvarint(binary.AppendUvarint(body, r.group), r.replica)
	}
	if len(body) > maxManifestBytes-sealBytes {
		return nil, fmt.Errorf("manifest of %d bytes: %w", len(body), fault.ErrTooLarge)
	}
	return seal(manifestMagic, FormatVersion, body), nil
}

// decodeManifest decodes MANIFEST. name is its path, for errors: *fault.CorruptionError, or
// fault.ErrTooNew.
func decodeManifest(name string, b []byte) (*manifest, error) {
	version, body, err := unseal(name, manifestMagic, FormatVersion, b)
	if err != nil {
		return nil, err
	}
	m := new(manifest)
	c := cursor{b: body}
	copy(m.store[:], c.take(len(m.store), "store id"))
	next := c.uvarint("next stream")
	if next > math.MaxUint32 {
		c.fail("next stream")
	}
	m.nextStream, m.first = uint32(next), c.uvarint("first log file")
	for i := c.count(2, "closed files"); i > 0 && c.err == nil; i-- {
		file, length := c.uvarint("file"), c.uvarint("length")
		if length > math.MaxInt64 {
			c.fail("length")
		}
		m.closed = append(m.closed, wal.Closed{File: file, Length: int64(length)})
	}
	for i := c.count(10, "groups"); i > 0 && c.err == nil; i-- {
		stream := c.uvarint("stream")
		if stream == 0 || stream >= next {
			c.fail("stream")
		}
		g := groupState{stream: wal.Stream(stream), id: c.uvarint("group id"), replica: c.uvarint("replica id"), hard: c.hard()}
		if version > 2 {
			g.base, g.file = c.noted()
		} else {
			g.base = c.base()
		}
		m.groups = append(m.groups, g)
	}
	if version > 1 {
		for i := c.count(2, "removed replicas"); i > 0 && c.err == nil; i-- {
			m.removed = append(m.removed, replicaOf{c.uvarint("group id"), c.uvarint("replica id")})
		}
	}
	if err := c.end(); err != nil {
		return nil, fault.Corrupt(name, int64(sealBytes+c.at), "manifest: %w", err)
	}
	return m, nil
}

// maxManifestBytes bounds what is read of a manifest.
const maxManifestBytes = 1 << 30

// ErrLost says that a part of the log that may have been acknowledged is missing or does not
// verify. The replicas of this log must not take part in their groups again: remove them
// and add empty replicas with new ids.
var ErrLost = errors.New("a part of the Raft log is lost: remove its replicas and add new ones with other ids")

// ErrRemoved says that a replica was removed from this node before.
var ErrRemoved = errors.New("replica was removed: its id must not be used again")

// lost is an error that matches ErrLost and its cause.
type lost struct{ cause error }

func (e *lost) Error() string   { return ErrLost.Error() + ": " + e.cause.Error() }
func (e *lost) Unwrap() []error { return []error{ErrLost, e.cause} }
