package segment

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lz"
	"github.com/cleavestore/cleave/internal/scancache"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
)

// hashEPK is the EPK of a key: that of package partmap where that knows the
// encoding, else a hash of 16 bytes. Keys that begin with "=" hash to few
// values, most of which differ only behind the bytes that the table of
// partitions holds.
func hashEPK(dst, pk []byte) []byte {
	epk := partmap.HashEncoded(pk)
	hash := epk.Bytes()
	if len(hash) == 0 {
		sum := sha256.Sum256(pk)
		hash = sum[:16]
	}
	at := len(dst)
	dst = append(dst, hash...)
	if len(pk) > 2 && pk[1] == '=' {
		coarse := dst[at:]
		clear(coarse[1 : len(coarse)-1])
		coarse[0] &= 1
		coarse[len(coarse)-1] &= 3
	}
	return dst
}

// entry is a version of the model.
type entry struct {
	key item.Key
	ver item.Version
}

func compareEntries(a, b entry) int {
	if c := item.Compare(&a.key, &b.key); c != 0 {
		return c
	}
	if a.ver.Seq > b.ver.Seq {
		return -1
	}
	return 1
}

// model is the content of a file: versions in the order of the file.
type model []entry

func (m model) sort() { slices.SortFunc(m, compareEntries) }

// lowerBound returns the first entry whose key is not before k.
func (m model) lowerBound(k *item.Key) int {
	i, _ := slices.BinarySearchFunc(m, k, func(e entry, k *item.Key) int { return item.Compare(&e.key, k) })
	return i
}

// maker makes random content.
type maker struct {
	rng        *rand.Rand
	levels     int
	partitions int    // logical partitions at most
	ids        int    // ids in each at most
	versions   int    // of a key at most
	prefix     string // of the first component of keys
	body       func(rng *rand.Rand, pk, id []byte) []byte
}

func (m maker) key(p, i int) item.Key {
	values := [...]any{fmt.Sprintf("%spart-%04d", m.prefix, p), float64(p), p%2 == 0}
	if p%5 == 4 {
		values[0] = fmt.Sprintf("%s%d", m.prefix, p)
	}
	pk := encodeKey(values[:m.levels]...)
	id := fmt.Sprintf("id-%05d", i)
	if i%17 == 16 {
		id = fmt.Sprintf("%d", i) // short
	}
	return newKey(pk, id)
}

func newKey(pk []byte, id string) item.Key {
	epk := hashEPK(nil, pk)
	return item.Key{Hash: item.HashOf(epk), EPK: epk, PK: pk, ID: []byte(id)}
}

// Of the encoding of a partition key.
const (
	markerNumber = 0x05
	markerString = 0x08
	markerEnd    = 0xFF
)

// encodeKey encodes values as package partmap does: a marker, then the value.
func encodeKey(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case string:
			b = append(append(append(b, markerString), v...), markerEnd)
		case float64:
			b = binary.LittleEndian.AppendUint64(append(b, markerNumber), uint64(v))
		case bool:
			if v {
				b = append(b, 3)
			} else {
				b = append(b, 2)
			}
		}
	}
	return b
}

func (m maker) make() model {
	var out model
	seq := uint64(1000)
	for p := range 1 + m.rng.IntN(m.partitions) {
		for i := range 1 + m.rng.IntN(m.ids) {
			k := m.key(p, i)
			for range 1 + m.rng.IntN(m.versions) {
				seq += uint64(m.rng.IntN(100)) + 1
				v := item.Version{Seq: seq, Modified: 1700000000000 + int64(m.rng.IntN(1e6)) - 5e5}
				if m.rng.IntN(10) == 0 {
					v.Expires = v.Modified + int64(m.rng.IntN(1e5)) - 100
				}
				if m.rng.IntN(8) == 0 {
					v.Flags = item.Tombstone
				} else {
					v.Body = m.body(m.rng, k.PK, k.ID)
				}
				out = append(out, entry{k, v})
			}
		}
	}
	out.sort()
	return out
}

// document is a body that holds the id and a string of its key, most times.
func document(rng *rand.Rand, pk, id []byte) []byte {
	if rng.IntN(20) == 0 {
		return nil
	}
	n := rng.IntN(200)
	if rng.IntN(4) == 0 {
		n = rng.IntN(3000)
	}
	b := fmt.Appendf(nil, `{"id":%q,"pk":%q,"n":%d,"text":"`, id, pk[1:max(1, bytes.IndexByte(pk, markerEnd))], rng.IntN(1000))
	if rng.IntN(10) == 0 {
		b = []byte(`{"text":"`) // neither id nor key
	}
	words := []string{"alpha ", "beta ", "gamma ", "delta ", "epsilon "}
	for len(b) < n {
		b = append(b, words[rng.IntN(len(words))]...)
	}
	return append(b, `"}`...)
}

// noise is a body that does not compress.
func noise(n int) func(rng *rand.Rand, pk, id []byte) []byte {
	return func(rng *rand.Rand, _, _ []byte) []byte {
		b := make([]byte, rng.IntN(n+1))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
}

func testDictionary(t testing.TB) *Dictionary {
	rng := rand.New(rand.NewPCG(7, 7))
	var samples [][]byte
	for i := range 50 {
		samples = append(samples, document(rng, encodeKey(fmt.Sprintf("part-%04d", i)), fmt.Appendf(nil, "id-%05d", i)))
	}
	d, err := NewDictionary(lz.Sample(samples, MinDictionary, 8<<10))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var testStore = [16]byte{1, 2, 3}

func write(t testing.TB, fsys vfs.FS, name string, m model, o WriterOptions) *Properties {
	t.Helper()
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	o.FileNumber, o.StoreID, o.EPK = 42, testStore, hashEPK
	if o.Levels == 0 {
		o.Levels = len(m[0].key.EPK) / 16
	}
	w, err := NewWriter(f, o)
	if err != nil {
		t.Fatal(err)
	}
	return fill(t, w, m)
}

func fill(t testing.TB, w *Writer, m model) *Properties {
	t.Helper()
	for i := range m {
		if err := w.Add(&m[i].key, &m[i].ver); err != nil {
			t.Fatalf("item %d: %v", i, err)
		}
	}
	p, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func open(t testing.TB, fsys vfs.FS, name string, mode Mode) *Reader {
	t.Helper()
	r, err := Open(fsys, name, ReaderOptions{Mode: mode, EPK: hashEPK, ScanCache: scancache.New(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	return r
}

func sameVersion(a, b *item.Version) bool {
	return a.Seq == b.Seq && a.Modified == b.Modified && a.Expires == b.Expires && a.Flags == b.Flags && bytes.Equal(a.Body, b.Body)
}

func show(k *item.Key, v *item.Version) string {
	return fmt.Sprintf("%x/%q@%d(modified %d, expires %d, flags %d, %d bytes)", k.PK, k.ID, v.Seq, v.Modified, v.Expires, v.Flags, len(v.Body))
}

// checkWalk compares a walk over the file with the model.
func checkWalk(t testing.TB, r *Reader, m model) {
	t.Helper()
	w := r.Walk()
	for i := range m {
		if !w.Next() {
			t.Fatalf("walk ends after %d of %d: %v", i, len(m), w.Err())
		}
		if item.Compare(w.Key(), &m[i].key) != 0 || !sameVersion(w.Version(), &m[i].ver) {
			t.Fatalf("walk %d: %s, want %s", i, show(w.Key(), w.Version()), show(&m[i].key, &m[i].ver))
		}
	}
	if w.Next() || w.Err() != nil || w.Next() {
		t.Fatalf("walk goes on after %d: %v", len(m), w.Err())
	}
}

// get returns what the model has for a key.
func (m model) get(k *item.Key, maxSeq uint64) *item.Version {
	i := m.lowerBound(k)
	for ; i < len(m) && item.Compare(&m[i].key, k) == 0; i++ {
		if m[i].ver.Seq <= maxSeq {
			return &m[i].ver
		}
	}
	return nil
}

// visible returns what a cursor shows.
func (m model) visible(maxSeq uint64) model {
	var out model
	for _, e := range m {
		if e.ver.Seq > maxSeq || len(out) > 0 && item.Compare(&out[len(out)-1].key, &e.key) == 0 {
			continue
		}
		out = append(out, e)
	}
	return out
}

func checkGet(t testing.TB, r *Reader, m model, k *item.Key, maxSeq uint64) {
	t.Helper()
	want := m.get(k, maxSeq)
	prefix := []byte("prefix")
	var v item.Version
	found, out, err := r.Get(k.Lookup(), maxSeq, prefix, &v)
	if err != nil || found != (want != nil) {
		t.Fatalf("get %x/%q at %d: %t, %v, want %v", k.PK, k.ID, maxSeq, found, err, want)
	}
	if !bytes.HasPrefix(out, prefix) {
		t.Fatalf("get %x/%q: destination lost", k.PK, k.ID)
	}
	if found && (!sameVersion(&v, want) || !bytes.Equal(out[len(prefix):], want.Body)) {
		t.Fatalf("get at %d: %s, want %s", maxSeq, show(k, &v), show(k, want))
	}
	var head item.Version
	found, err = r.Head(k.Lookup(), maxSeq, &head)
	if err != nil || found != (want != nil) {
		t.Fatalf("head %x/%q at %d: %t, %v", k.PK, k.ID, maxSeq, found, err)
	}
	if head.Body = v.Body; found && !sameVersion(&head, want) {
		t.Fatalf("head: %s, want %s", show(k, &head), show(k, want))
	}
}

func checkVerify(t testing.TB, r *Reader) {
	t.Helper()
	if err := r.VerifyChecksums(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(context.Background(), func(f Finding) { t.Errorf("%d: %s", f.Offset, f.What) }); err != nil {
		t.Fatal(err)
	}
	if t.Failed() {
		t.FailNow()
	}
}
