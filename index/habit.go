package index

import "github.com/cleavestore/cleave/internal/jsondoc"

// habit is what followed a term, the last time, in its object or array: a string, with the
// name of the member. Values often determine each other, as the number of a nutrient its name
// and its unit. Then what follows need not be read, nor its term looked up: its bytes are
// compared with those of the last time. The path of the term says whether it is in an object or
// an array, and of which path.
type habit struct {
	term  uint32 // that is followed, its index + 1; 0: the habit is of none
	next  uint32 // index of the term that follows
	path  int32  // of that
	size  uint8  // of text
	trust uint8  // 0: given up
	text  [habitText]byte
}

const (
	habitCount = 1 << 10
	habitText  = 50 // a habit then has 64 bytes
	firstTrust = 8
	mostTrust  = 32
)

// follow adds the terms that follow on one by habit, and goes on behind their values. It returns
// the last of these terms.
func (b *Builder) follow(w *jsondoc.Walker, top *openNode, term uint32) uint32 {
	for {
		h := &b.habits[term%habitCount]
		if h.term != term+1 || h.trust == 0 || !w.Skip(h.text[:h.size]) {
			return term
		}
		if h.trust < mostTrust {
			h.trust++
		}
		term, top.before = h.next, h.path
		b.note(term)
	}
}

// learn notes the term that follows on one, at a path, and what is written behind the one up to
// the end of the other. The habit that the term had was not kept to.
func (b *Builder) learn(term, next uint32, path int32, text []byte) {
	h := &b.habits[term%habitCount]
	switch {
	case h.term != term+1:
		*h = habit{term: term + 1, trust: firstTrust}
	case h.trust == 0:
		return
	default:
		if h.trust--; h.trust == 0 {
			return
		}
	}
	if len(text) > habitText {
		h.trust = 0
		return
	}
	h.next, h.path, h.size = next, path, uint8(copy(h.text[:], text))
}
