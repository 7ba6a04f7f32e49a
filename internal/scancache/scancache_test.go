package scancache

import (
	"fmt"
	"testing"
)

// made returns a Maker with groups of one document each, of two logical partitions; each seventh
// group has something else.
func made(groups int, size uint32) *Maker {
	m := NewMaker()
	for i := range groups {
		id := fmt.Sprintf("id %04d", i)
		body := append([]byte(id), make([]byte, size-uint32(len(id)))...)
		m.Add(Group{Off: int64(100 * i), Size: 100, Count: 1, Mod: int64(i)}, []byte{byte(i)}, append(m.Text(), body...))
		if i%7 == 6 {
			continue
		}
		m.Join(fmt.Append(nil, "partition ", 2*i/groups))
		m.AddDoc(uint64(i+1), int64(i), Part{0, size}, Part{0, uint32(len(id))})
	}
	return m
}

// A stretch is held when it was wanted four times, has its groups, and gives the documents of runs.
func TestStretch(t *testing.T) {
	cache := New(1 << 20)
	for i := range 4 {
		if wanted := cache.Want(1, 5); wanted != (i == 3) {
			t.Errorf("wanted %d times: %t", i+1, wanted)
		}
	}
	m := made(20, 300)
	cache.Put(1, 5, m)
	m.Free()
	s := cache.Find(1, 5)
	if s == nil || cache.Bytes() < 20*300 {
		t.Fatalf("%v, %d bytes", s, cache.Bytes())
	}
	for i := range 20 {
		for near := range 20 {
			if at := s.Index(int64(100*i), near); at != i {
				t.Errorf("group %d near %d: index %d", i, near, at)
			}
		}
		g, head, payload := s.Group(i)
		if g.Off != int64(100*i) || head[0] != byte(i) || len(head) != 1 || len(payload) != 300 {
			t.Errorf("group %d: %+v, head %v, payload of %d", i, g, head, len(payload))
		}
		if in := s.InRun(i, &Wanted{}); in != (i%7 != 6) {
			t.Errorf("group %d in a run: %t", i, in)
		}
	}
	if at := s.Index(50, -1); at != -1 {
		t.Errorf("no group: index %d", at)
	}
	if s.InRun(0, &Wanted{Written: 1}) {
		t.Error("a document that is too old is in a run")
	}
	for _, c := range []struct {
		group, most, bytes int
		edge               string
		want               int
		whole              bool
	}{
		{0, 100, 1 << 20, "", 6, true},
		{2, 100, 1 << 20, "", 4, true},
		{7, 100, 1 << 20, "", 3, true}, // another logical partition follows
		{10, 100, 1 << 20, "", 3, true},
		{0, 4, 1 << 20, "", 4, false},
		{0, 100, 1, "", 1, false},
		{0, 100, 600, "", 2, false},
		{0, 100, 601, "", 3, false},
		{0, 100, 1 << 20, "id 0002", 2, false},
		{0, 100, 1 << 20, "id 0000", 0, false},
		{0, 100, 1 << 20, "id 0006", 6, true},
	} {
		for _, inPlace := range []bool{false, true} {
			w := Wanted{Bytes: c.bytes, InPlace: inPlace}
			if c.edge != "" {
				w.Edge = []byte(c.edge)
			}
			want := c.want
			if inPlace && c.bytes < 1<<20 {
				want = 6 // no text
			}
			text, taken, group, _, whole := s.Take(c.group, 0, &w, c.most, nil, nil)
			if len(taken) != want || whole != (want == 6 || c.whole) || want > 0 && group != c.group+want-1 {
				t.Errorf("%+v, in place %t: %d taken, up to group %d, whole %t", c, inPlace, len(taken), group, whole)
			}
			for i, d := range taken {
				id, body := fmt.Sprintf("id %04d", c.group+i), d.Body
				if inPlace {
					if len(w.Bodies[i]) != 300 || string(w.Bodies[i][:7]) != id {
						t.Errorf("document %d in place: %d bytes", i, len(w.Bodies[i]))
					}
				} else if string(body.Of(text)[:7]) != id || body.Len != 300 {
					t.Errorf("document %d: %+v", i, d)
				}
				if string(d.ID.Of(text)) != id || d.Seq != uint64(c.group+i+1) || d.Modified != int64(c.group+i) {
					t.Errorf("document %d: %+v", i, d)
				}
			}
		}
	}
}

// A cache for which there is no memory is nil and holds nothing.
func TestNone(t *testing.T) {
	for _, size := range []int64{-1, 0, 2*MostBytes - 1} {
		if c := New(size); c != nil || c.Bytes() != 0 {
			t.Errorf("%d bytes: %v", size, c)
		}
	}
}

// oneRun returns a held stretch with a run of n documents of 118 bytes, "id 000", "id 001" and so on.
func oneRun(t testing.TB, n int) *Stretch {
	t.Helper()
	cache, m := New(1<<20), NewMaker()
	defer m.Free()
	for i := range n {
		m.Add(Group{Off: int64(100 * i), Size: 100, Count: 1}, []byte{byte(i)}, fmt.Appendf(m.Text(), "id %03d%112s", i, ""))
		m.Join([]byte("partition"))
		m.AddDoc(uint64(i+1), 0, Part{0, 118}, Part{0, 6})
	}
	s := cache.Put(1, 5, m)
	if s == nil {
		t.Fatal("not held")
	}
	return s
}

// From each document, Take goes up to each edge.
func TestEdge(t *testing.T) {
	const n = 40
	s := oneRun(t, n)
	for from := range n {
		for edge := range n + 1 {
			w := Wanted{Bytes: 1 << 20, Edge: fmt.Appendf(nil, "id %03d", edge)}
			_, taken, _, _, _ := s.Take(from, 0, &w, n, nil, nil)
			if want := max(edge-from, 0); len(taken) != want {
				t.Errorf("from %d up to %d: %d documents, want %d", from, edge, len(taken), want)
			}
		}
	}
}

// BenchmarkEdge takes the documents up to an edge that is near, or behind all.
func BenchmarkEdge(b *testing.B) {
	const n = 256
	s := oneRun(b, n)
	for _, near := range []int{1, 3, 20, n} {
		b.Run(fmt.Sprint(near), func(b *testing.B) {
			var text []byte
			var taken []Taken
			b.ReportAllocs()
			for i := range b.N {
				from := i % (n / 2)
				w := Wanted{Bytes: 1 << 20, Edge: s.text[118*min(from+near, n-1):][:6]}
				text, taken, _, _, _ = s.Take(from, 0, &w, n, text[:0], taken[:0])
			}
		})
	}
}
