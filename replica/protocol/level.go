package protocol

import (
	"encoding/binary"
	"time"
)

// Level says what a read promises. All levels see the entries of a partition whole and in
// their order: what a replica has is a prefix of them.
type Level byte

const (
	// Strong reads see every write that was acknowledged before they began.
	Strong Level = 1
	// Eventual reads see what the replica that is asked has applied.
	Eventual Level = 2
	// Session reads see what the session has written and seen, or newer.
	Session Level = 3
	// Bounded reads see every write that was acknowledged longer ago than Bounds.Age, and lack
	// at most Bounds.Entries entries of those that the replica or the client has heard of.
	Bounded Level = 4
	// Prefix reads see a prefix of the writes of a partition. Here this is what Eventual is.
	Prefix Level = 5
)

// String returns the model's name of the level.
func (l Level) String() string {
	switch l {
	case Strong:
		return "strong"
	case Eventual:
		return "eventual"
	case Session:
		return "session"
	case Bounded:
		return "bounded staleness"
	case Prefix:
		return "consistent prefix"
	}
	return "unknown"
}

// Bounds are those of bounded staleness.
type Bounds struct {
	// Age is in milliseconds on the wire. It is at least one.
	Age     time.Duration
	Entries uint64
}

// maxAge bounds what another machine may say.
const maxAge = 24 * time.Hour

func (r *ReadRequest) appendLevel(dst []byte) []byte {
	dst = append(dst, byte(r.Level))
	if r.Level == Session || r.Level == Bounded {
		dst = binary.AppendUvarint(dst, r.Index)
	}
	if r.Level == Bounded {
		dst = binary.AppendUvarint(dst, uint64(max(r.Bounds.Age.Milliseconds(), 1)))
		dst = binary.AppendUvarint(dst, r.Bounds.Entries)
	}
	return dst
}

func (r *ReadRequest) decodeLevel(f *reader) {
	r.Level = Level(f.byte())
	if r.Level == Session || r.Level == Bounded {
		r.Index = f.uvarint()
	}
	if r.Level == Bounded {
		r.Bounds.Age = time.Duration(min(f.uvarint(), uint64(maxAge.Milliseconds()))) * time.Millisecond
		r.Bounds.Entries = f.uvarint()
		f.bad = f.bad || r.Bounds.Age == 0 || r.Bounds.Entries >= 1<<63
	}
}
