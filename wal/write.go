package wal

import (
	"errors"
	"time"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// flush writes what was appended to the kernel, up to pos at least. The goroutine that
// gets the lock writes for all.
func (l *Log) flush(pos Position) error {
	l.write.Lock()
	defer l.write.Unlock()
	if l.Written() >= pos {
		return nil
	}
	return l.writeLocked(false)
}

// writeLocked writes all that was appended. sync says that a sync follows.
func (l *Log) writeLocked(sync bool) error {
	if f := l.failed.Load(); f != nil {
		return f.unknown()
	}
	chunks := l.write.chunks
	l.mu.Lock()
	chunks = append(chunks, l.mu.full...)
	clear(l.mu.full)
	l.mu.full = l.mu.full[:0]
	if len(l.mu.buf) > 0 {
		chunks = append(chunks, chunk{
			extent: extent{file: l.mu.file, off: l.mu.offset, pos: l.Appended()},
			start:  l.mu.start, buf: l.mu.buf,
		})
		l.mu.buf = l.bufferLocked()
		l.mu.start = l.mu.offset
	}
	l.mu.Unlock()

	var err error
	done := 0
	for done < len(chunks) {
		if err = l.writeChunk(&chunks[done], sync); err != nil {
			break
		}
		done++
	}

	l.mu.Lock()
	for _, c := range chunks[:done] {
		if cap(c.buf) <= keptBufferBytes && len(l.mu.free) < 2 {
			l.mu.free = append(l.mu.free, c.buf[:0])
		}
	}
	l.mu.Unlock()
	left := copy(chunks, chunks[done:])
	clear(chunks[left:])
	l.write.chunks = chunks[:left]
	if err == nil && l.stalled.Load() {
		l.stalled.Store(false)
	}
	return err
}

// writeChunk writes a chunk. If the chunk completes its file, the next sync syncs and
// closes the file. The write lock is held.
func (l *Log) writeChunk(c *chunk, sync bool) error {
	f, b := c.file, c.buf
	if !c.seals {
		// Zeros behind the last record make the end clean in a file that was
		// used before.
		b = b[:len(b)+int(min(terminatorBytes, f.size-c.off))]
		clear(b[len(c.buf):])
	}
	if err := f.write(b, c.start, sync); err != nil {
		err = fault.IO("write", f.Name(), c.start, err)
		if errors.Is(err, fault.ErrDiskFull) {
			l.stalled.Store(true) // all of it is written again, whatever part was written
			return &stallError{err}
		}
		return l.fail(err)
	}
	l.count.writes.Add(1)
	l.count.bytes.Add(int64(len(c.buf)))
	if c.seals {
		if err := f.unmap(); err != nil {
			return l.fail(err)
		}
		l.sealed.add(c.extent)
		l.count.rotations.Add(1)
	}
	l.write.at = c.extent
	l.written.Store(int64(c.pos))
	return nil
}

// memoryAtMost is up to how many bytes are written through memory. A system call costs 1
// to 4 microseconds more; the faults of a mapped page cost less than that.
const memoryAtMost = 16 << 10

// write writes b at off. A sync takes 2.5 times as long behind a write through memory,
// since it has to take the page from the process. So a write that a sync follows is a
// call.
func (f *file) write(b []byte, off int64, sync bool) error {
	if f.memory != nil && !sync && len(b) <= memoryAtMost {
		err := f.memory.WriteAt(b, off)
		if err == nil || !errors.Is(err, vfs.ErrFault) {
			return err
		}
		// The disk may be full or may fail: a call tells which. But a call would make a
		// file longer that was truncated meanwhile.
		info, statErr := f.Stat()
		if statErr != nil || info.Size < f.size {
			return err
		}
		if err := f.unmap(); err != nil {
			return err
		}
	}
	_, err := f.WriteAt(b, off)
	return err
}

// syncExtent makes durable what was written up to e. It begins with the full files,
// which are complete afterwards.
func (l *Log) syncExtent(e extent) error {
	l.sync.Lock()
	defer l.sync.Unlock()
	for {
		full, ok := l.sealed.oldest(e.pos)
		if !ok {
			break
		}
		if err := l.syncLocked(full); err != nil {
			return err
		}
		if err := full.file.Close(); err != nil {
			return l.fail(fault.IO("close", full.file.Name(), -1, err))
		}
		l.live.complete(full.file.number, full.off, full.file.filled)
		l.sealed.remove()
		l.synced.Store(int64(full.pos))
	}
	if l.Synced() >= e.pos {
		return nil
	}
	if err := l.syncLocked(e); err != nil {
		return err
	}
	e.file.synced.Store(e.off)
	l.synced.Store(int64(e.pos))
	return nil
}

// syncLocked syncs the file of e. sync is held.
func (l *Log) syncLocked(e extent) error {
	if f := l.failed.Load(); f != nil {
		return f.unknown() // a second sync would prove nothing
	}
	f, sync := e.file, e.file.Sync
	if e.off > f.filled {
		sync = f.SyncReserved
	}
	start := time.Now()
	if err := sync(); err != nil {
		return l.fail(fault.IO("sync", f.Name(), -1, err))
	}
	l.count.syncTimes.Record(time.Since(start), 1)
	f.filled = max(f.filled, e.off)
	l.count.syncs.Add(1)
	return nil
}

// syncAll makes durable what was appended before the call; of a stalled log, what was
// written.
func (l *Log) syncAll() error {
	l.write.Lock()
	var stalled error
	if l.Written() < l.Appended() {
		if stalled = l.writeLocked(true); stalled != nil && !errors.Is(stalled, ErrStalled) {
			l.write.Unlock()
			return stalled
		}
	}
	at := l.write.at
	if at.file.memory != nil {
		at.file.memory.Release(at.off)
	}
	l.write.Unlock()
	if err := l.syncExtent(at); err != nil {
		l.unmapFailed()
		return err
	}
	return stalled
}

// unmapFailed unmaps the newest file of a log that has failed. A reader can drop the
// pages that a failed sync has left in the cache only if no process maps them.
func (l *Log) unmapFailed() {
	l.write.Lock()
	defer l.write.Unlock()
	_ = l.write.at.file.unmap() // nothing more is written to it
}
