package wal

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// live is the list of files that the log consists of, by number. The last one takes
// records. The ones before it are full, and complete once their seal is durable.
type live struct {
	sync.Mutex
	files []*liveFile
	first uint64 // number of the first file that is needed, from Recover or Drop
	// dropped are files that could not be removed yet.
	dropped []*liveFile
}

type liveFile struct {
	number   uint64
	length   int64 // set when the file is complete
	filled   int64 // file.filled, set when the file is complete; 0 for one of an earlier run
	complete bool
	file     *file // until it is complete
	// streams maps each stream that needs the file to its highest sequence in
	// it. That of the file that takes records is guarded by Log.mu.
	streams map[Stream]uint64
}

func (v *live) init(rec *Recovery) {
	v.first = rec.First
	for _, f := range rec.Files {
		v.files = append(v.files, &liveFile{number: f.Number, length: f.Length, complete: true, streams: f.Streams})
	}
}

func (v *live) add(f *file) {
	v.Lock()
	v.files = append(v.files, &liveFile{number: f.number, file: f})
	v.Unlock()
}

// complete notes that a file is sealed, synced and closed.
func (v *live) complete(number uint64, length, filled int64) {
	v.Lock()
	defer v.Unlock()
	for _, f := range v.files {
		if f.number == number {
			f.complete, f.length, f.filled, f.streams, f.file = true, length, filled, f.file.streams, nil
		}
	}
}

// Complete returns the complete files before file n that the log has, with their lengths.
func (l *Log) Complete(n uint64) (files []Closed) {
	l.live.Lock()
	defer l.live.Unlock()
	for _, f := range l.live.files {
		if f.complete && f.number < n {
			files = append(files, Closed{File: f.number, Length: f.length})
		}
	}
	return files
}

// First returns the number of the first file that the log needs.
func (l *Log) First() uint64 {
	l.live.Lock()
	defer l.live.Unlock()
	return l.live.firstLocked()
}

func (v *live) firstLocked() uint64 {
	if len(v.files) == 0 {
		return v.first
	}
	return max(v.first, v.files[0].number)
}

// Newest returns the number of the file that takes records.
func (l *Log) Newest() uint64 {
	l.live.Lock()
	defer l.live.Unlock()
	return l.live.files[len(l.live.files)-1].number
}

// FirstNeeded returns the number of the first file that is needed. done returns the
// sequence up to which the records of a stream in a file are not needed any more; it
// must never fall. It is called without a lock held.
//
// When the manifest has the result, Drop removes the files below it.
func (l *Log) FirstNeeded(done func(s Stream, file uint64) uint64) uint64 {
	v := &l.live
	var pins []pin
	for number := uint64(0); ; number++ {
		f, first := v.completeFrom(number)
		if f == nil {
			return first
		}
		number = f.number
		pins = v.pins(pins[:0], f)
		finished := pins[:0]
		for _, p := range pins {
			if p.seq <= done(p.stream, number) {
				finished = append(finished, p)
			}
		}
		if v.unpin(f, finished) > 0 {
			return first
		}
	}
}

// pin is a stream that needs a file, for records up to seq.
type pin struct {
	stream Stream
	seq    uint64
}

// completeFrom returns the complete file with the lowest number from n on, nil if there
// is none. It also returns the number of the first file that is needed if the files
// below that one are not.
func (v *live) completeFrom(n uint64) (*liveFile, uint64) {
	v.Lock()
	defer v.Unlock()
	for _, f := range v.files {
		if f.number >= n || !f.complete {
			first := max(v.first, f.number)
			if !f.complete {
				return nil, first
			}
			return f, first
		}
	}
	return nil, v.first
}

func (v *live) pins(dst []pin, f *liveFile) []pin {
	v.Lock()
	defer v.Unlock()
	for s, seq := range f.streams {
		dst = append(dst, pin{s, seq})
	}
	return dst
}

// unpin takes streams off a complete file and returns how many are left.
func (v *live) unpin(f *liveFile, finished []pin) int {
	v.Lock()
	defer v.Unlock()
	for _, p := range finished {
		delete(f.streams, p.stream)
	}
	return len(f.streams)
}

// Oldest returns the streams that need the oldest complete file which FirstNeeded found to
// be needed: first the one whose records in it end first. There are none if no complete
// file is needed.
func (l *Log) Oldest() []Stream {
	v := &l.live
	v.Lock()
	defer v.Unlock()
	for _, f := range v.files {
		if !f.complete {
			break
		}
		if len(f.streams) > 0 {
			return slices.SortedFunc(maps.Keys(f.streams), func(a, b Stream) int {
				return cmp.Or(cmp.Compare(f.streams[a], f.streams[b]), cmp.Compare(a, b))
			})
		}
	}
	return nil
}

// Forget drops a stream: its records are not needed any more. Nothing may be appended to
// it afterwards.
func (l *Log) Forget(s Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live.Lock()
	defer l.live.Unlock()
	for _, f := range l.live.files {
		if f.file != nil {
			delete(f.file.streams, s)
		}
		delete(f.streams, s)
	}
}

// Drop removes the files below first, which FirstNeeded returned, or keeps them for
// another use. Before that the manifest must name first, durably: Recover demands each
// file from there on. What cannot be removed is left for the next call.
func (l *Log) Drop(first uint64) error {
	v := &l.live
	v.Lock()
	for len(v.files) > 0 && v.files[0].complete && v.files[0].number < first {
		v.dropped = append(v.dropped, v.files[0])
		v.files[0] = nil
		v.files = v.files[1:]
	}
	v.first = max(v.first, min(first, v.firstLocked()))
	dropped := v.dropped
	v.dropped = nil
	v.Unlock()
	var failed error
	for _, f := range dropped {
		if err := l.maker.retire(f.number, f.filled); err != nil {
			failed = cmp.Or(failed, err)
			v.Lock()
			v.dropped = append(v.dropped, f)
			v.Unlock()
		}
	}
	return failed
}
