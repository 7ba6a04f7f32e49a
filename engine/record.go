package engine

import (
	"encoding/binary"
	"errors"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

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
// Each is preceded by its sequence as a uvarint. The EPK is not stored: it is the
// hash of the key. Only a record of type Carried may have a mark. It says which
// entry the partition has reached with the sequence of the record.
//
//	kind      1 byte: 5
//	index     uvarint, not 0
//	time      uvarint, milliseconds since the Unix epoch
//
// Sequences, indexes and times are at most what package item says: a record with
// higher ones does not decode.
const (
	opPut       = 1
	opDelete    = 2
	opDeleteAll = 3
	opClaim     = 4
	opMark      = 5
)

var (
	errBadOperation = errors.New("operation does not decode")
	errBadTime      = errors.New("time stamp of no year from 1970 to 9999")
)

// operation is one write to one item.
type operation struct {
	key item.Key
	ver item.Version // Seq is set from the record
	epk partmap.EPK
	at  manifest.Applied // not zero: the operation is a mark
}

// appendOperationHead encodes an operation up to the bytes of its body, which the
// caller appends.
func appendOperationHead(dst []byte, k *item.Key, v *item.Version) []byte {
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

// decodeOperation reads one operation from b and returns the rest of b. The
// slices of op point into b.
func decodeOperation(b []byte, carried bool, op *operation) ([]byte, error) {
	if carried {
		seq, rest, err := uvarint(b)
		if err != nil || seq == 0 || seq > item.MaxSeq {
			return nil, errBadOperation
		}
		op.ver.Seq, b = seq, rest
	}
	if len(b) == 0 {
		return nil, errBadOperation
	}
	kind := b[0]
	b = b[1:]
	op.at = manifest.Applied{}
	if kind == opMark && carried {
		return decodeMark(b, op)
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
	op.ver.Modified, op.ver.Expires = int64(modified), int64(expires)
	op.ver.Flags, op.ver.Body = 0, nil
	switch kind {
	case opPut, opClaim:
		if op.ver.Body, b, err = lengthPrefixed(b, len(b)); err != nil {
			return nil, err
		}
		if kind == opClaim {
			op.ver.Flags = item.Claim
		}
	case opDelete, opDeleteAll:
		op.ver.Flags = item.Tombstone
	default:
		return nil, errBadOperation
	}
	op.epk = partmap.HashEncoded(pk)
	op.key = item.Key{Hash: op.epk.Head(), EPK: op.epk.Bytes(), PK: pk, ID: id}
	if len(op.key.EPK) == 0 {
		return nil, errBadOperation
	}
	return b, nil
}

// appendMark encodes a mark with its sequence.
func appendMark(dst []byte, seq uint64, at manifest.Applied) []byte {
	dst = append(binary.AppendUvarint(dst, seq), opMark)
	dst = binary.AppendUvarint(dst, at.Index)
	return binary.AppendUvarint(dst, uint64(at.Time))
}

func decodeMark(b []byte, op *operation) ([]byte, error) {
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
	op.at = manifest.Applied{Index: index, Time: int64(at)}
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
