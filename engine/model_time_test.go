package engine

import (
	"context"
	"time"
)

// ttl draws the option of a write.
func (m *model) ttl(name string) time.Duration {
	if name != "mortal" {
		return 0
	}
	return []time.Duration{0, 0, NoExpiry, 5 * time.Second, time.Minute}[m.rng.IntN(5)]
}

// expires checks when what was written expires, and notes it.
func (m *model) expires(w *write, meta Meta, option time.Duration) {
	w.expires = 0
	if w.body == "" || w.container != "mortal" || option == NoExpiry {
		return
	}
	if option == 0 {
		option = modelContainers[w.container].DefaultTTL
	}
	if w.expires = millisOf(meta.Expires); !meta.Expires.Equal(meta.Modified.Add(option)) {
		m.t.Fatalf("%s written at %v for %v expires %v", w.id, meta.Modified, option, meta.Expires)
	}
}

// pass lets time pass: items expire.
func (m *model) pass() {
	m.time.pass(time.Duration(m.rng.Int64N(int64(8 * time.Second))))
	m.expire(m.items["mortal"], m.hidden)
	for _, s := range m.snapshots {
		m.expire(s.items, s.hidden)
	}
}

// expire hides what has expired, and shows again what has not, since the clock
// was set back.
func (m *model) expire(items, hidden state) {
	for id, w := range items {
		if w.expired(m.o.now()) {
			delete(items, id)
			hidden[id] = w
		}
	}
	for id, w := range hidden {
		if !w.expired(m.o.now()) {
			delete(hidden, id)
			items[id] = w
		}
	}
}

// forgetExpired deletes all items that may expire. What merges have dropped of those
// that had is not there if the clock is set back, the rest is.
func (m *model) forgetExpired() {
	c, err := m.db.Container("mortal")
	must(m.t, err)
	for _, key := range []PartitionKey{StringKey("a"), StringKey("b"), NumberKey(3), BoolKey(true), NullKey(), UndefinedKey()} {
		key = inVersion("mortal", key)
		must(m.t, c.DeleteLogicalPartition(context.Background(), key, nil))
		m.apply(write{container: "mortal", key: key}, partitionOf(c, key), m.opts.Durability != Buffered)
	}
	for len(m.snapshots) > 0 {
		m.dropSnapshotAt(0)
	}
}

// wrongClock sets the clock ahead or back for some operations, and then right.
func (m *model) wrongClock() {
	jump := time.Duration(m.rng.Int64N(int64(1000*time.Hour))) + time.Hour
	if m.rng.IntN(2) == 0 {
		jump = -jump
		m.forgetExpired()
	}
	m.time.jump(jump)
	m.pass()
	for range m.rng.IntN(30) {
		switch m.rng.IntN(12) {
		case 0:
			must(m.t, m.db.Flush(context.Background()))
		case 1:
			must(m.t, m.db.Compact(context.Background()))
		case 2:
			m.takeSnapshot()
		case 3:
			m.readSnapshot()
		case 4:
			m.batch()
		case 5:
			m.update()
		case 6:
			m.pass()
		case 7:
			m.scan()
		case 8, 9:
			m.read()
		case 10:
			if jump > 0 { // else the copy may show again what merges have dropped in its source
				m.copyOn()
			}
		default:
			m.write()
		}
	}
	m.time.jump(-jump)
	m.pass()
}
