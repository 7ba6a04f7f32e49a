package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/iotest"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// messages are one of each shape.
func messages() []*pb.Message {
	return []*pb.Message{
		{Type: pb.MsgHeartbeat.Enum(), To: new(uint64(1)), From: new(uint64(2)), Term: new(uint64(3)), Commit: new(uint64(1) << 60), Context: []byte("ctx")},
		{Type: pb.MsgApp.Enum(), To: new(uint64(1)), From: new(uint64(2)), Term: new(uint64(9)), LogTerm: new(uint64(8)), Index: new(uint64(7)), Commit: new(uint64(6)),
			Entries: []*pb.Entry{{Type: pb.EntryNormal.Enum(), Term: new(uint64(9)), Index: new(uint64(8)), Data: []byte("data")}, {Type: pb.EntryConfChangeV2.Enum(), Term: new(uint64(9)), Index: new(uint64(9))}}},
		{Type: pb.MsgAppResp.Enum(), To: new(uint64(1)), From: new(uint64(2)), Term: new(uint64(9)), Index: new(uint64(7)), Reject: new(true), RejectHint: new(uint64(5)), LogTerm: new(uint64(2))},
	}
}

// full returns a message in which every field is set that a frame carries, as the receiver decodes it.
func full(m *pb.Message) *pb.Message {
	out := proto.CloneOf(m)
	for _, f := range []**uint64{&out.To, &out.From, &out.Term, &out.LogTerm, &out.Index, &out.Commit, &out.RejectHint} {
		if *f == nil {
			*f = new(uint64)
		}
	}
	if out.Reject == nil {
		out.Reject = new(bool)
	}
	return out
}

// TestMessageCodec: a message is the same after its bytes have been decoded.
func TestMessageCodec(t *testing.T) {
	for _, m := range messages() {
		b := appendMessage(nil, 77, m)
		group, got, err := decodeMessage(b)
		if err != nil || group != 77 || !proto.Equal(got, full(m)) {
			t.Errorf("%v became %v of group %d, %v", m, got, group, err)
		}
		for n := range b {
			if _, _, err := decodeMessage(b[:n]); !errors.Is(err, ErrFrame) {
				t.Errorf("%d of %d bytes: %v", n, len(b), err)
			}
		}
		if _, _, err := decodeMessage(append(b, 0)); !errors.Is(err, ErrFrame) {
			t.Errorf("a byte behind the end: %v", err)
		}
		clear(b) // what was decoded does not change with its source
		if !proto.Equal(got, full(m)) {
			t.Errorf("%v became %v with the bytes", m, got)
		}
	}
	unknown := &pb.Message{Type: pb.MsgApp.Enum(), Entries: []*pb.Entry{{Type: pb.EntryType(9).Enum()}}}
	if _, _, err := decodeMessage(appendMessage(nil, 1, unknown)); !errors.Is(err, ErrFrame) {
		t.Errorf("an entry of type 9: %v", err)
	}
	local := &pb.Message{Type: pb.MsgStorageAppend.Enum()}
	if _, _, err := decodeMessage(appendMessage(nil, 1, local)); !errors.Is(err, ErrFrame) {
		t.Errorf("a message that is not for the network: %v", err)
	}
}

// TestMessageOfManyEntries: a message that says it has many entries takes no memory for those that are not there, and more than
// Raft sends at once are refused.
func TestMessageOfManyEntries(t *testing.T) {
	frame := func(n int) []byte {
		b := append(binary.AppendUvarint(nil, 1), byte(pb.MsgApp), 0)
		b = append(b, make([]byte, 8)...) // the other fields
		return append(binary.AppendUvarint(b, uint64(n)), make([]byte, n*minEntry)...)
	}
	if _, _, err := decodeMessage(frame(mostEntries + 1)); !errors.Is(err, ErrFrame) {
		t.Errorf("one entry more: %v", err)
	}
	_, m, err := decodeMessage(frame(mostEntries))
	if err != nil || len(m.Entries) != mostEntries {
		t.Errorf("as many as can be: %d, %v", len(m.GetEntries()), err)
	}
	none := frame(mostEntries)
	none[len(none)-minEntry*(mostEntries-1)] = 9 // type of the second entry
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err = decodeMessage(none)
	runtime.ReadMemStats(&after)
	if most := uint64(2 * len(none)); !errors.Is(err, ErrFrame) || after.TotalAlloc-before.TotalAlloc > most {
		t.Errorf("a frame of %d bytes: %d were allocated, %v", len(none), after.TotalAlloc-before.TotalAlloc, err)
	}
}

// TestChunkIsSmall: only the end of a snapshot is larger than its chunks may be.
func TestChunkIsSmall(t *testing.T) {
	raw, other := net.Pipe()
	defer raw.Close()
	defer other.Close()
	for more := range 2 {
		s := &Incoming{raw: raw, in: newFrameReader(bytes.NewReader(appendFrame(nil, kindChunk, make([]byte, maxSmall+more))))}
		if _, err := s.Read(make([]byte, 1)); errors.Is(err, ErrFrame) != (more > 0) {
			t.Errorf("a chunk of %d bytes: %v", maxSmall+more, err)
		}
	}
}

// TestFrames: frames come out as they went in, however the bytes come, and not if any bit
// has changed.
func TestFrames(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 30_000)
	b := appendFrame(appendFrame(appendFrame(nil, 20, nil), 21, []byte("x")), 22, long)
	r := newFrameReader(iotest.OneByteReader(bytes.NewReader(b)))
	for i, want := range [][]byte{nil, []byte("x"), long} {
		kind, got, err := r.read(MaxFrame)
		if err != nil || kind != Kind(20+i) || !bytes.Equal(got, want) {
			t.Fatalf("frame %d: kind %d, %d bytes, %v", i, kind, len(got), err)
		}
	}
	if _, _, err := r.read(MaxFrame); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	one := appendFrame(nil, 20, []byte("payload"))
	for bit := range 8 * len(one) {
		bad := bytes.Clone(one)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, _, err := newFrameReader(bytes.NewReader(bad)).read(MaxFrame); err == nil {
			t.Errorf("bit %d may change", bit)
		}
	}
	if _, _, err := newFrameReader(bytes.NewReader(b[9:])).read(0); !errors.Is(err, ErrFrame) {
		t.Errorf("one that is too long: %v", err)
	}
	if _, _, err := newFrameReader(bytes.NewReader(one[:len(one)-1])).read(MaxFrame); err != io.ErrUnexpectedEOF {
		t.Errorf("one that is cut: %v", err)
	}
}

// FuzzMessage: nothing panics, and what decodes is the same after another round.
func FuzzMessage(f *testing.F) {
	for _, m := range messages() {
		f.Add(appendMessage(nil, 5, m))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		group, m, err := decodeMessage(in)
		if err != nil {
			return
		}
		group2, m2, err := decodeMessage(appendMessage(nil, group, m))
		if err != nil || group2 != group || !proto.Equal(m, m2) {
			t.Errorf("%v became %v, %v", m, m2, err)
		}
	})
}

// FuzzFrames: nothing panics, and a reader takes no more memory than has come.
func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, 20, nil), 21, []byte("x")))
	h := hello{version: Version, purpose: forClient, from: 1, to: 2, incarnation: 300}
	f.Add(appendFrame(nil, kindHello, h.append(nil)))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := newFrameReader(bytes.NewReader(in))
		for {
			kind, payload, err := r.read(MaxFrame)
			if cap(r.buf) > len(in)+64<<10 {
				t.Fatalf("%d bytes for %d", cap(r.buf), len(in))
			}
			if err != nil {
				return
			}
			if kind == kindHello {
				if h, err := decodeHello(payload); err == nil && h.version == Version {
					again, err := decodeHello(h.append(nil))
					if err != nil || again != h {
						t.Errorf("%+v became %+v, %v", h, again, err)
					}
				}
			}
		}
	})
}
