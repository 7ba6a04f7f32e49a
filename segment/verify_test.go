package segment

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// reseal makes every checksum of a file right again.
func reseal(b []byte) {
	le := binary.LittleEndian
	f, err := DecodeFooter("", b[len(b)-footerLen:], int64(len(b)))
	if err != nil {
		return
	}
	entry := func(k SectionKind) []byte {
		for i, s := range f.Sections {
			if s.Kind == k {
				return b[len(b)-footerLen+48+i*sectionLen:]
			}
		}
		return nil
	}
	bytesOf := func(k SectionKind) []byte { s := f.section(k); return b[s.Off:s.end()] }
	le.PutUint32(entry(SectionProperties)[4:], checksum(bytesOf(SectionProperties)))
	from, sums := f.section(SectionPartitions).Off, bytesOf(SectionChecksums)
	for i := 0; 4*i < len(sums); i++ {
		start := from + int64(i)*pageLen
		le.PutUint32(sums[4*i:], checksum(b[start:min(start+pageLen, f.section(SectionChecksums).Off)]))
	}
	le.PutUint32(entry(SectionChecksums)[4:], checksum(sums))
	le.PutUint32(b[len(b)-4:], checksum(b[len(b)-footerLen:len(b)-4]))
}

// A table that says what is not so, with checksums that are right, is found
// unless the byte has no meaning; nothing panics.
func TestVerifyContent(t *testing.T) {
	rng := randtest.New(t)
	m := smallModel(rng)
	fsys := vfs.NewMem()
	p := write(t, fsys, "a", m, WriterOptions{})
	good := content(t, fsys, "a")
	f := Footer{Sections: p.Sections}
	missed := 0
	for i := f.section(SectionPartitions).Off; i < f.section(SectionChecksums).Off; i++ {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << rng.IntN(8)
		reseal(bad)
		replace(t, fsys, "a", bad)
		r, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK})
		if err != nil {
			isDamage(t, err, int64(len(good)))
			continue
		}
		if n := findings(t, r); n == 0 {
			// Reserved bytes, padding, and a shift that leads to the same slots.
			missed++
			if shift := f.section(SectionPartitions).Off + 8; good[i] != 0 && i != shift {
				t.Errorf("byte %d, %d bytes into its section: not found", i, i-sectionStart(p.Sections, i))
			}
			checkDamaged(t, r, m)
		} else {
			everyRead(r, m)
		}
		r.Release()
	}
	t.Logf("%d bytes have no meaning", missed)
}

// everyRead makes all kinds of calls, whose answers may be wrong.
func everyRead(r *Reader, m model) {
	var v item.Version
	c := r.Cursor(math.MaxUint64)
	for i := range m {
		r.Get(m[i].key.Lookup(), math.MaxUint64, nil, &v)
		r.PartitionStats(&m[i].key)
		c.SeekGE(&m[i].key)
		c.Prev()
		c.SeekLT(&m[i].key)
		c.Next()
	}
	for range 2 * len(m) {
		c.Next()
	}
	for w := r.WalkPartitions(); w.Next(); {
		w.AppendKey(nil)
	}
}

func sectionStart(sections []Section, at int64) int64 {
	start := int64(0)
	for _, s := range sections {
		if s.Off <= at {
			start = s.Off
		}
	}
	return start
}

func TestCanceledVerify(t *testing.T) {
	rng := randtest.New(t)
	fsys := vfs.NewMem()
	write(t, fsys, "a", smallModel(rng), WriterOptions{})
	r := open(t, fsys, "a", Map)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Verify(ctx, func(f Finding) { t.Error(f) }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := r.VerifyChecksums(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestCopyTo copies files, intact and with each byte changed in turn: a copy is
// the file or an error.
func TestCopyTo(t *testing.T) {
	rng := randtest.New(t)
	ctx := context.Background()
	fsys := vfs.NewMem()
	write(t, fsys, "a", smallModel(rng), WriterOptions{})
	good := content(t, fsys, "a")
	r := open(t, fsys, "a", Map)
	var got []byte
	each := func(piece []byte) error {
		got = append(got, piece...)
		return nil
	}
	if err := r.CopyTo(ctx, each); err != nil || !bytes.Equal(got, good) {
		t.Fatalf("%d bytes of %d, %v", len(got), len(good), err)
	}
	refusal := errors.New("refused")
	if err := r.CopyTo(ctx, func([]byte) error { return refusal }); err != refusal {
		t.Error(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << rng.IntN(8)
		replace(t, fsys, "a", bad)
		r, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK, Mode: Pread})
		if err != nil {
			isDamage(t, err, int64(len(good)))
			continue
		}
		got = got[:0]
		if err := r.CopyTo(ctx, each); err == nil {
			t.Errorf("byte %d is changed, and copied", i)
		} else {
			isDamage(t, err, int64(len(good)))
		}
		r.Release()
	}
}
