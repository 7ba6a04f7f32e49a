package termset

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/cleavestore/cleave/index"
)

// PerLookup is the number of terms whose walk takes as long as looking one up.
const PerLookup = 40

// Terms returns about how many terms evaluating the plan walks.
func (n *Plan) Terms(r *index.Reader) (terms int64, err error) {
	for i := range n.Spans {
		if oneTerm(&n.Spans[i]) {
			terms += PerLookup
			continue
		}
		more, err := r.Estimate(n.Spans[i])
		if err != nil {
			return 0, err
		}
		terms += more
	}
	for _, sub := range n.Sub {
		more, err := sub.Terms(r)
		if err != nil {
			return 0, err
		}
		terms += more
	}
	return terms, nil
}

// Question identifies the plan.
func (n *Plan) Question() *index.Question {
	if q := n.asked.Load(); q != nil {
		return q
	}
	h := sha256.New()
	var head []byte
	var add func(n *Plan)
	add = func(n *Plan) {
		head = binary.AppendUvarint(append(head[:0], byte(n.Op)), uint64(len(n.Spans)))
		head = binary.AppendUvarint(head, uint64(len(n.Sub)))
		head = binary.AppendUvarint(head, uint64(len(n.text)))
		h.Write(append(head, n.text...))
		for i := range n.Spans {
			for _, key := range [][]byte{n.Spans[i].From, n.Spans[i].To} {
				h.Write(binary.AppendUvarint(head[:0], uint64(len(key))))
				h.Write(key)
			}
		}
		for _, sub := range n.Sub {
			add(sub)
		}
	}
	add(n)
	q := index.Question(h.Sum(nil))
	n.asked.Store(&q)
	return &q
}
