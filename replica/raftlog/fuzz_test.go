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

// FuzzManifest: nothing panics, and what decodes can be encoded.
func FuzzManifest(f *testing.F) {
	m := manifest{nextStream: 3, first: 2, closed: []wal.Closed{{File: 2, Length: 4096}}, groups: []groupState{{stream: 1, id: 9, replica: 4, hard: hardState{3, 1, 2}, base: base(7, 3)}}}
	b, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[manifestHead:])
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeManifest("MANIFEST", sealManifest(body))
		if err != nil {
			return
		}
		if _, err := got.encode(); err != nil {
			t.Error(err)
		}
	})
}
