package segment

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

func goodFooter() (Footer, []byte) {
	const size = 10 << 10
	f := Footer{FileBytes: size, FileNumber: 7, StoreID: testStore, Sections: []Section{
		{SectionGroups, 64, 1000, 5},
		{SectionPartitions, 1088, 100, 0},
		{SectionLocator, 1216, 4000, 0},
		{SectionOffsets, 5248, 64, 0},
		{SectionProperties, 5312, 200, 9},
		{SectionChecksums, 5568, 8, 3},
	}}
	f.Sections[len(f.Sections)-1].Len = 4 * ((5568 - 1088 + pageLen - 1) / pageLen)
	f.FileBytes = aligned(f.Sections[len(f.Sections)-1].end()) + footerLen
	return f, f.encode()
}

func TestFooter(t *testing.T) {
	f, b := goodFooter()
	got, err := DecodeFooter("f", b, f.FileBytes)
	if err != nil || !reflect.DeepEqual(got, f) {
		t.Fatalf("%+v, %v, want %+v", got, err, f)
	}
	for name, damage := range map[string]func(f *Footer, b []byte){
		"magic":            func(f *Footer, b []byte) { b[0]++ },
		"version 0":        func(f *Footer, b []byte) { b[8] = 0 },
		"no sections":      func(f *Footer, b []byte) { b[12] = 0 },
		"many sections":    func(f *Footer, b []byte) { b[12] = 17 },
		"length":           func(f *Footer, b []byte) { b[16]++ },
		"overlap":          func(f *Footer, b []byte) { b[48+24+8] -= 64 },
		"gap":              func(f *Footer, b []byte) { b[48+24+8] += 64 },
		"misplaced":        func(f *Footer, b []byte) { b[48+24+8]++ },
		"length of a part": func(f *Footer, b []byte) { binary.LittleEndian.PutUint64(b[48+16:], 1<<63) },
		"order":            func(f *Footer, b []byte) { b[48+24] = 1 },
		"unknown kind":     func(f *Footer, b []byte) { b[48+5*24] = 200 },
		"no groups":        func(f *Footer, b []byte) { b[48] = 1 },
		"empty groups":     func(f *Footer, b []byte) { binary.LittleEndian.PutUint64(b[48+16:], 0) },
		"sums":             func(f *Footer, b []byte) { b[48+5*24+16] += 4 },
		"shorter file":     func(f *Footer, b []byte) { f.FileBytes -= 64 },
		"tiny file":        func(f *Footer, b []byte) { f.FileBytes = 100 },
	} {
		f, b := goodFooter()
		damage(&f, b)
		binary.LittleEndian.PutUint32(b[footerLen-4:], checksum(b[:footerLen-4]))
		if _, err := DecodeFooter("f", b, f.FileBytes); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, b = goodFooter()
	b[footerLen-1]++
	if _, err := DecodeFooter("f", b, f.FileBytes); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("checksum: %v", err)
	}
	if _, err := DecodeFooter("f", b[1:], f.FileBytes); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("short: %v", err)
	}
}

// A file of a newer format, or encrypted, is told from a damaged one.
func TestTooNew(t *testing.T) {
	fsys := vfs.NewMem()
	write(t, fsys, "a", smallModel(rand.New(rand.NewPCG(1, 1))), WriterOptions{})
	good := content(t, fsys, "a")
	le := binary.LittleEndian
	for name, change := range map[string]func(head, foot []byte){
		"header": func(head, foot []byte) { head[8]++ },
		"footer": func(head, foot []byte) { foot[8]++ },
		"cipher": func(head, foot []byte) { head[12] = 1 },
	} {
		b := append([]byte{}, good...)
		head, foot := b[:headerLen], b[len(b)-footerLen:]
		change(head, foot)
		le.PutUint32(head[60:], checksum(head[:60]))
		le.PutUint32(foot[footerLen-4:], checksum(foot[:footerLen-4]))
		replace(t, fsys, "a", b)
		if _, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK}); !errors.Is(err, fault.ErrTooNew) || errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The footer of another file.
	b := append([]byte{}, good...)
	foot := b[len(b)-footerLen:]
	foot[24]++
	le.PutUint32(foot[footerLen-4:], checksum(foot[:footerLen-4]))
	replace(t, fsys, "a", b)
	if _, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK}); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("footer of another file: %v", err)
	}
	if _, err := Open(fsys, "b", ReaderOptions{EPK: hashEPK}); !errors.Is(err, fault.ErrMissing) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Open(fsys, "a", ReaderOptions{}); err == nil {
		t.Error("no EPK function: accepted")
	}
}
