package meter

import (
	"math"
	"testing"
	"time"
)

// spend performs operations of so many RU, whenever they are admitted, for a
// span of time, and returns what they cost.
func spend(m *Meter, now *time.Duration, span time.Duration, ru float64) (spent float64) {
	for end := *now + span; ; {
		if wait := m.Wait(*now); wait > 0 {
			if *now += wait; *now >= end {
				*now = end
				return spent
			}
			continue
		}
		m.Charge(*now, ru)
		spent += ru
	}
}

// TestBucket looks at what buckets let through.
func TestBucket(t *testing.T) {
	for _, c := range []struct {
		name     string
		rate, ru float64
		bursts   bool
		idle     time.Duration
		span     time.Duration
		want     float64
	}{
		{"from the beginning", 1000, 1, false, 0, 10 * time.Second, 10_000},
		{"from the beginning, with bursts", 1000, 1, true, 0, 10 * time.Second, 10_000},
		{"large operations", 1000, 500, false, 0, 100 * time.Second, 100_000},
		{"nothing is saved", 1000, 1, false, time.Hour, 10 * time.Second, 10_100},
		{"a burst is held to its rate", 1000, 1, true, time.Hour, 100 * time.Second, 300_300},
		{"what 300 s give", 1000, 1, true, time.Hour, 1000 * time.Second, 300_000 + 1_000_000},
		{"what 10 s give", 1000, 1, true, 10 * time.Second, 100 * time.Second, 10_000 + 100_000},
		{"fast ones have no bursts", 3000, 1, true, time.Hour, 10 * time.Second, 30_300},
		{"a slow one", 1, 5, false, 0, 1000 * time.Second, 1000},
	} {
		now := time.Hour
		m := New(c.rate, c.bursts, now, 0)
		now += c.idle
		got := spend(m, &now, c.span, c.ru)
		if math.Abs(got-c.want) > 0.01*c.want+c.ru {
			t.Errorf("%s: %v RU, not %v", c.name, got, c.want)
		}
	}
}

// TestHeirs: the sums of rates and balances stay, debts too.
func TestHeirs(t *testing.T) {
	now := time.Hour
	of := []*Meter{New(100, false, now, 5), New(300, false, now, -25)}
	heirs := Heirs(of, 4, true, now)
	if len(heirs) != 4 {
		t.Fatalf("%d heirs", len(heirs))
	}
	for _, m := range heirs {
		if m.Rate() != 100 || math.Abs(m.Balance(now)+5) > 1e-6 {
			t.Errorf("rate %v, balance %v", m.Rate(), m.Balance(now))
		}
	}
	if got := Heirs(append(of, nil), 4, true, now); got != nil {
		t.Errorf("of a partition without a meter: %v", got)
	}
}

// TestBucketDebt lets one large operation in, and waits for what it owes.
func TestBucketDebt(t *testing.T) {
	now := time.Second
	m := New(100, false, now, 0)
	if m.Wait(now) == 0 {
		t.Error("an empty bucket admits")
	}
	now++
	if m.Wait(now) != 0 {
		t.Error("a positive bucket does not admit")
	}
	m.Charge(now, 1000)
	if wait := m.Wait(now); wait < 9900*time.Millisecond || wait > 10*time.Second {
		t.Errorf("wait %v", wait)
	}
	if b := m.Balance(now); b > -990 || b < -1000 {
		t.Errorf("balance %v", b)
	}
	if wait := New(1000, true, now, m.Balance(now)).Wait(now); wait < 990*time.Millisecond || wait > time.Second {
		t.Errorf("at ten times the rate: wait %v", wait)
	}
}
