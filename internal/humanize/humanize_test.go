package humanize

import (
	"math"
	"testing"
)

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Bytes(0), "0 B"},
		{Bytes(999), "999 B"},
		{Bytes(1000), "0.98 KiB"},
		{Bytes(1024), "1.00 KiB"},
		{Bytes(10 << 10), "10.0 KiB"},
		{Bytes(100 << 10), "100 KiB"},
		{Bytes(uint64(1 << 20)), "1.00 MiB"},
		{Bytes(int64(5<<30 + 1<<29)), "5.50 GiB"},
		{Bytes(int64(1 << 50)), "1,024 TiB"},
		{Bytes(-1.5 * (1 << 20)), "-1.50 MiB"},
		{Number(9.994), "9.99"},
		{Number(9.996), "10.0"},
		{Number(99.96), "100"},
		{Number(999.4), "999"},
		{Number(-21576.4), "-21,576"},
		{Number(1e30), "1000000000000000019884624838656"},
		{Count(0), "0"},
		{Count(999), "999"},
		{Count(1000), "1,000"},
		{Count(int64(-1234567)), "-1,234,567"},
		{Count(int64(math.MinInt64)), "-9,223,372,036,854,775,808"},
		{Count(uint64(math.MaxUint64)), "18,446,744,073,709,551,615"},
		{Plural(1, "box", "boxes"), "1 box"},
		{Plural(2000, "box", "boxes"), "2,000 boxes"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
