package command

import (
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
)

// TestControl: control entries are the same after their bytes have been decoded, each byte is
// needed, and no command is taken for one.
func TestControl(t *testing.T) {
	for want, c := range map[string]*Control{
		"800300000000000000070900":           {Time: time.UnixMilli(7), TTL: &TTL{Revision: 9, Seconds: -1}},
		"80010000018bcfe5687b":               {Time: time.UnixMilli(1_700_000_000_123)},
		"80020000018bcfe5687bac020430413142": {Time: time.UnixMilli(1_700_000_000_123), Split: &Split{Right: 300, At: "0A1B"}},
	} {
		b := c.Append(nil)
		if hex.EncodeToString(b) != want {
			t.Errorf("%x, want %s", b, want)
		}
		got, err := DecodeControl(b)
		if err != nil || !got.Time.Equal(c.Time) || (got.Split == nil) != (c.Split == nil) || c.Split != nil && *got.Split != *c.Split {
			t.Errorf("%+v, %v", got, err)
		}
		if !IsControl(b) || IsControl(full().Append(nil)) || IsControl(nil) {
			t.Error("a control entry is taken for a command, or a command for one")
		}
		for n := range b {
			if _, err := DecodeControl(b[:n]); err == nil {
				t.Errorf("cut to %d bytes: no error", n)
			}
		}
		if _, err := DecodeControl(append(b, 0)); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("a byte more: %v", err)
		}
	}
	if _, err := DecodeControl([]byte{control, 9, 0, 0, 0, 0, 0, 0, 0, 0}); !errors.Is(err, engine.ErrTooNew) {
		t.Errorf("an unknown kind: %v", err)
	}
	if _, err := Decode([]byte{control, 1, 0, 0, 0, 0, 0, 0, 0, 0}); !errors.Is(err, engine.ErrTooNew) {
		t.Errorf("taken for a command: %v", err)
	}
}

func FuzzControl(f *testing.F) {
	f.Add((&Control{}).Append(nil))
	f.Add((&Control{Split: &Split{Right: 1, At: "FF"}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeControl(b)
		if err != nil {
			return
		}
		again, err := DecodeControl(c.Append(nil))
		if err != nil || !again.Time.Equal(c.Time) || (again.Split == nil) != (c.Split == nil) {
			t.Errorf("%+v became %+v, %v", c, again, err)
		}
	})
}
