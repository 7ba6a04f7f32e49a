// Package command encodes what clients ask of a group: batches of operations on items, with
// an id by which the group carries each command out once. A command is encoded by its maker
// and decoded by every replica, so its bytes mean the same in all of them: a decoder that
// does not know a version or an operation refuses the command with ErrTooNew, and its
// replica applies nothing more until it is updated.
//
// # Format
//
// Integers are uvarints of encoding/binary, unless a width is given.
//
//	command
//	+---------+----+-------+------+---+-----------+
//	| version | id | after | time | n | n × batch |
//	|    1    | 16 |       |  8   |   |           |    time: milliseconds since 1970, big-endian
//	+---------+----+-------+------+---+-----------+
//
//	batch:      length | partition key, as its text | n | n × operation
//	operation:  kind (1) | length | id | length | document | ttl | etag (8)
//	            ttl: 0: none given, 1: for ever, else milliseconds + 1
//	            etag: IfMatch, little-endian; 0: none
//	patch:      the document is n | n × edit
//	edit:       kind (1) | length | path | length | value
//	            value: JSON; of a move the path from; of an increment a float64, little-endian
//
// The time has its own width and place so that a leader can stamp an encoded command.
//
// An entry of the log has one command, or several that a leader has gathered:
//
//	gathered
//	+---------+---+----------------------+
//	| version | n | n × (length, command) |    version: 2, of which a command has none
//	|    1    |   |                      |
//	+---------+---+----------------------+
package command

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// Version is the newest version of the format of a command that this program knows.
const Version = 1

// gathered is the version of an entry with several commands; the next version of a command is 3.
const gathered = 2

// ID names a command. No two commands of a group may have the same one: take random bytes.
type ID [16]byte

// Command is what a client asks of a group: batches that are carried out one by one, each as
// a whole or not at all, in one entry of the group's log.
type Command struct {
	ID ID
	// After is an entry that the group had applied when the command was first proposed. The
	// group carries the command out at most once, and only within its window behind After;
	// it knows the ids of all commands in the window, which is as many entries, or fewer if these
	// have many commands. So a command may be proposed again as
	// long as its outcome is unknown, with the same After.
	After uint64
	// Time is the present, for the command's effects. The leader sets it.
	Time    time.Time
	Batches []Batch
}

// Batch is a batch of operations on items of one logical partition.
type Batch struct {
	Key        engine.PartitionKey
	Operations []Operation
}

// Kind is what an operation does. The values are on disk.
type Kind byte

// The kinds of operations: those of engine.Batch.
const (
	Create  Kind = 1
	Upsert  Kind = 2
	Replace Kind = 3
	Put     Kind = 4
	Delete  Kind = 5
	Patch   Kind = 6
	// Check writes nothing: the item has the etag IfMatch or, if that is 0, there is none.
	Check Kind = 7
)

// Operation is an operation on one item.
type Operation struct {
	Kind    Kind
	ID      string        // of Put, Delete, Patch and Check; others have it in the document
	Body    []byte        // document of Create, Upsert and Replace, bytes of Put
	Edits   []Edit        // of Patch
	TTL     time.Duration // as engine.WriteOptions has it; a Client refuses one below zero but NoExpiry
	IfMatch engine.ETag
}

// EditKind is a kind of change of a document. The values are on disk.
type EditKind byte

// The changes: those of engine.Patch.
const (
	EditSet       EditKind = 1
	EditAdd       EditKind = 2
	EditReplace   EditKind = 3
	EditRemove    EditKind = 4
	EditIncrement EditKind = 5
	EditMove      EditKind = 6
)

// Edit is one change of a patch.
type Edit struct {
	Kind  EditKind
	Path  string
	From  string          // of EditMove
	Value json.RawMessage // of EditSet, EditAdd and EditReplace
	By    float64         // of EditIncrement
}

const timeAt = 1 + 16

// mostTTL is the highest encoded time to live; a longer one is cut to it.
const mostTTL = uint64(math.MaxInt64 / time.Millisecond)

// Append appends the encoded command to dst.
func (c *Command) Append(dst []byte) []byte {
	dst = append(slices.Grow(dst, c.Size()), Version)
	dst = append(dst, c.ID[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Time.UnixMilli()))
	dst = binary.AppendUvarint(dst, c.After)
	dst = binary.AppendUvarint(dst, uint64(len(c.Batches)))
	for i := range c.Batches {
		b := &c.Batches[i]
		dst = appendString(dst, b.Key.String())
		dst = binary.AppendUvarint(dst, uint64(len(b.Operations)))
		for k := range b.Operations {
			dst = b.Operations[k].append(dst)
		}
	}
	return dst
}

// Size is about how long the encoded command is.
func (c *Command) Size() int {
	const head, operation = timeAt + 8 + 2*binary.MaxVarintLen64, 1 + 8 + 3*binary.MaxVarintLen32
	n := head
	for i := range c.Batches {
		b := &c.Batches[i]
		n += head + len(b.Key.Encoded())
		for k := range b.Operations {
			n += operation + len(b.Operations[k].ID) + len(b.Operations[k].Body)
			for _, e := range b.Operations[k].Edits {
				n += operation + len(e.Path) + len(e.From) + len(e.Value)
			}
		}
	}
	return n
}

// Stamp sets the time of an encoded command.
func Stamp(encoded []byte, now time.Time) {
	binary.BigEndian.PutUint64(encoded[timeAt:], uint64(now.UnixMilli()))
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func (o *Operation) append(dst []byte) []byte {
	dst = appendString(append(dst, byte(o.Kind)), o.ID)
	body := o.Body
	if o.Kind == Patch {
		body = binary.AppendUvarint(nil, uint64(len(o.Edits)))
		for i := range o.Edits {
			e := &o.Edits[i]
			body = appendString(append(body, byte(e.Kind)), e.Path)
			switch e.Kind {
			case EditMove:
				body = appendString(body, e.From)
			case EditIncrement:
				body = binary.LittleEndian.AppendUint64(append(body, 8), math.Float64bits(e.By))
			default:
				body = appendString(body, string(e.Value))
			}
		}
	}
	dst = append(binary.AppendUvarint(dst, uint64(len(body))), body...)
	switch {
	case o.TTL < 0:
		dst = binary.AppendUvarint(dst, 1)
	case o.TTL > 0: // less than a millisecond must not become that of ever
		dst = binary.AppendUvarint(dst, min(uint64(max(o.TTL, time.Millisecond)/time.Millisecond)+1, mostTTL))
	default:
		dst = binary.AppendUvarint(dst, 0)
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(o.IfMatch))
}

// Decode decodes a command; it holds parts of b. Errors: engine.ErrTooNew for a version,
// operation or edit that this program does not know, engine.ErrInvalid otherwise.
func Decode(b []byte) (*Command, error) {
	r := reader{b: b}
	if v := r.byte("version"); r.err == nil && v != Version {
		return nil, fmt.Errorf("command of version %d: %w", v, engine.ErrTooNew)
	}
	c := new(Command)
	copy(c.ID[:], r.take(len(c.ID), "id"))
	if t := r.take(8, "time"); t != nil {
		c.Time = time.UnixMilli(int64(binary.BigEndian.Uint64(t)))
	}
	c.After = r.uvarint("after")
	for i := r.count(2, "batches"); i > 0 && r.err == nil; i-- {
		c.Batches = append(c.Batches, r.batch())
	}
	if r.err == nil && r.at != len(b) {
		r.fail("bytes follow the end")
	}
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// Gather appends the encoding of an entry with encoded commands to dst.
func Gather(dst []byte, commands [][]byte) []byte {
	if len(commands) == 1 {
		return append(dst, commands[0]...)
	}
	size := 1 + binary.MaxVarintLen32
	for _, c := range commands {
		size += binary.MaxVarintLen32 + len(c)
	}
	dst = binary.AppendUvarint(append(slices.Grow(dst, size), gathered), uint64(len(commands)))
	for _, c := range commands {
		dst = append(binary.AppendUvarint(dst, uint64(len(c))), c...)
	}
	return dst
}

// DecodeEntry decodes the commands of an entry, of which there is at least one; they hold
// parts of b. Errors: those of Decode.
func DecodeEntry(b []byte) ([]*Command, error) {
	if len(b) == 0 || b[0] != gathered {
		c, err := Decode(b)
		if err != nil {
			return nil, err
		}
		return []*Command{c}, nil
	}
	r := reader{b: b, at: 1}
	n := r.count(minCommand+1, "commands")
	if r.err == nil && n == 0 {
		r.fail("no command")
	}
	out := make([]*Command, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		encoded := r.bytes("command")
		if r.err != nil {
			break
		}
		c, err := Decode(encoded)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if r.err == nil && r.at != len(b) {
		r.fail("bytes follow the end")
	}
	if r.err != nil {
		return nil, r.err
	}
	return out, nil
}

// minCommand is the size of the smallest command, in bytes.
const minCommand = 1 + 16 + 8 + 1 + 1

type reader struct {
	b   []byte
	at  int
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: command, byte %d: %s", engine.ErrInvalid, r.at, what)
	}
}

func (r *reader) tooNew(what string, v byte) {
	if r.err == nil {
		r.err = fmt.Errorf("command, byte %d: %s %d: %w", r.at, what, v, engine.ErrTooNew)
	}
}

func (r *reader) take(n int, what string) []byte {
	if r.err == nil && n > len(r.b)-r.at {
		r.fail(what)
	}
	if r.err != nil {
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at : r.at]
}

func (r *reader) byte(what string) byte {
	if b := r.take(1, what); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint(what string) uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 {
		r.fail(what)
		return 0
	}
	r.at += n
	return v
}

// count reads the number of things that take at least size bytes each.
func (r *reader) count(size int, what string) int {
	n := r.uvarint(what)
	if r.err == nil && n > uint64((len(r.b)-r.at)/size) {
		r.fail(what + ": more than there are bytes for")
		return 0
	}
	return int(n)
}

func (r *reader) bytes(what string) []byte { return r.take(r.count(1, what), what) }

func (r *reader) batch() (b Batch) {
	text := r.bytes("partition key")
	if r.err == nil {
		key, err := engine.ParseKey(string(text))
		if err != nil {
			r.fail(err.Error())
		}
		b.Key = key
	}
	for i := r.count(4, "operations"); i > 0 && r.err == nil; i-- {
		b.Operations = append(b.Operations, r.operation())
	}
	return b
}

func (r *reader) operation() (o Operation) {
	o.Kind = Kind(r.byte("kind"))
	if r.err == nil && (o.Kind < Create || o.Kind > Check) {
		r.tooNew("operation", byte(o.Kind))
	}
	o.ID = string(r.bytes("id"))
	o.Body = r.bytes("document")
	if o.Kind == Patch && r.err == nil {
		edits := reader{b: o.Body}
		o.Edits, o.Body = edits.edits(), nil
		if edits.err != nil {
			r.err = edits.err
		}
	}
	switch ttl := r.uvarint("ttl"); {
	case ttl == 1:
		o.TTL = engine.NoExpiry
	case ttl > mostTTL:
		r.fail("ttl")
	case ttl > 1:
		o.TTL = time.Duration(ttl-1) * time.Millisecond
	}
	if e := r.take(8, "etag"); e != nil {
		o.IfMatch = engine.ETag(binary.LittleEndian.Uint64(e))
	}
	return o
}

func (r *reader) edits() (edits []Edit) {
	for i := r.count(3, "edits"); i > 0 && r.err == nil; i-- {
		e := Edit{Kind: EditKind(r.byte("edit")), Path: string(r.bytes("path"))}
		value := r.bytes("value")
		switch e.Kind {
		case EditMove:
			e.From = string(value)
		case EditIncrement:
			if len(value) != 8 {
				r.fail("increment")
				break
			}
			e.By = math.Float64frombits(binary.LittleEndian.Uint64(value))
		case EditSet, EditAdd, EditReplace:
			e.Value = value
		case EditRemove:
		default:
			r.tooNew("edit", byte(e.Kind))
		}
		edits = append(edits, e)
	}
	if r.err == nil && r.at != len(r.b) {
		r.fail("bytes follow the edits")
	}
	return edits
}

// Build makes the engine's batches of a command. An error is the same in every replica of
// the container: engine.ErrInvalid, ErrKeyMismatch, ErrTooLarge.
func (c *Command) Build(to *engine.Container) ([]*engine.Batch, error) {
	out := make([]*engine.Batch, 0, len(c.Batches))
	for i := range c.Batches {
		b := to.NewBatch(c.Batches[i].Key)
		for k := range c.Batches[i].Operations {
			if err := c.Batches[i].Operations[k].add(b); err != nil {
				return nil, fmt.Errorf("batch %d, operation %d: %w", i, k, err)
			}
		}
		out = append(out, b)
	}
	return out, nil
}

func (o *Operation) add(b *engine.Batch) error {
	w := &engine.WriteOptions{TTL: o.TTL, IfMatch: o.IfMatch}
	switch o.Kind {
	case Create:
		return b.Create(o.Body, w)
	case Upsert:
		return b.Upsert(o.Body, w)
	case Replace:
		return b.Replace(o.Body, w)
	case Put:
		return b.Put(o.ID, o.Body, w)
	case Delete:
		return b.Delete(o.ID, w)
	case Check:
		return b.Check(o.ID, o.IfMatch)
	}
	p := new(engine.Patch)
	for i := range o.Edits {
		switch e := &o.Edits[i]; e.Kind {
		case EditSet:
			p.Set(e.Path, e.Value)
		case EditAdd:
			p.Add(e.Path, e.Value)
		case EditReplace:
			p.Replace(e.Path, e.Value)
		case EditRemove:
			p.Remove(e.Path)
		case EditIncrement:
			p.Increment(e.Path, e.By)
		case EditMove:
			p.Move(e.From, e.Path)
		}
	}
	return b.Patch(o.ID, p, w)
}
