package wirekey

import (
	"encoding/json"
	"testing"

	"github.com/cleavestore/cleave/engine"
)

// TestMembers: each level that has a value is shown, and one without a value is left out.
func TestMembers(t *testing.T) {
	paths := []string{"/tenant", "/user/name", `/"a/b"`}
	text, none := engine.StringKey("[1,\u2028]"), engine.UndefinedKey()
	for want, key := range map[string]engine.PartitionKey{
		`{}`:                            none,
		`{"tenant":"[1,\u2028]"}`:       text,
		`{"tenant":7}`:                  engine.NumberKey(7).OfVersion(1),
		`{"tenant":"a","user/name":7}`:  engine.JoinKeys(engine.StringKey("a"), engine.NumberKey(7), none),
		`{"a/b":null,"user/name":true}`: engine.JoinKeys(none, engine.BoolKey(true), engine.NullKey()),
	} {
		if got, err := json.Marshal(Members(key, paths)); err != nil || string(got) != want {
			t.Errorf("%s: %s, want %s: %v", key, got, want, err)
		}
	}
}
