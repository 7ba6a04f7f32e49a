package raftlog

import (
	"encoding/hex"
	"testing"

	"github.com/cleavestore/cleave/wal"
)

// TestLayout holds the bytes of the newest version: they change only together with FormatVersion. Those of version 2 are what
// earlier programs have written.
func TestLayout(t *testing.T) {
	b := Base{Index: 300, Term: 5, ConfState: base(0, 1).ConfState, State: []byte("state")}
	install, err := appendBase(appendHard([]byte{byte(kindInstall)}, &hardState{7, 2, 0}), &b)
	must(t, err)
	m := manifest{store: [16]byte{1, 15: 2}, nextStream: 4, first: 3, closed: []wal.Closed{{File: 3, Length: 4096}}, groups: []groupState{
		{stream: 3, id: 9, replica: 4, hard: hardState{7, 2, 300}, base: b},
		{stream: 1, id: 10, replica: 5, hard: hardState{7, 0, 300}, base: b, file: stateFile{5000, 0x12345678}},
	}, removed: []replicaOf{{300, 6}}}
	manifested, err := m.encode()
	must(t, err)
	older := m
	older.groups = m.groups[:1]
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"append":   {appendEntries(nil, &hardState{3, 1, 200}, entries(300, 2, 3, 0)), "010301c801ac0202030008333030206f662033030008333031206f662033"},
		"nothing":  {appendEntries(nil, &hardState{}, nil), "010000000000"},
		"install":  {install, "02070200ac020506080108020803057374617465"},
		"state":    {seal(stateMagic, stateVersion, b.State), "636c65617652464201000000050000006cb964757374617465"},
		"manifest": {manifested, "636c65617652465403000000490000003a5fcc7601000000000000000000000000000002040301038020020309040702ac02ac020506080108020803057374617465010a050700ac02ac02050608010802080388277856341201ac0206"},
		"version2": {olderManifest(t, &older, 2), "636c6561765246540200000032000000f1d9c4ea01000000000000000000000000000002040301038020010309040702ac02ac02050608010802080305737461746501ac0206"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
