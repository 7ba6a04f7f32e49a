// Package protocol encodes what clients ask of a node and what it answers, as frames of package
// transport. Each request has a number that its answer repeats; answers come in any order.
//
// # Format
//
// Integers are uvarints of encoding/binary, unless a width is given; texts have their length
// before them.
//
//	kind 16 propose: number | group | container | command, see package command
//	     17 read:    number | group | level | container | partition key, as its text | id
//	     18 scan:    number | group | level | container | partition key | after id | limit
//	     19 status:  number
//	     20 routes:  number
//	     21 change:  number | group | what (1) | first | second | text, see Change
//	     22 export:  number | group | offset | alone (1)
//	     23 query:   number | group | level | container | partition key, or its first levels, empty: all |
//	                 from | to | query in SQL | its parameters as JSON | limit | continuation
//	     24 answer:  number | code (1) | leader | applied | the rest
//	     25 changes: number | group | strong (1) | container | min | max | position | limit
//	     26 cancel:  number of a query that nobody waits for any more. It has no answer; a node of before
//	                 there was the kind says that it does not know it, to a number of which nobody hears
//
//	min, max: of the range, as effective partition keys
//	level: 1 byte; of session: index; of bounded staleness: index | age (ms) | entries
//
//	code 0, carried out:  of propose: index | duplicate (1) | n × batch
//	                      of read:    item
//	                      of scan:    more (1) | n × item
//	                      of status:  JSON of host.Status
//	                      of routes:  n × (node | address) | n × (length | group, as package topology has it) |
//	                                  n × number of a container that was dropped
//	                      of change:  id of the replica that was added, else 0
//	                      of export:  size | index | content from the offset on; size 0: the node is still at it, and the
//	                                  client asks again, with the highest offset that there is
//	                      of query:   done (1) | n × (etag (8), 0: of no item | length | result) |
//	                                  continuation | short one | documents read | bytes of them | charge
//	                      of changes: more (1) | position | charge | n × (partition key | sequence | item)
//	else:                 text of the error
//	batch:                code (1) | code 0: n | n × (etag (8) | sequence | modified | charge);
//	                      code of a unique key: text | id that was refused | id that has the values | n × path; else text
//	item:                 length | id | etag (8) | modified | charge | length | body
//	charge:               request units, IEEE 754 double, 8 bytes, little endian
//
// Leader is the node that leads the group as far as the one who answers knows, 0 if it knows
// none; applied is the newest entry of the group that it has applied. In an answer to a read that
// has found an item, or that there is none, the read has seen no later entry than applied.
package protocol

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/transport"
)

// The kinds of frames.
const (
	Propose = transport.FirstOfClients
	Read    = transport.FirstOfClients + 1
	Scan    = transport.FirstOfClients + 2
	Status  = transport.FirstOfClients + 3
	Routes  = transport.FirstOfClients + 4
	Alter   = transport.FirstOfClients + 5
	Export  = transport.FirstOfClients + 6
	Query   = transport.FirstOfClients + 7
	Answer  = transport.FirstOfClients + 8
	Changes = transport.FirstOfClients + 9
	Cancel  = transport.FirstOfClients + 10
)

// QueryTime is how long a node is at a query at most, from when it has come. A client waits longer: a query that takes too long is
// answered, with what there is or with an error, and is not evaluated by one node after the other.
const QueryTime = 9 * time.Second

// MaxScan is how many items an answer to a scan has at most.
const MaxScan = 1000

// ErrInvalid says that bytes are no request or answer.
var ErrInvalid = errors.New("bytes are no request or answer")

// ErrNoGroup says that the node has no replica of the group.
var ErrNoGroup = errors.New("node has no replica of the group")

// ErrChange says that a change of a group has come to nothing, or cannot be made now.
var ErrChange = errors.New("change of the group has come to nothing")

// errs are the errors that have codes. The codes are fixed: a new error comes at the end.
var errs = []error{
	1: errors.ErrUnsupported, group.ErrNotLeader, group.ErrBusy, group.ErrUnknown, group.ErrExpired, group.ErrFailed, ErrNoGroup,
	8: engine.ErrNotFound, engine.ErrExists, engine.ErrPrecondition, engine.ErrUniqueKey, engine.ErrTooLarge, engine.ErrInvalid,
	14: engine.ErrKeyMismatch, engine.ErrLogicalPartitionFull, engine.ErrNoContainer, engine.ErrCorrupt, ErrInvalid,
	19: group.ErrRange, ErrChange, engine.ErrBadContinuation, context.DeadlineExceeded,
}

// ofRange is the code of group.ErrRange, which is an engine.ErrInvalid too.
const ofRange = 19

// other is the code of an error that has none.
const other = 255

func codeOf(err error) byte {
	if errors.Is(err, group.ErrRange) {
		return ofRange
	}
	for i := 1; i < len(errs); i++ {
		if errors.Is(err, errs[i]) {
			return byte(i)
		}
	}
	return other
}

// remote is an error of another node.
type remote struct {
	text string
	is   error // nil: one that has no code here
}

func (r *remote) Error() string { return r.text }
func (r *remote) Unwrap() error { return r.is }

func errorOf(code byte, text string) error {
	if int(code) < len(errs) {
		return &remote{text, errs[code]}
	}
	return &remote{text: text}
}

// ReadRequest asks for an item, for a page of the items of a logical partition, or for one of a query.
type ReadRequest struct {
	Group     uint64
	Level     Level
	Index     uint64 // of Session and Bounded: an entry that the replica must have
	Bounds    Bounds // of Bounded
	Container string
	Key       engine.PartitionKey
	ID        string // of a scan: ids must be higher
	Limit     uint64 // of a scan, or a query
	Query     Search // of a query
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendPropose appends a request that proposes an encoded command.
func AppendPropose(dst []byte, number, group uint64, container string, command []byte) []byte {
	return append(appendText(binary.AppendUvarint(binary.AppendUvarint(dst, number), group), container), command...)
}

// Append appends a request of kind Read, Scan or Query.
func (r *ReadRequest) Append(dst []byte, kind transport.Kind, number uint64) []byte {
	dst = r.appendLevel(binary.AppendUvarint(binary.AppendUvarint(dst, number), r.Group))
	if kind == Query {
		return r.appendQuery(dst)
	}
	dst = appendText(appendText(appendText(dst, r.Container), r.Key.String()), r.ID)
	if kind == Scan {
		dst = binary.AppendUvarint(dst, r.Limit)
	}
	return dst
}

// AppendStatus appends a request for the status of a node.
func AppendStatus(dst []byte, number uint64) []byte { return binary.AppendUvarint(dst, number) }

// AppendCancel appends a request to end a query.
func AppendCancel(dst []byte, number uint64) []byte { return binary.AppendUvarint(dst, number) }

// Request is a decoded request.
type Request struct {
	Number uint64
	Group  uint64
	// Container and Command are those of Propose. The command is part of what was decoded.
	Container string
	Command   []byte
	Read      ReadRequest
	Change    Change
	Changes   ChangesRequest
	Offset    uint64 // of Export
	Alone     bool   // of Export: no leader is to be asked
}

// DecodeRequest decodes a request. An error that comes with a number can be answered.
func DecodeRequest(kind transport.Kind, b []byte) (q Request, err error) {
	r := reader{b: b}
	q.Number = r.uvarint()
	if r.bad {
		return q, fmt.Errorf("%w: request of kind %d", ErrInvalid, kind)
	}
	switch kind {
	case Propose:
		q.Group, q.Container = r.uvarint(), string(r.bytes())
		q.Command, r.b = r.b, nil
	case Export:
		q.Group, q.Offset, q.Alone = r.uvarint(), r.uvarint(), r.byte() != 0
	case Read, Scan, Query:
		q.Group = r.uvarint()
		q.Read = ReadRequest{Group: q.Group}
		q.Read.decodeLevel(&r)
		q.Read.Container = string(r.bytes())
		key := string(r.bytes())
		switch kind {
		case Query:
			err = q.Read.decodeQuery(&r)
		case Scan:
			q.Read.ID, q.Read.Limit = string(r.bytes()), r.uvarint()
		default:
			q.Read.ID = string(r.bytes())
		}
		if r.bad {
			break
		}
		if err == nil && (key != "" || kind != Query) {
			q.Read.Key, err = engine.ParseKey(key)
		}
		if err != nil {
			return q, fmt.Errorf("%w: partition key or range: %w", ErrInvalid, err)
		}
		if q.Read.Level < Strong || q.Read.Level > Prefix {
			return q, fmt.Errorf("%w: level %d: %w", ErrInvalid, q.Read.Level, errors.ErrUnsupported)
		}
	case Status, Routes, Cancel:
	case Alter:
		q.Change.decode(&r)
	case Changes:
		err = q.Changes.decode(&r)
		if q.Group = q.Changes.Group; err != nil {
			return q, err
		}
	default:
		return q, fmt.Errorf("kind %d of a request: %w", kind, errors.ErrUnsupported)
	}
	if r.bad || len(r.b) > 0 {
		return q, fmt.Errorf("%w: request of kind %d", ErrInvalid, kind)
	}
	return q, nil
}

// Head is what every answer has.
type Head struct {
	Number          uint64
	Leader, Applied uint64
}

func (h *Head) append(dst []byte, code byte) []byte {
	dst = append(binary.AppendUvarint(dst, h.Number), code)
	return binary.AppendUvarint(binary.AppendUvarint(dst, h.Leader), h.Applied)
}

// AppendError appends an answer with an error.
func (h *Head) AppendError(dst []byte, err error) []byte {
	return append(h.append(dst, codeOf(err)), err.Error()...)
}

// AppendOutcome appends the answer to Propose.
func (h *Head) AppendOutcome(dst []byte, o *group.Outcome) []byte {
	if o.Err != nil {
		return h.AppendError(dst, o.Err)
	}
	dst = binary.AppendUvarint(h.append(dst, 0), o.Index)
	dst = binary.AppendUvarint(append(dst, flagOf(o.Duplicate)), uint64(len(o.Results)))
	for i := range o.Results {
		b := &o.Results[i]
		if b.Err != nil {
			dst = appendRefusal(dst, b.Err)
			continue
		}
		dst = binary.AppendUvarint(append(dst, 0), uint64(len(b.Metas)))
		for k := range b.Metas {
			m := &b.Metas[k]
			dst = binary.LittleEndian.AppendUint64(dst, uint64(m.ETag))
			dst = appendCharge(binary.AppendUvarint(binary.AppendUvarint(dst, m.Seq), uint64(m.Modified.UnixMilli())), m.Charge)
		}
	}
	return dst
}

func appendCharge(dst []byte, units float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(units))
}

func appendItem(dst []byte, it *engine.Item) []byte {
	dst = binary.LittleEndian.AppendUint64(appendText(dst, it.ID), uint64(it.ETag))
	dst = appendCharge(binary.AppendUvarint(dst, uint64(it.Modified.UnixMilli())), it.Charge)
	return append(binary.AppendUvarint(dst, uint64(len(it.Body))), it.Body...)
}

// AppendItem appends the answer to Read.
func (h *Head) AppendItem(dst []byte, it *engine.Item) []byte {
	return appendItem(h.append(dst, 0), it)
}

// AppendItems appends the answer to Scan. more says that there are items behind them.
func (h *Head) AppendItems(dst []byte, items []engine.Item, more bool) []byte {
	dst = binary.AppendUvarint(append(h.append(dst, 0), flagOf(more)), uint64(len(items)))
	for i := range items {
		dst = appendItem(dst, &items[i])
	}
	return dst
}

// AppendText appends an answer with a text.
func (h *Head) AppendText(dst, text []byte) []byte { return append(h.append(dst, 0), text...) }

// Reply is a decoded answer.
type Reply struct {
	Head
	Err  error // nil: the request was carried out
	rest []byte
}

// DecodeAnswer decodes what every answer has. The rest is decoded by the method for the
// request; it is part of b.
func DecodeAnswer(b []byte) (Reply, error) {
	r := reader{b: b}
	p := Reply{Head: Head{Number: r.uvarint()}}
	code := r.byte()
	p.Leader, p.Applied = r.uvarint(), r.uvarint()
	if r.bad {
		return p, fmt.Errorf("%w: answer", ErrInvalid)
	}
	p.rest = r.b
	if code != 0 {
		p.Err = errorOf(code, string(r.b))
	}
	return p, nil
}

// Outcome decodes the answer to Propose.
func (p *Reply) Outcome() (o group.Outcome, err error) {
	r := reader{b: p.rest}
	o.Index = r.uvarint()
	o.Duplicate = r.byte() != 0
	for n := r.count(2); n > 0 && !r.bad; n-- {
		var b engine.BatchResult
		if code := r.byte(); code != 0 {
			b.Err = r.refusal(code)
		} else {
			for k := r.count(18); k > 0 && !r.bad; k-- {
				b.Metas = append(b.Metas, engine.Meta{ETag: engine.ETag(r.fixed()), Seq: r.uvarint(), Modified: time.UnixMilli(int64(r.uvarint())), Charge: r.charge()})
			}
		}
		o.Results = append(o.Results, b)
	}
	if r.bad || len(r.b) > 0 {
		return group.Outcome{}, fmt.Errorf("%w: outcome", ErrInvalid)
	}
	return o, nil
}

// Item decodes the answer to Read. Its body is part of what was decoded.
func (p *Reply) Item() (engine.Item, error) {
	r := reader{b: p.rest}
	it := r.item()
	if r.bad || len(r.b) > 0 {
		return engine.Item{}, fmt.Errorf("%w: item", ErrInvalid)
	}
	return it, nil
}

// Items decodes the answer to Scan.
func (p *Reply) Items() (items []engine.Item, more bool, err error) {
	r := reader{b: p.rest}
	more = r.byte() != 0
	for n := r.count(19); n > 0 && !r.bad; n-- {
		items = append(items, r.item())
	}
	if r.bad || len(r.b) > 0 {
		return nil, false, fmt.Errorf("%w: items", ErrInvalid)
	}
	return items, more, nil
}

// Text returns the answer to Status.
func (p *Reply) Text() []byte { return p.rest }

// reader takes fields off bytes. Once a field is missing it is bad.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) fixed() uint64 {
	if v := r.take(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

// charge reads request units, which are finite and not negative.
func (r *reader) charge() float64 {
	units := math.Float64frombits(r.fixed())
	if !(units >= 0 && units <= math.MaxFloat64) {
		r.bad, r.b = true, nil
		return 0
	}
	return units
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte { return r.take(r.uvarint()) }

// count reads the number of things that take at least size bytes each.
func (r *reader) count(size uint64) uint64 {
	n := r.uvarint()
	if n > uint64(len(r.b))/size {
		r.bad, r.b = true, nil
		return 0
	}
	return n
}

func (r *reader) item() (it engine.Item) {
	it.ID = string(r.bytes())
	it.ETag = engine.ETag(r.fixed())
	it.Modified = time.UnixMilli(int64(r.uvarint()))
	it.Charge = r.charge()
	it.Body = r.bytes()
	return it
}
