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
	entries  = 128 // reads at a time in a ring, a power of two
	maxRings = 4
	maxBytes = 1 << 30
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

	submitting  sync.Mutex // guards what follows
	head, tail  *uint32
	mask        uint32
	order       []uint32
	submissions []submission

	// Of the leader:
	first, last *uint32
	resultMask  uint32
	results     []result

	reads [entries]read
}

// read is a read under way.
type read struct {
	b    []byte       // keeps the memory, and keeps it off stacks, which move
	n    atomic.Int32 // bytes read, or an error; atomic, for what orders it goes through the kernel
	done chan struct{}
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
	rd.b = b
	ok := r.submit(int32(f.Fd()), at, off)
	if ok {
		r.wait(rd)
		ok = int(rd.n.Load()) == len(b)
	}
	runtime.KeepAlive(f)
	rd.b = nil
	r.free <- at
	return ok
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

// wait returns when a read is done. One of the readers that wait, the leader, is parked by
// the network poller until the ring has results, and takes them for all. Once its own read
// is among them another one leads. Nobody else takes results: the poller does not wake the
// leader for what is gone when it looks.
func (r *ring) wait(rd *read) {
	for {
		select {
		case <-rd.done:
			return
		case <-r.lead:
			err := r.conn.Read(func(uintptr) bool {
				r.reap()
				return len(rd.done) > 0
			})
			if err != nil { // the poller has failed: the ring itself is asked, which blocks
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
			return false
		}
	}
}

// reap wakes the readers whose results are there. Only the leader calls it.
func (r *ring) reap() {
	for i := *r.first; i != atomic.LoadUint32(r.last); i++ {
		c := &r.results[i&r.resultMask]
		rd := &r.reads[c.data]
		rd.n.Store(c.n)
		atomic.StoreUint32(r.first, i+1)
		rd.done <- struct{}{}
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
		r.reads[i].done = make(chan struct{}, 1)
		r.free <- i
	}
	r.lead <- struct{}{}
	runtime.AddCleanup(r, func(maps [2][]byte) {
		_ = unix.Munmap(maps[0])
		_ = unix.Munmap(maps[1])
	}, [2][]byte{queues, submissions})
	return r, nil
}
