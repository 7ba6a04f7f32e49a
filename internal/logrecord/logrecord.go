// Package logrecord encodes and decodes the operations in records of the log. It only
// converts bytes: package wal stores them, and package engine gives them their meaning. It
// does not trust the bytes that it decodes, and refuses those that no store writes.
//
// A log record of type Write carries the operations of one batch, in order.
// Operation i has the sequence first+i. One operation:
//
//	kind      1 byte: 1 put, 2 delete, 3 delete of the logical partition,
//	          4 put of a claim on a unique key
//	key       uvarint length, encoded partition key
//	id        uvarint length, bytes; absent for kind 3
//	modified  uvarint, milliseconds since the Unix epoch
//	expires   uvarint, milliseconds since the Unix epoch, 0 never
//	body      uvarint length, bytes; only for a put, of a document or a claim
//
// A record of type Carried holds operations that have sequences of their own:
// copies of operations of earlier records, or those of an entry of a replicated log.
// The sequence precedes each operation as a uvarint. The EPK is not stored, because it is the
// hash of the key. Only a record of type Carried may have an applied mark. The mark says which
// entry the partition has reached with the sequence of the record.
//
//	kind      1 byte: 5
//	index     uvarint, not 0
//	time      uvarint, milliseconds since the Unix epoch
//
// A mark of kind 6 also has the rule for times to live (lifetime.Rule) that holds from the entry on. Only
// the mark of an entry that changes the rule has it, and the first of carried records:
//
//	revision  uvarint, not 0
//	default   uvarint, milliseconds + 1
//	own       uvarint, milliseconds since the Unix epoch
//	unsaid    uvarint, milliseconds since the Unix epoch
//
// Sequences, indexes and times are bounded as in package item: a record with
// higher ones does not decode.
package logrecord

import (
	"encoding/binary"
	"errors"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

const (
	opPut       = 1
	opDelete    = 2
	opDeleteAll = 3
	opClaim     = 4
	opMark      = 5
	opTTLMark   = 6
)

var (
	errBadOperation = errors.New("operation does not decode")
	errBadTime      = errors.New("time stamp of no year from 1970 to 9999")
)

// Operation is one write to one item, or a mark.
type Operation struct {
	Key     item.Key
	Version item.Version // Seq is set from the record
	EPK     partmap.EPK
	At      manifest.Applied // not zero: the operation is a mark
}

// AppendHead encodes an operation up to the bytes of its body, which the
// caller appends.
func AppendHead(dst []byte, k *item.Key, v *item.Version) []byte {
	kind := byte(opPut)
	if v.Flags&item.Claim != 0 {
		kind = opClaim
	}
	if v.Deleted() {
		kind = opDelete
	}
	if k.OfPartition() {
		kind = opDeleteAll
	}
	dst = append(dst, kind)
	dst = binary.AppendUvarint(dst, uint64(len(k.PK)))
	dst = append(dst, k.PK...)
	if kind != opDeleteAll {
		dst = binary.AppendUvarint(dst, uint64(len(k.ID)))
		dst = append(dst, k.ID...)
	}
	dst = binary.AppendUvarint(dst, uint64(v.Modified))
	dst = binary.AppendUvarint(dst, uint64(v.Expires))
	if kind == opPut || kind == opClaim {
		dst = binary.AppendUvarint(dst, uint64(len(v.Body)))
	}
	return dst
}

// AppendCarried encodes an operation of a record of type Carried.
func AppendCarried(dst []byte, k *item.Key, v *item.Version) []byte {
	dst = binary.AppendUvarint(dst, v.Seq)
	dst = AppendHead(dst, k, v)
	return append(dst, v.Body...)
}

// Decode reads one operation from b and returns the rest of b. The
// slices of op point into b.
func Decode(b []byte, carried bool, op *Operation) ([]byte, error) {
	if carried {
		seq, rest, err := uvarint(b)
		if err != nil || seq == 0 || seq > item.MaxSeq {
			return nil, errBadOperation
		}
		op.Version.Seq, b = seq, rest
	}
	if len(b) == 0 {
		return nil, errBadOperation
	}
	kind := b[0]
	b = b[1:]
	op.At = manifest.Applied{}
	if (kind == opMark || kind == opTTLMark) && carried {
		return decodeMark(b, kind == opTTLMark, op)
	}
	pk, b, err := lengthPrefixed(b, item.MaxPK)
	if err != nil {
		return nil, err
	}
	var id []byte
	if kind != opDeleteAll {
		if id, b, err = lengthPrefixed(b, item.MaxID); err != nil {
			return nil, err
		}
		if len(id) == 0 {
			return nil, errBadOperation
		}
	}
	modified, b, err := uvarint(b)
	if err != nil {
		return nil, err
	}
	expires, b, err := uvarint(b)
	if err != nil {
		return nil, err
	}
	if modified > item.MaxTime || expires > item.MaxExpires {
		return nil, errBadTime
	}
	op.Version.Modified, op.Version.Expires = int64(modified), int64(expires)
	op.Version.Flags, op.Version.Body = 0, nil
	switch kind {
	case opPut, opClaim:
		if op.Version.Body, b, err = lengthPrefixed(b, len(b)); err != nil {
			return nil, err
		}
		if kind == opClaim {
			op.Version.Flags = item.Claim
		}
	case opDelete, opDeleteAll:
		op.Version.Flags = item.Tombstone
	default:
		return nil, errBadOperation
	}
	op.EPK = partmap.HashEncoded(pk)
	op.Key = item.Key{Hash: op.EPK.Head(), EPK: op.EPK.Bytes(), PK: pk, ID: id}
	if len(op.Key.EPK) == 0 {
		return nil, errBadOperation
	}
	return b, nil
}

// AppendMark encodes a mark with its sequence, and with the rule of at if that is not zero.
func AppendMark(dst []byte, seq uint64, at manifest.Applied) []byte {
	kind := byte(opMark)
	if at.TTL.Revision != 0 {
		kind = opTTLMark
	}
	dst = append(binary.AppendUvarint(dst, seq), kind)
	dst = binary.AppendUvarint(dst, at.Index)
	dst = binary.AppendUvarint(dst, uint64(at.Time))
	if kind == opTTLMark {
		dst = binary.AppendUvarint(dst, at.TTL.Revision)
		dst = binary.AppendUvarint(dst, uint64(at.TTL.Default+1))
		dst = binary.AppendUvarint(dst, uint64(at.TTL.Own))
		dst = binary.AppendUvarint(dst, uint64(at.TTL.Unsaid))
	}
	return dst
}

func decodeMark(b []byte, ruled bool, op *Operation) ([]byte, error) {
	index, b, err := uvarint(b)
	if err != nil || index == 0 || index > item.MaxIndex {
		return nil, errBadOperation
	}
	at, b, err := uvarint(b)
	if err != nil {
		return nil, err
	}
	if at > item.MaxTime {
		return nil, errBadTime
	}
	op.At = manifest.Applied{Index: index, Time: int64(at)}
	if !ruled {
		return b, nil
	}
	var of [4]uint64
	for i := range of {
		if of[i], b, err = uvarint(b); err != nil {
			return nil, err
		}
	}
	if of[1] > lifetime.MaxDefault+1 || of[2] > item.MaxTime || of[3] > item.MaxTime {
		return nil, errBadTime
	}
	op.At.TTL = lifetime.Rule{Revision: of[0], Default: int64(of[1]) - 1, Own: int64(of[2]), Unsaid: int64(of[3])}
	if of[0] == 0 || !op.At.TTL.Valid(op.At.Time) {
		return nil, errBadOperation
	}
	return b, nil
}

func uvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, errBadOperation
	}
	return v, b[n:], nil
}

func lengthPrefixed(b []byte, limit int) (value, rest []byte, err error) {
	n, b, err := uvarint(b)
	if err != nil || n > uint64(limit) || n > uint64(len(b)) {
		return nil, nil, errBadOperation
	}
	return b[:n], b[n:], nil
}
