package command

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// Control is an entry that concerns the group and no item:
//
//	+---------+------+------+
//	| version | kind | time |    version: 128, of which no command is; time: 8 bytes, as in a command
//	|    1    |  1   |  8   |    kind 1: only the time
//	+---------+------+------+
//	kind 2, a split: right group | length | boundary, as its text
//	kind 3, a default time to live: revision | seconds + 1; both uvarints
type Control struct {
	// Time is the present by the clock of the leader that has proposed the entry.
	Time time.Time
	// Split, if not nil, divides the range of the group at this entry.
	Split *Split
	// TTL, if not nil, changes the default time to live of the group's items at this entry.
	TTL *TTL
}

// TTL is a default time to live. A change whose revision is not above that of an earlier one does nothing.
type TTL struct {
	Revision uint64 // above 0
	Seconds  int64  // 0: nothing expires, -1: what has a time of its own, at most 2^31 - 1
}

// Split divides the range of a group. What lies below At stays with the group, the rest
// becomes another group, whose log begins behind the entry.
type Split struct {
	Right uint64 // id of the new group, which no group has had
	At    string // effective partition key, in hexadecimal digits
}

const (
	control     = 128
	kindTime    = 1
	kindSplit   = 2
	kindTTL     = 3
	mostControl = 1 << 10 // bytes of a boundary at most
)

// Append appends the encoded entry to dst.
func (c *Control) Append(dst []byte) []byte {
	kind := byte(kindTime)
	if c.Split != nil {
		kind = kindSplit
	} else if c.TTL != nil {
		kind = kindTTL
	}
	dst = binary.BigEndian.AppendUint64(append(dst, control, kind), uint64(c.Time.UnixMilli()))
	if c.Split != nil {
		dst = appendString(binary.AppendUvarint(dst, c.Split.Right), c.Split.At)
	} else if c.TTL != nil {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, c.TTL.Revision), uint64(c.TTL.Seconds+1))
	}
	return dst
}

// IsControl reports whether the bytes of an entry are those of a Control.
func IsControl(b []byte) bool { return len(b) > 0 && b[0] == control }

// DecodeControl decodes a Control. Errors: engine.ErrTooNew for a kind that this program does
// not know, engine.ErrInvalid otherwise.
func DecodeControl(b []byte) (*Control, error) {
	r := reader{b: b}
	if v := r.byte("version"); r.err == nil && v != control {
		return nil, fmt.Errorf("control entry of version %d: %w", v, engine.ErrTooNew)
	}
	kind := r.byte("kind")
	c := new(Control)
	if t := r.take(8, "time"); t != nil {
		c.Time = time.UnixMilli(int64(binary.BigEndian.Uint64(t)))
	}
	switch {
	case r.err != nil:
	case kind == kindSplit:
		c.Split = &Split{Right: r.uvarint("right group"), At: string(r.bytes("boundary"))}
		if r.err == nil && (c.Split.Right == 0 || len(c.Split.At) > mostControl) {
			r.fail("split")
		}
	case kind == kindTTL:
		revision, seconds := r.uvarint("revision"), r.uvarint("default time to live")
		if r.err == nil && (revision == 0 || seconds > math.MaxInt32+1) {
			r.fail("default time to live")
		}
		c.TTL = &TTL{Revision: revision, Seconds: int64(seconds) - 1}
	case kind != kindTime:
		r.tooNew("kind", kind)
	}
	if r.err == nil && r.at != len(b) {
		r.fail("bytes follow the end")
	}
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}
