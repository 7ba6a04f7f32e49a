package raftlog

import (
	"errors"
	"fmt"
	"path"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/wal"
)

// tail has the entries of a log, the newest ones in memory. Of the others it knows where
// they are.
type tail struct {
	slots []slot // from base.Index+1 on
	bytes int64  // of the data of all entries
	hot   int    // number of the first slot that may have its entry in memory
	cache int64  // bytes of the data of the entries in memory
	// ahead is what was read from a file last: a follower that is behind asks for one piece
	// after the other. It goes when its last entry is handed out, cut off or replaced.
	ahead []*pb.Entry
}

// aheadUpTo reports whether ahead has nothing behind an entry.
func (t *tail) aheadUpTo(index uint64) bool {
	n := len(t.ahead)
	return n == 0 || t.ahead[n-1].GetIndex() <= index
}

// slot is an entry of the log.
type slot struct {
	entry *pb.Entry // nil: it is in a file only
	term  uint64
	size  int64 // of its data
	place
}

// place is where a record is.
type place struct {
	wal.Ref
	pos wal.Position // its end; 0: it was there when the log was opened
}

// replace replaces the entries from number n on.
func (t *tail) replace(n int, entries []*pb.Entry, at place) {
	for i := range t.slots[n:] {
		s := &t.slots[n+i]
		t.bytes -= s.size
		if s.entry != nil {
			t.cache -= s.size
		}
	}
	clear(t.slots[n:])
	t.slots = t.slots[:n]
	t.hot = min(t.hot, n)
	if len(entries) > 0 && !t.aheadUpTo(entries[0].GetIndex()-1) {
		t.ahead = nil
	}
	for _, e := range entries {
		s := slot{entry: e, term: e.GetTerm(), size: int64(len(e.GetData())), place: at}
		t.slots = append(t.slots, s)
		t.bytes += s.size
		t.cache += s.size
	}
}

// cut drops the first n entries.
func (t *tail) cut(n int) {
	for i := range t.slots[:n] {
		s := &t.slots[i]
		t.bytes -= s.size
		if s.entry != nil {
			t.cache -= s.size
		}
	}
	t.slots = append([]slot(nil), t.slots[n:]...)
	t.hot = max(t.hot-n, 0)
}

// shrink takes the oldest entries out of memory, if there are more than most bytes and they
// were written to their files.
func (t *tail) shrink(most int64, written wal.Position) {
	for t.cache > most && t.hot < len(t.slots) && t.slots[t.hot].pos <= written {
		if s := &t.slots[t.hot]; s.entry != nil {
			s.entry = nil
			t.cache -= s.size
		}
		t.hot++
	}
}

// inMemory returns those of the first slots, from entry lo on, that need not be read.
func (t *tail) inMemory(lo uint64, slots []slot) (out []*pb.Entry) {
	for i := range slots {
		if slots[i].entry == nil {
			break
		}
		out = append(out, slots[i].entry)
	}
	if len(out) > 0 || len(t.ahead) == 0 || lo < t.ahead[0].GetIndex() {
		return out
	}
	skip := lo - t.ahead[0].GetIndex()
	for i := range slots {
		// Of one index and one term there is one entry.
		if n := skip + uint64(i); n < uint64(len(t.ahead)) && t.ahead[n].GetTerm() == slots[i].term {
			out = append(out, t.ahead[n])
			continue
		}
		break
	}
	return out
}

// piece is a row of entries in one file.
type piece struct {
	first uint64 // index of the first one
	slots []slot
}

// readAhead is how much is read at once, in bytes of data.
const readAhead = 1 << 20

// pieceOf returns the entries from lo on that are in the file of the first one: at most of
// maxSize bytes, or of readAhead bytes if that is more, but whole records.
func pieceOf(lo uint64, slots []slot, maxSize uint64) piece {
	n, size := 0, uint64(0)
	for ; n < len(slots); n++ {
		s := &slots[n]
		if s.File != slots[0].File || s.entry != nil || n > 0 && s.Ref != slots[n-1].Ref && size > max(min(maxSize, 8*readAhead), readAhead) {
			break
		}
		size += uint64(s.size)
	}
	return piece{lo, slices.Clone(slots[:n])}
}

// readPiece reads entries from their file: their records, and nothing of other groups.
func (s *Store) readPiece(stream wal.Stream, p *piece) ([]*pb.Entry, error) {
	file, err := wal.OpenReader(s.fs, s.dir, p.slots[0].File)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	out := make([]*pb.Entry, 0, len(p.slots))
	for len(out) < len(p.slots) {
		at := p.slots[len(out)].Ref
		r, err := file.At(at.Offset)
		if err != nil {
			return nil, err
		}
		d, err := decodeRecord(r.Payload)
		if err == nil && (r.Stream != stream || r.Type != wal.TypeCarried) {
			err = errors.New("it is not of this group")
		}
		for err == nil && len(out) < len(p.slots) && p.slots[len(out)].Ref == at {
			index, term := p.first+uint64(len(out)), p.slots[len(out)].term
			n := index - d.first
			if index < d.first || n >= uint64(len(d.entries)) || d.entries[n].GetTerm() != term {
				err = fmt.Errorf("it does not have entry %d of term %d", index, term)
				break
			}
			out = append(out, d.entries[n])
		}
		if err != nil {
			return nil, fault.Corrupt(s.fs.Path(path.Join(s.dir, wal.FileName(at.File))), at.Offset, "record of a Raft log: %w", err)
		}
	}
	return out, nil
}
