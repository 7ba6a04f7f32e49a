package cli

import "testing"

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{
		"65536": 65536, "64KiB": 64 << 10, "64k": 64 << 10, "1.5GiB": 3 << 29, "100MB": 100_000_000, "2 GB": 2_000_000_000,
		"7b": 7, "1_000": 1000, "2TiB": 2 << 40, "1tb": 1e12,
	} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q reads as %d bytes: %v", text, s, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.2.3", "1 KiBi", "99999999999999999999", "KiB", "1e3", "0", "0.5"} {
		if err := new(Size).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q reads as bytes", text)
		}
	}
}
