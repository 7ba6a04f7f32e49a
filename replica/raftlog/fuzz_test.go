package raftlog

import (
	"testing"

	"github.com/cleavestore/cleave/wal"
)

// FuzzRecord: what decodes is encoded to the same record, and nothing panics.
func FuzzRecord(f *testing.F) {
	f.Add(appendEntries(nil, &hardState{3, 1, 2}, entries(2, 3, 3, 5)))
	f.Add(appendEntries(nil, &hardState{}, nil))
	b := base(7, 3)
	install, err := appendBase(appendHard([]byte{byte(kindInstall)}, &hardState{4, 0, 0}), &b)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(install)
	f.Add([]byte{byte(kindDone), 7})
	f.Add([]byte{byte(kindVoid), 200, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := decodeRecord(in)
		if err != nil {
			return
		}
		if r.kind != kindAppend {
			return
		}
		out := appendEntries(nil, &r.hard, r.entries)
		again, err := decodeRecord(out)
		if err != nil {
			t.Fatal(err)
		}
		if len(again.entries) != len(r.entries) || again.hard != r.hard || again.first != r.first {
			t.Errorf("%+v became %+v", r, again)
		}
		if third := appendEntries(nil, &again.hard, again.entries); string(third) != string(out) {
			t.Errorf("% x became % x", out, third)
		}
	})
}

// FuzzManifest: nothing panics, and what decodes can be encoded to what decodes to the same, but for its version.
func FuzzManifest(f *testing.F) {
	m := manifest{nextStream: 4, first: 2, closed: []wal.Closed{{File: 2, Length: 4096}}, groups: []groupState{
		{stream: 1, id: 9, replica: 4, hard: hardState{3, 1, 2}, base: base(8, 3)},
		{stream: 3, id: 11, replica: 4, hard: hardState{3, 1, 2}, base: base(7, 3), file: stateFile{inlineBytes + 1, 77}},
	}}
	b, err := m.encode()
	must(f, err)
	f.Add(uint32(3), b[sealBytes:])
	f.Add(uint32(2), olderManifest(f, &m, 2)[sealBytes:])
	f.Add(uint32(1), olderManifest(f, &m, 1)[sealBytes:])
	f.Fuzz(func(t *testing.T, version uint32, body []byte) {
		got, err := decodeManifest("MANIFEST", seal(manifestMagic, version, body))
		if err != nil || version < 3 {
			return
		}
		out, err := got.encode()
		must(t, err)
		again, err := decodeManifest("MANIFEST", out)
		must(t, err)
		if third, err := again.encode(); err != nil || string(third) != string(out) {
			t.Errorf("% x became % x, %v", out, third, err)
		}
	})
}

// FuzzState: nothing panics, and what is taken for a state is the one that the manifest names.
func FuzzState(f *testing.F) {
	state := base(7, 3).State
	b := seal(stateMagic, stateVersion, state)
	f.Add(b, uint32(len(state)), sealSum(b))
	f.Add(b, uint32(len(state)), sealSum(b)+1)
	f.Add(b, uint32(len(state)-1), sealSum(b))
	f.Add(b[:len(b)-1], uint32(len(state)), sealSum(b))
	f.Add(seal(stateMagic, stateVersion+1, state), uint32(len(state)), sealSum(b))
	f.Fuzz(func(t *testing.T, in []byte, length, sum uint32) {
		got, err := decodeState("STATE", in, stateFile{length, sum})
		if err == nil && (uint32(len(got)) != length || sealSum(in) != sum || string(got) != string(in[sealBytes:])) {
			t.Errorf("% x is taken for a state of %d bytes with checksum %d", in, length, sum)
		}
	})
}
