package wal

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Stream names the physical partition that a record belongs to. Records about
// the log itself have stream 0.
type Stream uint32

// Type says what a record is for. The values are on disk; zero is no type, so
// that unwritten bytes never decode.
type Type uint8

// Record types.
const (
	TypeWrite   Type = 1 // a batch, with sequences of its own
	TypeCarried Type = 2 // versions with sequences of their own: of an older record, or given from outside
	TypeFence   Type = 3 // the end of a stream: none of its records follows
	TypeVouch   Type = 4 // nothing but a synced-up-to mark for what is before it
	TypeSeal    Type = 5 // the last record of a full file
)

// String returns the type's name.
func (t Type) String() string {
	switch t {
	case TypeWrite:
		return "write"
	case TypeCarried:
		return "carried"
	case TypeFence:
		return "fence"
	case TypeVouch:
		return "vouch"
	case TypeSeal:
		return "seal"
	}
	return "type " + strconv.Itoa(int(t))
}

// Position is a place in the log as this process writes it: bytes of records
// since Create, growing across files.
type Position int64

// Ref says where a record is.
type Ref struct {
	File   uint64 // number of the file
	Offset int64  // of the record's header in the file, bytes
}

// Record is a record as it was read.
type Record struct {
	Stream Stream
	Type   Type
	// Seq is the first of Count sequences in a row; in a TypeCarried record
	// the highest sequence in it. With Count 0 it is the newest sequence that
	// was given out before.
	Seq     uint64
	Count   uint32
	Payload []byte // valid during the callback only
	File    uint64 // number of the file
	Offset  int64  // of the record's header in the file, bytes
	// Vouched says that the record is known to have been durable: it lies
	// below the synced-up-to mark of a record, or in a complete file. Of a file that may end
	// anywhere, only Recover with Options.Unsettled looks at the marks of later records.
	Vouched bool
}

// Last returns the highest sequence in the record.
func (r *Record) Last() uint64 { return lastSeq(r.Type, r.Seq, r.Count) }

func lastSeq(t Type, seq uint64, count uint32) uint64 {
	if t == TypeCarried || count == 0 {
		return seq
	}
	return seq + uint64(count) - 1
}

// Closed is the length of a file that is known to be complete and synced. The
// owner of the log keeps it in its manifest.
type Closed struct {
	File   uint64 `json:"file"`
	Length int64  `json:"length"` // bytes
}

// Dropped is what Recover drops: what lies behind the place where a power cut or a kill
// ended the log. It was never known to be durable.
type Dropped struct {
	Bytes   int64 `json:"bytes"`   // up to the end of the last record that can be recognized
	Records int64 `json:"records"` // records whose headers can be read
}

func (d *Dropped) add(e Dropped) {
	d.Bytes += e.Bytes
	d.Records += e.Records
}

// State is what the owner's manifest says about the log.
type State struct {
	First  uint64   // number of the lowest file that is needed; 0 stands for 1
	Closed []Closed // lengths noted, in any order
}

// Options are the settings of a log. The zero value of a field stands for its
// default.
type Options struct {
	// FirstFileBytes is the size of the first file, default 1 MiB; each
	// following one is twice as large, up to MaxFileBytes, default 64 MiB, at
	// least 64 KiB. A record that is larger than that gets a file of its size.
	FirstFileBytes int64
	MaxFileBytes   int64
	// MaxRecordBytes is the largest payload that Append takes, default 64 MiB. Recover
	// reads larger ones too.
	MaxRecordBytes int64
	// KeepSpareBytes bounds the spare files that Close leaves for the next
	// run; default none.
	KeepSpareBytes int64
	// Unsettled says that PrepareRecovery was not called, since a writer may be at work. Recover
	// then syncs the records that no mark vouches for, and reads them from the disk,
	// before it delivers them. It drops what it cannot sync.
	Unsettled bool
	// StoreID is written into each file; Recover refuses files of another store.
	StoreID [16]byte
	// RandomID returns the random numbers that tell the uses of a file apart,
	// default from crypto/rand. Two calls must not return the same value; a log
	// makes one at a time.
	RandomID func() uint64
}

const (
	minFileBytes = 64 << 10
	maxFileBytes = 1 << 32
)

func (o Options) withDefaults() Options {
	if o.MaxFileBytes == 0 {
		o.MaxFileBytes = 64 << 20
	}
	o.MaxFileBytes = min(max(o.MaxFileBytes, minFileBytes), maxFileBytes) &^ (alignment - 1)
	if o.FirstFileBytes == 0 {
		o.FirstFileBytes = 1 << 20
	}
	o.FirstFileBytes = min(max(o.FirstFileBytes, minFileBytes), o.MaxFileBytes) &^ (alignment - 1)
	if o.MaxRecordBytes == 0 {
		o.MaxRecordBytes = 64 << 20
	}
	o.MaxRecordBytes = min(o.MaxRecordBytes, maxPayload)
	if o.RandomID == nil {
		o.RandomID = randomID
	}
	return o
}

func randomID() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

const (
	logSuffix   = ".log"
	spareSuffix = ".spare"
	tempSuffix  = ".tmp"
	nameDigits  = 10
)

// FileName returns the base name of a log file.
func FileName(n uint64) string { return fmt.Sprintf("%0*d%s", nameDigits, n, logSuffix) }

// ParseFileName returns the number of a log file.
func ParseFileName(base string) (n uint64, ok bool) {
	digits, ok := strings.CutSuffix(base, logSuffix)
	if !ok || len(digits) < nameDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 || FileName(n) != base {
		return 0, false
	}
	return n, true
}
