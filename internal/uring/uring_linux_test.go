package uring

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cleavestore/cleave/internal/randtest"
)

// forbidden says that the system has no io_uring for this process.
func forbidden(t *testing.T) bool {
	_, err := open()
	if err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		t.Fatal(err)
	}
	return err != nil
}

// file makes a file of random bytes.
func file(t *testing.T, n int) (*os.File, []byte) {
	t.Helper()
	data := make([]byte, n)
	rng := randtest.New(t)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, data
}

// TestReadAt reads by many goroutines, of which one after the other leads, from a file that
// is dropped from memory again and again.
func TestReadAt(t *testing.T) {
	f, data := file(t, 4<<20)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	var rings Rings
	none := forbidden(t)
	var done atomic.Int64
	var wg sync.WaitGroup
	const readers, reads = 64, 200
	for g := range readers {
		wg.Go(func() {
			b := make([]byte, 5000)
			for i := range reads {
				if i%50 == g%50 {
					_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
				}
				n := 1 + (g*reads+i)*31%len(b)
				off := (g*reads + i) * 7919 % (len(data) - n)
				clear(b)
				if rings.ReadAt(f, b[:n], int64(off)) {
					done.Add(1)
					if !bytes.Equal(b[:n], data[off:off+n]) {
						t.Errorf("%d bytes at %d are others", n, off)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if n := done.Load(); none != (n == 0) || !none && n < readers*reads/2 {
		t.Errorf("%d of %d reads done; io_uring is forbidden: %t", n, readers*reads, none)
	}
}

// TestNotDone: what pread would refuse or cut short is not done, and the ring works on.
func TestNotDone(t *testing.T) {
	if forbidden(t) {
		t.Log("io_uring is forbidden here")
		return
	}
	f, data := file(t, 1000)
	var rings Rings
	b := make([]byte, 100)
	for _, off := range []int64{-1, 901, 1000, 5000} {
		if rings.ReadAt(f, b, off) {
			t.Errorf("done at %d", off)
		}
	}
	if rings.ReadAt(f, nil, 0) {
		t.Error("no bytes: done")
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if rings.ReadAt(dir, b, 0) {
		t.Error("a directory was read")
	}
	written, err := os.OpenFile(filepath.Join(dir.Name(), "w"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = written.Close() }()
	if rings.ReadAt(written, b, 0) {
		t.Error("a file open for writing was read")
	}
	for _, r := range rings.list {
		// The kernel refuses to take the read: it is withdrawn.
		fd := r.fd
		r.fd = -1
		if r.submit(int32(f.Fd()), 0, 0) {
			t.Error("submitted to no ring")
		}
		r.fd = fd
		// All places are taken.
		var taken []int
		for len(r.free) > 0 {
			taken = append(taken, <-r.free)
		}
		only := Rings{list: []*ring{r}}
		only.once.Do(func() {})
		if only.ReadAt(f, b, 0) {
			t.Error("done without a place")
		}
		for _, at := range taken {
			r.free <- at
		}
		if !only.ReadAt(f, b, 900) || !bytes.Equal(b, data[900:]) {
			t.Error("not done any more")
		}
	}
}

// lateReads returns Rings of one ring, and a pipe: a read from it stays with the kernel.
func lateReads(t *testing.T, r *ring) (s *Rings, from, to *os.File) {
	t.Helper()
	s = &Rings{list: []*ring{r}}
	s.once.Do(func() {})
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = from.Close(), to.Close() })
	return s, from, to
}

// TestLeft: a read that the kernel does not complete is not waited for. What it reads later
// goes nowhere, and its place is used again.
func TestLeft(t *testing.T) {
	r, err := open()
	if err != nil {
		t.Log("io_uring is forbidden here")
		return
	}
	s, from, to := lateReads(t, r)
	f, data := file(t, 5000)
	const others = 3
	b := make([]byte, 5)
	var wg sync.WaitGroup
	for range others { // of which one leads
		wg.Go(func() {
			if s.ReadAt(from, make([]byte, 5), 0) {
				t.Error("read from an empty pipe")
			}
		})
	}
	if s.ReadAt(from, b, 0) {
		t.Error("read from an empty pipe")
	}
	wg.Wait()
	if len(r.free) != entries-others-1 {
		t.Errorf("%d places are free while the kernel has %d reads", len(r.free), others+1)
	}
	stranded.Lock()
	n := stranded.reads[r]
	stranded.Unlock()
	if n != others+1 {
		t.Errorf("%d reads keep the ring, want %d", n, others+1)
	}
	if _, err := to.Write(bytes.Repeat([]byte("x"), 5*(others+1))); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5000)
	for len(r.free) < entries {
		if !s.ReadAt(f, got, 0) || !bytes.Equal(got, data) {
			t.Fatal("the ring does not work on")
		}
	}
	if !bytes.Equal(b, make([]byte, 5)) {
		t.Errorf("a read that was left wrote %q", b)
	}
	stranded.Lock()
	defer stranded.Unlock()
	if _, kept := stranded.reads[r]; kept {
		t.Error("the ring is kept for nothing")
	}
}

// TestLeftByAll: a ring with a read that was left to the kernel is given back when the read
// is complete, also if nobody reads by the ring any more.
func TestLeftByAll(t *testing.T) {
	r, err := open()
	if err != nil {
		t.Log("io_uring is forbidden here")
		return
	}
	var due func()
	begun := 0
	r.after = func(_ time.Duration, f func()) { due, begun = f, begun+1 }
	s, from, to := lateReads(t, r)
	for range 3 {
		if s.ReadAt(from, make([]byte, 5), 0) {
			t.Error("read from an empty pipe")
		}
	}
	if due(); begun != 2 || len(r.free) != entries-3 {
		t.Errorf("%d sweeps begun, want the first and the next; %d places are free", begun, len(r.free))
	}
	if _, err := to.Write(make([]byte, 3*5)); err != nil {
		t.Fatal(err)
	}
	for len(r.free) < entries { // else the test ends with its time
		due()
		runtime.Gosched()
	}
	stranded.Lock()
	defer stranded.Unlock()
	if _, kept := stranded.reads[r]; kept || r.sweeping {
		t.Errorf("the ring is kept: %t, sweeps go on: %t", kept, r.sweeping)
	}
}

// TestLarge: what does not fit into a buffer of the ring is not done.
func TestLarge(t *testing.T) {
	f, _ := file(t, 2*maxBytes)
	var s Rings
	if s.ReadAt(f, make([]byte, maxBytes+1), 0) {
		t.Error("done")
	}
	if s.ReadAt(f, make([]byte, maxBytes), 0) == forbidden(t) {
		t.Error("the largest read is not done")
	}
}
