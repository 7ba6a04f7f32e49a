package uring

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	pageLen  = 4 << 10
	entries  = 128 // reads at a time in a ring, a power of two
	maxRings = 4
	maxBytes = 64 << 10 // of a read, which has a buffer of its own in the ring
	keep     = 16 << 10 // size up to which a buffer is used again

	// late is how long a read is waited for. The kernel completes it on the thread that has
	// handed it over. That thread may be in a system call of another goroutine by then, such as
	// a sync, and the read is not complete until the call ends.
	late = 20 * time.Millisecond
	// sweepEvery is how often reads are looked for that were left to the kernel.
	sweepEvery = time.Second
)

// Of the interface of the kernel, include/uapi/linux/io_uring.h.
const (
	opRead            = 22         // IORING_OP_READ
	offSubmissions    = 0x10000000 // IORING_OFF_SQES
	enterGetEvents    = 1          // IORING_ENTER_GETEVENTS: wait for results
	featureSingleMmap = 1          // IORING_FEAT_SINGLE_MMAP: one mapping for both queues
	featureNoDrop     = 2          // IORING_FEAT_NODROP
	featureFastPoll   = 1 << 5     // IORING_FEAT_FAST_POLL, of Linux 5.7; OP_READ is of 5.6
)

type params struct {
	sqEntries, cqEntries, flags, threadCPU, threadIdle, features, wq uint32
	_                                                                [3]uint32
	sq                                                               struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, results, flags, _ uint32
		_                                                      uint64
	}
}

type submission struct {
	op, flags uint8
	_         uint16
	fd        int32
	off, addr uint64
	n, _      uint32
	data      uint64
	_         [3]uint64
}

type result struct {
	data uint64
	n    int32
	_    uint32
}

// ring is an io_uring.
type ring struct {
	fd   int
	file *os.File // of fd
	conn syscall.RawConn
	free chan int      // indexes of reads
	lead chan struct{} // has an element if nobody leads

	after    func(time.Duration, func()) // calls a function later
	sweeping bool                        // sweep is to be called; guarded by stranded

	submitting  sync.Mutex // guards what follows
	head, tail  *uint32
	mask        uint32
	order       []uint32
	submissions []submission

	// Of the leader:
	deadline    time.Time // of the network poller
	first, last *uint32
	resultMask  uint32
	results     []result

	reads [entries]read
}

// read is a place for a read.
type read struct {
	b     []byte       // what the kernel writes into
	n     atomic.Int32 // bytes read, or an error; atomic, for what orders it goes through the kernel
	done  chan bool    // gets false if the read is not waited for any more
	since atomic.Int64 // when it was handed over, in nanoseconds after epoch; 0: it is not under way
	left  bool         // nobody waits for it any more; of the leader
}

var epoch = time.Now()

// stranded keeps the rings in which the kernel may still write into a buffer that nobody
// waits for: they must not become garbage.
var stranded struct {
	sync.Mutex
	reads map[*ring]int
}

// strand counts n more reads of the ring that nobody waits for.
func strand(r *ring, n int) {
	stranded.Lock()
	defer stranded.Unlock()
	if stranded.reads == nil {
		stranded.reads = make(map[*ring]int)
	}
	if stranded.reads[r] += n; stranded.reads[r] == 0 {
		delete(stranded.reads, r)
	} else if !r.sweeping {
		r.sweeping = true
		r.after(sweepEvery, r.sweep)
	}
}

// sweep takes the results of a ring that is kept. Perhaps nobody reads by it any more, since
// its store is closed. sweep is called again and again until the ring is not kept.
func (r *ring) sweep() {
	select {
	case <-r.lead:
		r.reap()
		r.lead <- struct{}{}
	default: // the one who leads takes them
	}
	stranded.Lock()
	defer stranded.Unlock()
	if r.sweeping = stranded.reads[r] > 0; r.sweeping {
		r.after(sweepEvery, r.sweep)
	}
}

// Rings are some rings, one for each processor. The zero value has none yet.
type Rings struct {
	once sync.Once
	list []*ring
	turn atomic.Uint32
}

// ReadAt fills b with the bytes of f at off. It returns false if it has not done so. The
// caller keeps f open meanwhile.
func (s *Rings) ReadAt(f *os.File, b []byte, off int64) bool {
	s.once.Do(s.open)
	if len(s.list) == 0 || len(b) == 0 || len(b) > maxBytes || off < 0 {
		return false
	}
	r := s.list[int(s.turn.Add(1))%len(s.list)]
	var at int
	select {
	case at = <-r.free:
	default:
		return false
	}
	rd := &r.reads[at]
	if cap(rd.b) < len(b) {
		rd.b = make([]byte, (len(b)+pageLen-1)&^(pageLen-1))
	}
	rd.b = rd.b[:len(b)]
	ok := r.submit(int32(f.Fd()), at, off)
	runtime.KeepAlive(f)
	if ok {
		if !r.wait(rd) {
			return false // the place is free when the kernel is done with it
		}
		if ok = int(rd.n.Load()) == len(b); ok {
			copy(b, rd.b)
		}
	}
	r.release(at)
	return ok
}

// release makes a place free.
func (r *ring) release(at int) {
	if rd := &r.reads[at]; cap(rd.b) > keep {
		rd.b = nil
	}
	r.free <- at
}

func (s *Rings) open() {
	for range min(maxRings, runtime.GOMAXPROCS(0)) {
		r, err := open()
		if err != nil {
			return
		}
		s.list = append(s.list, r)
	}
}

// wait returns when a read is done; false: it is left to the kernel. One of the readers that wait, the leader, is parked by
// the network poller until the ring has results, and takes them for all. Once its own read
// is among them another one leads. Nobody else takes results: the poller does not wake the
// leader for what is gone when it looks.
func (r *ring) wait(rd *read) bool {
	for {
		select {
		case done := <-rd.done:
			return done
		case <-r.lead:
			// The deadline is set for several reads: to set it takes a lock.
			if now := time.Now(); r.deadline.Sub(now) < late/2 {
				r.deadline = now.Add(late)
				_ = r.file.SetReadDeadline(r.deadline)
			}
			err := r.conn.Read(func(uintptr) bool {
				r.reap()
				return len(rd.done) > 0
			})
			if errors.Is(err, os.ErrDeadlineExceeded) {
				r.reap()
				r.leave()
			} else if err != nil { // the poller has failed: the ring itself is asked, which blocks
				_, _, _ = unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 0, 1, enterGetEvents, 0, 0)
				r.reap()
			}
			r.lead <- struct{}{}
		}
	}
}

// submit hands a read to the kernel.
func (r *ring) submit(fd int32, at int, off int64) bool {
	rd := &r.reads[at]
	r.submitting.Lock()
	defer r.submitting.Unlock()
	tail := *r.tail
	i := tail & r.mask
	rd.since.Store(max(1, int64(time.Since(epoch))))
	r.submissions[i] = submission{
		op: opRead, fd: fd, off: uint64(off), addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(rd.b)))), n: uint32(len(rd.b)), data: uint64(at),
	}
	r.order[i] = i
	atomic.StoreUint32(r.tail, tail+1)
	for {
		_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 1, 0, 0, 0, 0)
		if atomic.LoadUint32(r.head) == tail+1 {
			return true
		}
		if errno != unix.EINTR {
			atomic.StoreUint32(r.tail, tail) // the kernel looks at it in this call only
			rd.since.Store(0)
			return false
		}
	}
}

// reap wakes the readers whose results are there. Only the leader and sweep call it.
func (r *ring) reap() {
	for i := *r.first; i != atomic.LoadUint32(r.last); i++ {
		c := &r.results[i&r.resultMask]
		rd := &r.reads[c.data]
		rd.n.Store(c.n)
		rd.since.Store(0)
		at := int(c.data)
		atomic.StoreUint32(r.first, i+1)
		if rd.left {
			rd.left = false
			strand(r, -1)
			r.release(at)
			continue
		}
		rd.done <- true
	}
}

// leave wakes the readers that have waited for too long: they read by themselves. Only the
// leader calls it.
func (r *ring) leave() {
	if !r.submitting.TryLock() { // who hands a read over may have to take it back: next time
		return
	}
	defer r.submitting.Unlock()
	now := int64(time.Since(epoch))
	for i := range r.reads {
		rd := &r.reads[i]
		if since := rd.since.Load(); since == 0 || rd.left || now-since < int64(late/2) {
			continue
		}
		rd.left = true
		strand(r, 1)
		rd.done <- false
	}
}

// open makes a ring. It is closed when it is garbage.
func open() (*ring, error) {
	var p params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, entries, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, errno
	}
	if err := unix.SetNonblock(int(fd), true); err != nil { // for the poller
		_ = unix.Close(int(fd))
		return nil, err
	}
	f := os.NewFile(fd, "io_uring")
	const needed = featureSingleMmap | featureNoDrop | featureFastPoll
	if p.features&needed != needed {
		return nil, errors.Join(unix.ENOSYS, f.Close())
	}
	// The poller of the runtime must know it: nobody else wakes readers.
	err := f.SetReadDeadline(time.Time{})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r := &ring{fd: int(fd), file: f, free: make(chan int, entries), lead: make(chan struct{}, 1)}
	r.after = func(d time.Duration, f func()) { time.AfterFunc(d, f) }
	if r.conn, err = f.SyscallConn(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	size := max(uintptr(p.sq.array)+uintptr(p.sqEntries)*4, uintptr(p.cq.results)+uintptr(p.cqEntries)*unsafe.Sizeof(result{}))
	queues, err := unix.Mmap(int(fd), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	submissions, err := unix.Mmap(int(fd), offSubmissions, int(p.sqEntries)*int(unsafe.Sizeof(submission{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(queues), f.Close())
	}
	word := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&queues[off])) }
	r.head, r.tail, r.mask = word(p.sq.head), word(p.sq.tail), *word(p.sq.mask)
	r.order = unsafe.Slice(word(p.sq.array), p.sqEntries)
	r.submissions = unsafe.Slice((*submission)(unsafe.Pointer(&submissions[0])), p.sqEntries)
	r.first, r.last, r.resultMask = word(p.cq.head), word(p.cq.tail), *word(p.cq.mask)
	r.results = unsafe.Slice((*result)(unsafe.Pointer(word(p.cq.results))), p.cqEntries)
	for i := range r.reads {
		r.reads[i].done = make(chan bool, 1)
		r.free <- i
	}
	r.lead <- struct{}{}
	runtime.AddCleanup(r, func(maps [2][]byte) {
		_ = unix.Munmap(maps[0])
		_ = unix.Munmap(maps[1])
	}, [2][]byte{queues, submissions})
	return r, nil
}
