package main

import (
	"iter"
	"time"
)

// meter counts the documents that a load takes, by seconds.
type meter struct {
	start   time.Time
	seconds []int64 // documents taken in each second
	bytes   int64
}

func newMeter() *meter { return &meter{start: time.Now()} }

// clockEvery is how many documents are taken between two looks at the clock.
const clockEvery = 32

// count yields docs and counts them.
func (m *meter) count(docs iter.Seq[document]) iter.Seq[document] {
	return func(yield func(document) bool) {
		n := int64(0)
		for doc := range docs {
			m.bytes += int64(len(doc.body))
			if n++; n == clockEvery {
				m.add(time.Since(m.start), n)
				n = 0
			}
			if !yield(doc) {
				break
			}
		}
		m.add(time.Since(m.start), n)
	}
}

func (m *meter) add(at time.Duration, n int64) {
	for second := int(at / time.Second); len(m.seconds) <= second; {
		m.seconds = append(m.seconds, 0)
	}
	m.seconds[len(m.seconds)-1] += n
}

// slowest returns the documents of the slowest whole second; false if there
// was none after the first.
func (m *meter) slowest() (float64, bool) {
	if len(m.seconds) < 3 { // the last one is not whole
		return 0, false
	}
	least := m.seconds[0]
	for _, n := range m.seconds[:len(m.seconds)-1] {
		least = min(least, n)
	}
	return float64(least), true
}
