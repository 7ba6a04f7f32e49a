package logrecord

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
)

// TestRoundTrip decodes operations of all kinds, and refuses what is cut short.
func TestRoundTrip(t *testing.T) {
	pk := partmap.String("key")
	whole := item.Key{PK: pk.Encoded()}
	one := item.Key{PK: pk.Encoded(), ID: []byte("id")}
	for name, tc := range map[string]struct {
		key item.Key
		ver item.Version
	}{
		"put":        {one, item.Version{Modified: 5, Expires: 7, Body: []byte("body")}},
		"empty":      {one, item.Version{Modified: 5}},
		"delete":     {one, item.Version{Modified: 5, Flags: item.Tombstone}},
		"delete all": {whole, item.Version{Modified: 5, Flags: item.Tombstone}},
		"claim":      {one, item.Version{Modified: 5, Flags: item.Claim, Body: []byte("holder")}},
	} {
		for _, carried := range []bool{false, true} {
			var record []byte
			if carried {
				tc.ver.Seq = 9
				record = AppendCarried(nil, &tc.key, &tc.ver)
			} else {
				tc.ver.Seq = 0
				record = append(AppendHead(nil, &tc.key, &tc.ver), tc.ver.Body...)
			}
			var op Operation
			rest, err := Decode(append(record, "rest"...), carried, &op)
			if err != nil || string(rest) != "rest" {
				t.Errorf("%s, carried %v: %v, %q is left", name, carried, err, rest)
			}
			if !bytes.Equal(op.Key.PK, tc.key.PK) || !bytes.Equal(op.Key.ID, tc.key.ID) || op.EPK != pk.EPK() {
				t.Errorf("%s, carried %v: key %+v", name, carried, op.Key)
			}
			if v := op.Version; v.Seq != tc.ver.Seq || v.Modified != 5 || v.Expires != tc.ver.Expires || v.Flags != tc.ver.Flags || !bytes.Equal(v.Body, tc.ver.Body) {
				t.Errorf("%s, carried %v: version %+v", name, carried, v)
			}
			for n := range record {
				if _, err := Decode(record[:n], carried, &op); err == nil {
					t.Errorf("%s, carried %v: the first %d of %d bytes decode", name, carried, n, len(record))
				}
			}
		}
	}
	var op Operation
	at := manifest.Applied{Index: 3, Time: 4}
	if _, err := Decode(AppendMark(nil, 8, at), true, &op); err != nil || op.At != at || op.Version.Seq != 8 {
		t.Errorf("mark: %+v, %v", op, err)
	}
	for _, kind := range []byte{opMark, opTTLMark} {
		if _, err := Decode([]byte{kind, 3, 4, 1, 1, 1, 1}, false, &op); err == nil {
			t.Error("a mark in an ordinary record decodes")
		}
	}
	at.TTL = lifetime.Rule{Revision: 7, Default: lifetime.Ever, Own: 3, Unsaid: 4}
	ruled := AppendMark(nil, 8, at)
	if _, err := Decode(ruled, true, &op); err != nil || op.At != at || op.Version.Seq != 8 {
		t.Errorf("mark with a rule: %+v, %v", op, err)
	}
	for n := range ruled {
		if _, err := Decode(ruled[:n], true, &op); err == nil {
			t.Errorf("the first %d of %d bytes of a mark with a rule decode", n, len(ruled))
		}
	}
	for _, bad := range [][]byte{{1, opTTLMark, 3, 4, 0, 1, 0, 0}, {1, opTTLMark, 3, 4, 1, 1, 5, 0}, {1, opTTLMark, 3, 4, 1, 1, 0, 5}, binary.AppendUvarint([]byte{1, opTTLMark, 3, 4, 1}, 1<<62)} {
		if _, err := Decode(append(bad, 0, 0), true, &op); err == nil {
			t.Errorf("a mark with the impossible rule % x decodes", bad)
		}
	}
}

// TestLimits decodes operations of log records, backups and streams that say
// more than the bounds of package item.
func TestLimits(t *testing.T) {
	pk := partmap.String("a")
	key := item.Key{PK: pk.Encoded(), ID: []byte("x")}
	right := item.Version{Seq: item.MaxSeq, Modified: item.MaxTime, Expires: item.MaxExpires}
	var op Operation
	for name, change := range map[string]func(*item.Version){
		"as it is": func(*item.Version) {},
		"sequence": func(v *item.Version) { v.Seq++ },
		"modified": func(v *item.Version) { v.Modified++ },
		"before":   func(v *item.Version) { v.Modified = -1 },
		"expires":  func(v *item.Version) { v.Expires++ },
	} {
		ver := right
		change(&ver)
		_, err := Decode(AppendCarried(nil, &key, &ver), true, &op)
		if (err == nil) != (ver.Seq == right.Seq && ver.Modified == right.Modified && ver.Expires == right.Expires) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, at := range []manifest.Applied{{Index: item.MaxIndex, Time: item.MaxTime}, {Index: item.MaxIndex + 1, Time: 1}, {Index: 1, Time: item.MaxTime + 1}, {Index: 1, Time: -1}} {
		_, err := Decode(AppendMark(nil, 1, at), true, &op)
		if (err == nil) != (at == manifest.Applied{Index: item.MaxIndex, Time: item.MaxTime}) {
			t.Errorf("mark of entry %d at %d: %v", at.Index, at.Time, err)
		}
	}
}
