package raftlog

import (
	"errors"
	"fmt"
	"path"

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
	// after the other.
	ahead []*pb.Entry
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
	file uint64
	pos  wal.Position // its end
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
	first uint64
	file  uint64
	terms []uint64
}

// readAhead is how much is read at once, in bytes of data.
const readAhead = 1 << 20

// pieceOf returns the entries from lo on that are in the file of the first one: at most of
// maxSize bytes, or of readAhead bytes if that is more.
func pieceOf(lo uint64, slots []slot, maxSize uint64) piece {
	p := piece{first: lo, file: slots[0].file}
	size := uint64(0)
	for i := range slots {
		s := &slots[i]
		if s.file != p.file || s.entry != nil || i > 0 && size > max(min(maxSize, 8*readAhead), readAhead) {
			break
		}
		size += uint64(s.size)
		p.terms = append(p.terms, s.term)
	}
	return p
}

// readPiece reads entries from their file. Of an entry that was replaced in the file the last
// one counts.
func (s *Store) readPiece(stream wal.Stream, p *piece) ([]*pb.Entry, error) {
	out := make([]*pb.Entry, len(p.terms))
	_, err := wal.ReadFile(s.fs, s.dir, p.file, s.length(p.file), func(r *wal.Record) error {
		if r.Stream != stream || r.Type != wal.TypeCarried {
			return nil
		}
		d, err := decodeRecord(r.Payload)
		if err != nil {
			return fault.Corrupt(s.fs.Path(path.Join(s.dir, wal.FileName(p.file))), r.Offset, "record of a Raft log: %w", err)
		}
		for _, e := range d.entries {
			if i := e.GetIndex(); i >= p.first && i-p.first < uint64(len(out)) {
				out[i-p.first] = e
			}
		}
		return nil
	})
	for i, e := range out {
		if e == nil || e.GetTerm() != p.terms[i] {
			return nil, errors.Join(err, fmt.Errorf("file %d does not have entry %d of term %d: %w", p.file, p.first+uint64(i), p.terms[i], fault.ErrCorrupt))
		}
	}
	return out, nil // of a file that is written to, the end may be torn
}

// length returns the length of a log file that the manifest notes, -1 if it notes none.
func (s *Store) length(file uint64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.mu.manifest.closed {
		if c.File == file {
			return c.Length
		}
	}
	return -1
}
