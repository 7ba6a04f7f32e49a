package rowcache

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
)

// An item that was noted twice is held, a copy of it, by its key or its ordinal; one that is
// too large is not.
func TestNote(t *testing.T) {
	cache := New(64 << 10)
	k := &item.Key{Hash: 3, EPK: []byte("epk"), PK: []byte("p"), ID: []byte("item")}
	body := []byte("document")
	v := &item.Version{Seq: 7, Modified: 8, Body: body}
	for noted := range 3 {
		if held := cache.Find(1, k, k.ItemHash()) != nil; held != (noted == 2) {
			t.Errorf("noted %d times: held %t", noted, held)
		}
		cache.Note(1, k, k.ItemHash(), v)
		cache.NoteOrdinal(1, 5, k, v)
	}
	copy(body, "nonsense")
	same := func(what string, got *item.Version) {
		t.Helper()
		if got == nil || got.Seq != 7 || got.Modified != 8 || string(got.Body) != "document" {
			t.Errorf("%s: %+v", what, got)
		}
	}
	same("by key", cache.Find(1, k, k.ItemHash()))
	key, got := cache.FindOrdinal(1, 5)
	same("by ordinal", got)
	if key == nil || item.Compare(key, k) != 0 {
		t.Errorf("key %v", key)
	}
	if cache.Find(2, k, k.ItemHash()) != nil {
		t.Error("the item of another file is held")
	}
	// Another key with the same hash is not the item.
	for _, other := range []item.Key{{PK: k.PK, ID: []byte("other")}, {PK: []byte("q"), ID: k.ID}} {
		if cache.Find(1, &other, k.ItemHash()) != nil {
			t.Errorf("key %v has the item of %v", other, *k)
		}
	}
	large := &item.Version{Body: bytes.Repeat([]byte("x"), largest+1)}
	for i := range 5 {
		l := &item.Key{PK: []byte("p"), ID: fmt.Append(nil, "large ", i)}
		for range 3 {
			cache.Note(1, l, l.ItemHash(), large)
		}
		if cache.Find(1, l, l.ItemHash()) != nil {
			t.Error("a large item is held")
		}
	}
}
