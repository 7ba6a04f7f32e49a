package transfer

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/stream"
	"github.com/cleavestore/cleave/partmap"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// whole returns the head of a partition that holds the whole key space.
func whole() Head {
	rng := partmap.Ranges(1)[0]
	return Head{Format: Format, Levels: 1, Min: rng.Min.Bytes(), Max: rng.Max.Bytes(), Seq: 10, At: manifest.Applied{Index: 3, Time: 7}}
}

// entry is an item or a claim of the logical partition "key".
type entry struct {
	id   string
	seq  uint64
	flag item.Flags
	body []byte
}

// written returns a stream of entries.
func written(t *testing.T, h Head, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, &h)
	must(t, err)
	for _, e := range entries {
		key := item.Key{PK: partmap.String("key").Encoded(), ID: []byte(e.id)}
		must(t, w.Add(&key, &item.Version{Seq: e.seq, Modified: 1, Flags: e.flag, Body: e.body}))
	}
	must(t, w.Close())
	if w.Bytes() != int64(b.Len()) {
		t.Errorf("%d bytes were written, it says %d", b.Len(), w.Bytes())
	}
	return b.Bytes()
}

// read returns the ids in a stream.
func read(t *testing.T, data []byte) (ids []string, err error) {
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for {
		var op logrecord.Operation
		if err := r.Next(t.Context(), &op); err == io.EOF {
			if r.Bytes() != int64(len(data)) {
				t.Errorf("%d of %d bytes were read", r.Bytes(), len(data))
			}
			return ids, nil
		} else if err != nil {
			return ids, err
		}
		ids = append(ids, string(op.Key.ID))
	}
}

// TestTransfer reads what was written: items of several blocks and a claim.
func TestTransfer(t *testing.T) {
	body := make([]byte, blockBytes/3)
	h := whole()
	entries := []entry{{"a", 1, 0, body}, {"b", 9, 0, body}, {"c", 2, 0, body}, {"d", 3, 0, nil}, {"e", 3, item.Claim, body}}
	data := written(t, h, entries...)
	r, err := NewReader(bytes.NewReader(data))
	must(t, err)
	if r.Head.Suits(&h, "c") != nil || r.Head.At != h.At || r.Head.Seq != h.Seq || r.Range != partmap.Ranges(1)[0] {
		t.Errorf("head %+v of %v", r.Head, r.Range)
	}
	for _, want := range entries {
		var op logrecord.Operation
		must(t, r.Next(t.Context(), &op))
		if got := (entry{string(op.Key.ID), op.Version.Seq, op.Version.Flags, op.Version.Body}); got.id != want.id || got.seq != want.seq || got.flag != want.flag || !bytes.Equal(got.body, want.body) {
			t.Errorf("%s: %s, sequence %d, flags %d, %d bytes", want.id, got.id, got.seq, got.flag, len(got.body))
		}
	}
	var op logrecord.Operation
	if err := r.Next(t.Context(), &op); err != io.EOF || r.Items() != 4 {
		t.Errorf("at the end: %v, %d items", err, r.Items())
	}
}

// TestSamePaths: heads suit each other, and have one digest, whose paths are the same however they are written.
func TestSamePaths(t *testing.T) {
	about := func(key string, unique ...string) Head {
		h := whole()
		h.Key, h.Unique = key, [][]string{unique}
		return h
	}
	own := about("/a/b,/c", "/d", "/e")
	for _, tc := range []struct {
		h    Head
		same bool
	}{
		{about(`/"a"/b,/c`, `/"d"`, "/e"), true},
		{about(`/a/"b",/"c"`, "/d", `/"e"`), true},
		{about(`/"a/b",/c`, "/d", "/e"), false},
		{about(`/"a/b,/c"`, "/d", "/e"), false},
		{about("/a/b,/c", "/e", "/d"), false},
		{about("/a/b,/c", `/"d,/e"`), false},
	} {
		var sums [2][sha256.Size]byte
		for i, h := range []*Head{&own, &tc.h} {
			d, err := NewDigest(h)
			must(t, err)
			sums[i] = d.Sum()
		}
		if suits := tc.h.Suits(&own, "c") == nil; suits != tc.same || (sums[0] == sums[1]) != tc.same {
			t.Errorf("key %s, unique keys %s: suits %v, digests %x; want the same: %v", tc.h.Key, tc.h.Unique, suits, sums, tc.same)
		}
	}
}

// TestForged reads streams with right checksums that no Writer of a store writes.
func TestForged(t *testing.T) {
	head := func(change func(h *Head)) []byte {
		h := whole()
		change(&h)
		return written(t, h, entry{"a", 1, 0, nil})
	}
	half := partmap.Ranges(2)
	epk := partmap.HashEncoded(partmap.String("key").Encoded())
	other := half[0]
	if other.Contains(&epk) {
		other = half[1]
	}
	for what, test := range map[string]struct {
		data []byte
		want error
	}{
		"as it is":                  {head(func(*Head) {}), nil},
		"a newer format":            {head(func(h *Head) { h.Format++ }), fault.ErrTooNew},
		"no range":                  {head(func(h *Head) { h.Max = h.Min }), fault.ErrCorrupt},
		"another range":             {head(func(h *Head) { h.Min, h.Max = other.Min.Bytes(), other.Max.Bytes() }), fault.ErrCorrupt},
		"other levels":              {head(func(h *Head) { h.Levels = 2 }), fault.ErrCorrupt},
		"another version":           {head(func(h *Head) { h.Hash = 1 }), fault.ErrCorrupt},
		"no sequence left":          {head(func(h *Head) { h.Seq = MaxSeq + 1 }), fault.ErrCorrupt},
		"no index left":             {head(func(h *Head) { h.At.Index = MaxIndex + 1 }), fault.ErrCorrupt},
		"a rule that cannot be":     {head(func(h *Head) { h.Mutable, h.At.TTL = true, lifetime.Rule{Revision: 1, Own: h.At.Time + 1} }), fault.ErrCorrupt},
		"a rule of no entry":        {head(func(h *Head) { h.Mutable, h.At = true, manifest.Applied{TTL: lifetime.Rule{Revision: 1}} }), fault.ErrCorrupt},
		"a rule of a fixed default": {head(func(h *Head) { h.At.TTL = lifetime.Rule{Revision: 1} }), fault.ErrCorrupt},
		"no time":                   {head(func(h *Head) { h.At.Time = 0 }), fault.ErrCorrupt},
		"a late sequence":           {written(t, whole(), entry{"a", 11, 0, nil}), fault.ErrCorrupt},
		"a tombstone":               {written(t, whole(), entry{"a", 1, item.Tombstone, nil}), fault.ErrCorrupt},
		"out of order":              {written(t, whole(), entry{"b", 1, 0, nil}, entry{"a", 1, 0, nil}), fault.ErrCorrupt},
		"one twice":                 {written(t, whole(), entry{"a", 1, 0, nil}, entry{"a", 1, 0, nil}), fault.ErrCorrupt},
	} {
		if _, err := read(t, test.data); !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", what, err, test.want)
		}
	}
}

// TestBlocks leaves blocks out of a stream, repeats them, and changes what the tail counts.
func TestBlocks(t *testing.T) {
	type block struct {
		kind    byte
		payload []byte
	}
	var all []block
	in := stream.NewReader("stream", bytes.NewReader(written(t, whole(), entry{"a", 1, 0, nil}, entry{"b", 1, item.Claim, nil})))
	for {
		kind, payload, err := in.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		all = append(all, block{kind, bytes.Clone(payload)})
	}
	if len(all) != 3 {
		t.Fatalf("%d blocks", len(all))
	}
	head, items, tail := all[0], all[1], all[2]
	for i, blocks := range [][]block{
		{head, items, tail}, // as it is
		{}, {head}, {head, items}, {head, tail}, {items, tail}, {head, items, items, tail}, {head, items, tail, tail},
		{head, items, {TailBlock, []byte(`{"items":2,"claims":0}`)}}, {head, {7, nil}, items, tail}, {head, {ItemsBlock, []byte("text")}, tail},
	} {
		var b bytes.Buffer
		w, err := stream.NewWriter(&b)
		must(t, err)
		for _, each := range blocks {
			must(t, w.Block(each.kind, each.payload))
		}
		must(t, w.Close())
		ids, err := read(t, b.Bytes())
		if i == 0 {
			must(t, err)
			if fmt.Sprint(ids) != "[a b]" {
				t.Errorf("read %v", ids)
			}
		} else if !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("blocks %d: read %v, %v", i, ids, err)
		}
	}
}
