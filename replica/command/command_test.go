package command

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

// full is a command with everything that a command can have.
func full() *Command {
	return &Command{
		ID: ID{1, 2, 3, 15: 16}, After: 300, Time: time.UnixMilli(1_700_000_000_123),
		Batches: []Batch{
			{Key: engine.StringKey("a"), Operations: []Operation{
				{Kind: Create, Body: []byte(`{"id":"new","k":"a","n":1}`), TTL: 90 * time.Second},
				{Kind: Upsert, Body: []byte(`{"id":"old","k":"a"}`), TTL: engine.NoExpiry},
				{Kind: Replace, Body: []byte(`{"id":"other","k":"a"}`), IfMatch: 77},
				{Kind: Delete, ID: "gone"},
				{Kind: Check, ID: "read", IfMatch: 78},
				{Kind: Check, ID: "absent"},
			}},
			{Key: engine.JoinKeys(engine.NumberKey(-1.5), engine.NullKey()), Operations: []Operation{
				{Kind: Put, ID: "bytes", Body: []byte{0, 255}},
				{Kind: Patch, ID: "old", Edits: []Edit{
					{Kind: EditSet, Path: "/s", Value: json.RawMessage(`"text"`)},
					{Kind: EditAdd, Path: "/l/-", Value: json.RawMessage(`[1]`)},
					{Kind: EditReplace, Path: "/r", Value: json.RawMessage(`null`)},
					{Kind: EditRemove, Path: "/x"},
					{Kind: EditIncrement, Path: "/n", By: -2.5},
					{Kind: EditMove, Path: "/to", From: "/from"},
				}},
			}},
		},
	}
}

// TestRoundTrip: a command is the same after its bytes have been decoded.
func TestRoundTrip(t *testing.T) {
	want := full()
	encoded := want.Append(nil)
	got, err := Decode(encoded)
	if err != nil {
		t.Fatal(err)
	}
	normal := func(c *Command) string {
		type plain Command
		for i := range c.Batches {
			for k := range c.Batches[i].Operations {
				o := &c.Batches[i].Operations[k]
				if len(o.Body) == 0 {
					o.Body = nil
				}
				for n := range o.Edits {
					if len(o.Edits[n].Value) == 0 {
						o.Edits[n].Value = nil
					}
				}
			}
		}
		b, err := json.Marshal((*plain)(c))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if g, w := normal(got), normal(want); g != w {
		t.Errorf("%s\nwant\n%s", g, w)
	}
	later := want.Time.Add(time.Hour)
	Stamp(encoded, later)
	if got, err = Decode(encoded); err != nil || !got.Time.Equal(later) {
		t.Errorf("stamped: %v, %v", got, err)
	}
}

// TestTTL: a time to live keeps its meaning, also one that has no form of its own.
func TestTTL(t *testing.T) {
	const most = math.MaxInt64 / time.Millisecond * time.Millisecond
	for _, tc := range []struct{ ttl, want time.Duration }{
		{0, 0}, {time.Millisecond, time.Millisecond}, {2500 * time.Microsecond, 2 * time.Millisecond}, {90 * time.Second, 90 * time.Second},
		{1, time.Millisecond}, {time.Millisecond - 1, time.Millisecond},
		{engine.NoExpiry, engine.NoExpiry}, {-time.Second, engine.NoExpiry}, // which clients refuse
		{most - time.Millisecond, most - time.Millisecond}, {most, most - time.Millisecond}, {math.MaxInt64, most - time.Millisecond},
	} {
		c := Command{Batches: []Batch{{Key: engine.StringKey("a"), Operations: []Operation{{Kind: Upsert, TTL: tc.ttl}}}}}
		got, err := Decode(c.Append(nil))
		if err != nil {
			t.Errorf("%v: %v", tc.ttl, err)
		} else if ttl := got.Batches[0].Operations[0].TTL; ttl != tc.want {
			t.Errorf("%v: %v, want %v", tc.ttl, ttl, tc.want)
		}
	}
}

// TestTooNew: what a newer program has written is refused as such, not carried out in part.
func TestTooNew(t *testing.T) {
	newer := full().Append(nil)
	newer[0] = Version + 1
	if _, err := Decode(newer); !errors.Is(err, engine.ErrTooNew) {
		t.Errorf("version: %v", err)
	}
	c := full()
	c.Batches[0].Operations[0].Kind = Check + 1
	if _, err := Decode(c.Append(nil)); !errors.Is(err, engine.ErrTooNew) {
		t.Errorf("operation: %v", err)
	}
	c = full()
	c.Batches[1].Operations[1].Edits[0].Kind = EditMove + 1
	if _, err := Decode(c.Append(nil)); !errors.Is(err, engine.ErrTooNew) {
		t.Errorf("edit: %v", err)
	}
}

// TestCut: a command of which the end is missing is refused.
func TestCut(t *testing.T) {
	whole := full().Append(nil)
	for n := range whole {
		if _, err := Decode(whole[:n]); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	if _, err := Decode(append(whole, 0)); !errors.Is(err, engine.ErrInvalid) {
		t.Error("a byte behind the end is taken")
	}
}

// TestBuild: the batches of a command do in a container what its operations say.
func TestBuild(t *testing.T) {
	ctx := context.Background()
	c := cleavetest.New(t).Container("docs", "/k")
	commit := func(ops ...Operation) error {
		cmd := Command{Batches: []Batch{{Key: engine.StringKey("a"), Operations: ops}}}
		decoded, err := Decode(cmd.Append(nil))
		if err != nil {
			return err
		}
		batches, err := decoded.Build(c)
		if err != nil {
			return err
		}
		_, err = c.Commit(ctx, batches[0])
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(commit(Operation{Kind: Create, Body: []byte(`{"id":"i","k":"a","n":1,"from":2,"x":3,"r":4,"l":[]}`)}, Operation{Kind: Upsert, Body: []byte(`{"id":"j","k":"a"}`)}))
	must(commit(Operation{Kind: Patch, ID: "i", Edits: full().Batches[1].Operations[1].Edits}, Operation{Kind: Delete, ID: "j"}))
	it, err := c.Read(ctx, engine.StringKey("a"), "i")
	must(err)
	var got, want any
	must(json.Unmarshal(it.Body, &got))
	must(json.Unmarshal([]byte(`{"id":"i","k":"a","n":-1.5,"to":2,"r":null,"l":[[1]],"s":"text"}`), &want))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s", it.Body)
	}
	if _, err := c.Read(ctx, engine.StringKey("a"), "j"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("j: %v", err)
	}
	if err := commit(Operation{Kind: Replace, Body: []byte(`{"id":"i","k":"a"}`), IfMatch: it.ETag + 1}); !errors.Is(err, engine.ErrPrecondition) {
		t.Errorf("another etag: %v", err)
	}
	must(commit(Operation{Kind: Replace, Body: []byte(`{"id":"i","k":"a"}`), IfMatch: it.ETag}))
	if err := commit(Operation{Kind: Upsert, Body: []byte(`{"id":"i","k":"b"}`)}); !errors.Is(err, engine.ErrKeyMismatch) {
		t.Errorf("another key: %v", err)
	}
	if err := commit(Operation{Kind: Put, ID: "i", Body: []byte("x")}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("bytes for a container of JSON: %v", err)
	}
}

// FuzzDecode: nothing panics, and what decodes is the same after another round.
func FuzzDecode(f *testing.F) {
	f.Add(full().Append(nil))
	f.Add((&Command{}).Append(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := Decode(in)
		if err != nil {
			return
		}
		out := c.Append(nil)
		again, err := Decode(out)
		if err != nil {
			t.Fatalf("% x: %v", out, err)
		}
		if third := again.Append(nil); string(third) != string(out) {
			t.Errorf("% x became % x", out, third)
		}
	})
}

// TestGathered: an entry has its commands in order, and is refused if it is cut or longer.
func TestGathered(t *testing.T) {
	one, two := full().Append(nil), (&Command{ID: ID{9}}).Append(nil)
	for _, want := range [][][]byte{{one}, {one, two}, {two, two, one}} {
		entry := Gather(nil, want)
		got, err := DecodeEntry(entry)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d commands of %d: %v", len(got), len(want), err)
		}
		for i, c := range got {
			if string(c.Append(nil)) != string(want[i]) {
				t.Errorf("command %d of %d differs", i, len(want))
			}
		}
		for n := range entry {
			if _, err := DecodeEntry(entry[:n]); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%d of %d bytes: %v", n, len(entry), err)
			}
		}
		if _, err := DecodeEntry(append(entry, 0)); !errors.Is(err, engine.ErrInvalid) {
			t.Error("a byte behind the end is taken")
		}
	}
	if _, err := DecodeEntry([]byte{gathered, 0}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("no command: %v", err)
	}
	if _, err := DecodeEntry([]byte{gathered + 1}); !errors.Is(err, engine.ErrTooNew) {
		t.Errorf("a newer version: %v", err)
	}
}

// FuzzDecodeEntry: nothing panics, and what decodes is the same after another round.
func FuzzDecodeEntry(f *testing.F) {
	f.Add(Gather(nil, [][]byte{full().Append(nil)}))
	f.Add(Gather(nil, [][]byte{full().Append(nil), (&Command{}).Append(nil)}))
	f.Fuzz(func(t *testing.T, in []byte) {
		commands, err := DecodeEntry(in)
		if err != nil {
			return
		}
		var encoded [][]byte
		for _, c := range commands {
			encoded = append(encoded, c.Append(nil))
		}
		again, err := DecodeEntry(Gather(nil, encoded))
		if err != nil || len(again) != len(commands) {
			t.Fatalf("%d commands became %d: %v", len(commands), len(again), err)
		}
	})
}

// TestLayout holds the bytes of version 1: they change only together with Version.
func TestLayout(t *testing.T) {
	const want = "01010203000000000000000000000000100000018bcfe5687bac0202032261220601001a7b226964223a226e6577222c226b223a2261222c226e223a317d91bf0500000000000000000200147b226964223a226f6c64222c226b223a2261227d0100000000000000000300167b226964223a226f74686572222c226b223a2261227d004d000000000000000504676f6e650000000000000000000007047265616400004e000000000000000706616273656e74000000000000000000000b5b2d312e352c6e756c6c5d02040562797465730200ff00000000000000000006036f6c643c0601022f730622746578742202042f6c2f2d035b315d03022f72046e756c6c04022f780005022f6e0800000000000004c006032f746f052f66726f6d000000000000000000"
	if got := hex.EncodeToString(full().Append(nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
