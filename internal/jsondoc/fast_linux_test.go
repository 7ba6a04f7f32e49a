package jsondoc

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cleavestore/cleave/internal/quotes"
	"github.com/cleavestore/cleave/internal/randtest"
)

// TestFastScanStaysInside scans documents before which, and behind which, no memory is: a
// byte read outside ends the test.
func TestFastScanStaysInside(t *testing.T) {
	if !quotes.Available {
		t.Log("the processor has not the instructions")
		return
	}
	page := unix.Getpagesize()
	size := 64 << 10
	m, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	for _, guard := range [][]byte{m[:page], m[page+size:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	m = m[page : page+size]
	r := randtest.New(t)
	docs := samples(t, r)
	paths := mustCompile(t, "/foodGroup", "/a/b")
	var s scans
	accepted := 0
	for range 4000 {
		doc := mutate(r, docs)
		if len(doc) > size {
			continue
		}
		end := m[size-len(doc):]
		copy(end, doc)
		if s.compare(t, end, paths, Limits{}) == nil {
			accepted++
		}
		_ = s.compare(t, append(m[:0], doc...), paths, Limits{})
	}
	if accepted < 500 {
		t.Errorf("only %d documents accepted", accepted)
	}
	// Every beginning of a document: each kind of token is the last.
	for _, doc := range docs[:6] {
		for n := quotes.MinLen; n <= min(len(doc), 2000); n++ {
			end := m[size-n:]
			copy(end, doc[:n])
			_ = s.compare(t, end, paths, Limits{})
		}
	}
}
