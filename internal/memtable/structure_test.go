package memtable

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
)

// checkStructure checks invariants 3 to 7 from the inside.
func checkStructure(t *testing.T, table *Table) {
	t.Helper()
	items := int64(0)
	last := item.Key{} // of the leaves before
	begun := false
	for b := range table.buckets.count {
		p, set := table.occupied(b / pageBuckets)
		occupied := set>>(b%pageBuckets)&1 != 0
		if p == nil {
			continue
		}
		head := p.heads[b%pageBuckets]
		if occupied != (head != 0) {
			t.Fatalf("bucket %d: occupied %v with head %d", b, occupied, head)
		}
		if !occupied {
			continue
		}
		levels := map[int][]uint32{}
		for link := head; link != 0; link = *table.leaf(link).next(0) {
			l := table.leaf(link)
			if (l.bound == 0) != (link == head) {
				t.Fatalf("bucket %d: a leaf has bound %d", b, l.bound)
			}
			if l.count == 0 || int(l.count) > len(l.entries()) || uint32(l.ordered) > l.count {
				t.Fatalf("leaf of %d entries, %d in order, %d at most", l.count, l.ordered, len(l.entries()))
			}
			if l.bound != 0 && l.lines() != leafLines || l.bound == 0 && l.height() != 1 {
				t.Fatalf("leaf of %d lines and %d levels", l.lines(), l.height())
			}
			for i := 1; i < l.height(); i++ {
				levels[i] = append(levels[i], link)
			}
			links := append([]uint32(nil), l.entries()[:l.count]...)
			for i := 1; i < int(l.ordered); i++ {
				if !table.less(links[i-1], links[i]) {
					t.Fatal("ordered entries out of order")
				}
			}
			table.sort(links, int(l.ordered))
			if l.bound != 0 {
				checkBound(t, table, l, links[0])
			}
			for _, link := range links {
				n := table.node(link)
				if begun && n.compare(&last) <= 0 {
					t.Fatal("nodes out of order")
				}
				n.borrow(&last)
				begun = true
				if table.buckets.of(last.Hash) != b {
					t.Fatalf("bucket %d has a foreign node", b)
				}
				for v := table.version(n.newest); v.older != 0; v = table.version(v.older) {
					if table.version(v.older).seq >= v.seq {
						t.Fatal("versions out of order")
					}
				}
				items++
			}
		}
		checkLevels(t, table, table.leaf(head), levels)
	}
	if items != table.Items() {
		t.Fatalf("%d nodes in order of %d", items, table.Items())
	}
}

// checkBound checks what a leaf says of its bound, which must be its lowest
// node.
func checkBound(t *testing.T, table *Table, l *leaf, lowest uint32) {
	t.Helper()
	var k, kin item.Key
	table.node(l.bound).borrow(&k)
	table.node(l.kin).borrow(&kin)
	agreed := int(l.agreed)
	if l.bound != lowest {
		t.Fatal("the bound is not the lowest node")
	}
	if l.hash != k.Hash || item.ComparePartition(&k, &kin) != 0 ||
		agreed != common(k.ID, kin.ID) || l.lead != leading(k.ID[agreed:]) {
		t.Fatalf("leaf with wrong bound: %+v", *l)
	}
}

// checkLevels checks the upper levels of a bucket: each links the leaves of its
// height in order.
func checkLevels(t *testing.T, table *Table, first *leaf, levels map[int][]uint32) {
	t.Helper()
	up := table.tower(first)
	if up == nil {
		if len(levels) > 0 {
			t.Fatal("levels without a tower")
		}
		return
	}
	if int(up.levels) != len(levels) {
		t.Fatalf("%d levels in use, want %d", up.levels, len(levels))
	}
	for i, next := range up.next {
		level := i + 1
		for _, want := range levels[level] {
			if next != want {
				t.Fatalf("level %d leads to %d, want %d", level, next, want)
			}
			next = *table.leaf(want).next(level)
		}
		if next != 0 {
			t.Fatalf("level %d goes on to %d", level, next)
		}
	}
}

func TestStructure(t *testing.T) {
	rnd := randtest.New(t)
	table := New(dirtyPool(t), Range{Lo: 1 << 60, Hi: 1 << 62}, 2000, item.NewSeed())
	defer table.Release()
	source := newKeySource(rnd, 300)
	for i := range 8000 {
		k := source.draw()
		mustPut(t, table, &k, &item.Version{Seq: uint64(i + 1)})
		if i%1000 == 0 {
			checkStructure(t, table)
		}
	}
	checkStructure(t, table)
}

// shapes of key sets that split leaves in different ways: the key with number i
// of n. Numbers order the keys of a shape.
var shapes = []struct {
	name string
	key  func(i int) item.Key
}{
	{"short ids", func(i int) item.Key { return makeKey(1<<63, "p", string([]byte{byte(i >> 16), byte(i >> 8), byte(i)})) }},
	{"long prefix", func(i int) item.Key { return makeKey(1<<63, "p", fmt.Sprintf("order-of-a-customer-%08d", i)) }},
	{"prefixes of each other", func(i int) item.Key {
		return makeKey(1<<63, "p", string(make([]byte, i%1000))+fmt.Sprintf("%08d", i))
	}},
	{"zeros", func(i int) item.Key { return makeKey(uint64(i/900), "p", string(make([]byte, i%900))) }},
	{"equal hashes", func(i int) item.Key { return makeKey(1<<63, fmt.Sprintf("p%07d", i/5), fmt.Sprint(i%5)) }},
	{"equal hashes, keys of many lengths", func(i int) item.Key {
		k := makeKey(1<<63, "p"+fmt.Sprint(i/70), fmt.Sprint(i%70/3))
		for range i % 3 {
			k.EPK = append(k.EPK, fmt.Appendf(nil, "%016x", i/700)...)
		}
		return k
	}},
	{"neighbouring hashes", func(i int) item.Key { return makeKey(1<<63+uint64(i/100), "p", fmt.Sprintf("%03d", i%100)) }},
}

// orders are the ways in which keys come.
var orders = []struct {
	name string
	perm func(rnd *rand.Rand, n int) []int
}{
	{"random", func(rnd *rand.Rand, n int) []int { return rnd.Perm(n) }},
	{"rising", func(_ *rand.Rand, n int) []int { return rise(n) }},
	{"falling", func(_ *rand.Rand, n int) []int {
		p := rise(n)
		for i := range p {
			p[i] = n - 1 - p[i]
		}
		return p
	}},
	{"interleaved", func(_ *rand.Rand, n int) []int { // six rising sequences
		p := rise(n)
		for i := range p {
			p[i] = i%6*(n/6) + i/6
		}
		return p
	}},
}

func rise(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	return p
}

// TestOneBucket puts sets of keys that share one bucket in several orders.
func TestOneBucket(t *testing.T) {
	rnd := randtest.New(t)
	n := randtest.Lone(2400)
	for _, shape := range shapes {
		for _, order := range orders {
			t.Run(shape.name+"/"+order.name, func(t *testing.T) {
				table := newTable(t, 0)
				var m model
				for i, j := range order.perm(rnd, n) {
					k, v := shape.key(j), item.Version{Seq: uint64(i + 1)}
					mustPut(t, table, &k, &v)
				}
				for j := range n {
					k := shape.key(j)
					var v item.Version
					if !table.Latest(k.Lookup(), &v) {
						t.Fatalf("key %d is lost", j)
					}
					m = append(m, &modelEntry{key: k, versions: []item.Version{v}})
				}
				m = sorted(m)
				checkStructure(t, table)
				checkWalk(t, table, m, uint64(n))
				checkSeeks(t, table, m, rnd)
			})
		}
	}
}

// checkSeeks seeks each key of m, and walks a few keys to both sides.
func checkSeeks(t *testing.T, table *Table, m model, rnd *rand.Rand) {
	t.Helper()
	c := table.Cursor(math.MaxUint64)
	for i, e := range m {
		at := func(op string, ok bool, want int) {
			t.Helper()
			if ok != (want >= 0 && want < len(m)) || ok && item.Compare(c.Key(), &m[want].key) != 0 {
				t.Fatalf("%s of key %d: %v, want key %d", op, i, ok, want)
			}
		}
		at("SeekGE", c.SeekGE(&e.key), i)
		for j := i + 1; j < min(i+rnd.IntN(3), len(m)); j++ {
			at("Next", c.Next(), j)
		}
		at("SeekLT", c.SeekLT(&e.key), i-1)
		for j := i - 2; j > max(i-rnd.IntN(4), -1); j-- {
			at("Prev", c.Prev(), j)
		}
	}
}

// TestRisingFills checks that ids in rising order leave full leaves, and almost
// full ones where another logical partition follows, whose items move along.
func TestRisingFills(t *testing.T) {
	for _, followers := range []int{0, 5} {
		table := newTable(t, 0)
		for i := range followers {
			k := makeKey(1<<63, "q", fmt.Sprint(i))
			mustPut(t, table, &k, &item.Version{Seq: 1})
		}
		const n = 20_000
		for i := range n {
			k := makeKey(1<<63, "p", fmt.Sprintf("order-%08d", i))
			mustPut(t, table, &k, &item.Version{Seq: uint64(i + 1)})
		}
		_, head := table.bucketFrom(0)
		leaves := 0
		for l := table.leaf(*head); ; l = table.leaf(*l.next(0)) {
			if leaves++; *l.next(0) == 0 {
				break
			}
		}
		if leaves > n/(maxEntries-1-followers) {
			t.Errorf("%d followers: %d leaves of rising ids", followers, leaves)
		}
	}
}

// TestBigPartition bounds the leaves that a search in a logical partition of
// 20,000 items meets.
func TestBigPartition(t *testing.T) {
	rnd := randtest.New(t)
	const n = 20_000
	for _, order := range orders {
		table := newTable(t, 0)
		for i, j := range order.perm(rnd, n) {
			k := makeKey(1<<63, "p", fmt.Sprintf("order-%08d", j))
			mustPut(t, table, &k, &item.Version{Seq: uint64(i + 1)})
		}
		_, head := table.bucketFrom(0)
		met := 0
		for j := range n {
			k := makeKey(1<<63, "p", fmt.Sprintf("order-%08d", j))
			met += meets(table, head, &k)
		}
		if mean := float64(met) / n; mean > 40 {
			t.Errorf("%s: a search meets %.1f leaves", order.name, mean)
		}
	}
}

// meets counts the leaves on the way of a search.
func meets(table *Table, head *uint32, k *item.Key) int {
	first := table.leaf(*head)
	s, at, met := &search{k: k}, first, 1
	up := table.tower(first)
	for level := int(up.levels); level >= 0; level-- {
		for {
			link := at.next(level)
			if at == first && level > 0 {
				link = &up.next[level-1]
			}
			if *link == 0 {
				break
			}
			met++
			l := table.leaf(*link)
			if s.compare(table, l) > 0 {
				break
			}
			at = l
		}
	}
	return met
}

// TestSearchCompare compares what a search tells of bounds with the keys.
func TestSearchCompare(t *testing.T) {
	rnd := randtest.New(t)
	table := newTable(t, 0)
	source := newKeySource(rnd, 1)
	draw := func() item.Key {
		k := source.draw()
		k.ID = make([]byte, rnd.IntN(20))
		for i := range k.ID {
			k.ID[i] = byte(rnd.IntN(40) / 39)
		}
		return k
	}
	if _, _, err := table.alloc(unitBytes, false); err != nil { // link 0 is none
		t.Fatal(err)
	}
	var links []uint32
	for range 500 {
		k := draw()
		link, mem, err := table.alloc(nodeSize(&k)+unitBytes, false)
		if err != nil {
			t.Fatal(err)
		}
		(*node)(mem).fill(&k)
		links = append(links, link)
	}
	leaves := make([]leaf, 500)
	for i := range leaves {
		kin := links[rnd.IntN(len(links))]
		if i > 0 {
			kin = leaves[i-1].kin
		}
		table.setBound(&leaves[i], links[i], kin)
	}
	for range 500 {
		k := draw()
		s := &search{k: &k}
		for i := range leaves {
			if got, want := s.compare(table, &leaves[i]), table.node(links[i]).compare(&k); got != want {
				t.Fatalf("bound %d against %x %x %x: %d, want %d", i, k.EPK, k.PK, k.ID, got, want)
			}
		}
	}
}

// TestLeavesBehindASeek plays the writer that inserts a leaf behind the one
// that a seek has come to, while the seek is in it.
func TestLeavesBehindASeek(t *testing.T) {
	table := newTable(t, 0)
	key := func(i int) item.Key { return makeKey(1<<40, "", fmt.Sprintf("%03d", i)) }
	put := func(i int) {
		k := key(i)
		mustPut(t, table, &k, &item.Version{Seq: 1})
	}
	for i := range maxEntries {
		put(i)
	}
	var p position
	p.table = table
	_, head := table.bucketFrom(0)
	p.enter(table.leaf(*head))
	for i := maxEntries; i < 300; i++ {
		put(i)
	}
	if table.leaf(*head) != p.leaf {
		t.Fatal("the full leaf of rising keys was replaced")
	}
	for _, i := range []int{maxEntries, 100, 299} {
		p.enter(table.leaf(*head))
		k := key(i)
		if n := p.notBelow(&k); n == nil || n.compare(&k) != 0 {
			t.Fatalf("not below %d: node %v", i, n)
		}
	}
	k := key(300)
	p.enter(table.leaf(*head))
	if p.notBelow(&k) != nil {
		t.Fatal("a node beyond the end")
	}
}

// TestReplacedLeaf holds leaves that are split again and again, and checks that
// both directions go on from them without a gap in what was there before.
func TestReplacedLeaf(t *testing.T) {
	rnd := randtest.New(t)
	const n = 3000
	table := newTable(t, 0)
	perm := rnd.Perm(n)
	key := func(i int) item.Key { return makeKey(1<<40, "", fmt.Sprintf("%05d", i)) }
	type held struct {
		cursor *Cursor
		at     int // key
		seq    uint64
		back   bool
	}
	putAt := make([]uint64, n)
	var holds []*held
	check := func(h *held) bool {
		want := h.at
		for {
			if want++; h.back {
				want -= 2
			}
			if want < 0 || want == n || putAt[want] != 0 && putAt[want] <= h.seq {
				break
			}
		}
		ok := h.cursor.Next
		if h.back {
			ok = h.cursor.Prev
		}
		got := ok()
		if got != (want >= 0 && want < n) {
			t.Fatalf("after key %d at %d: %v, want key %d", h.at, h.seq, got, want)
		}
		if !got {
			return false
		}
		if k := key(want); item.Compare(h.cursor.Key(), &k) != 0 {
			t.Fatalf("after key %d at %d: %s, want key %d", h.at, h.seq, h.cursor.Key().ID, want)
		}
		h.at = want
		return true
	}
	for i, j := range perm {
		k := key(j)
		seq := uint64(i + 1)
		mustPut(t, table, &k, &item.Version{Seq: seq})
		putAt[j] = seq
		h := &held{cursor: table.Cursor(seq), at: j, seq: seq, back: i%2 == 0}
		if !h.cursor.SeekGE(&k) {
			t.Fatal("missing")
		}
		if i%10 < 2 {
			holds = append(holds, h)
		}
		for range 3 {
			if len(holds) == 0 {
				break
			}
			at := rnd.IntN(len(holds))
			if !check(holds[at]) {
				holds[at] = holds[len(holds)-1]
				holds = holds[:len(holds)-1]
			}
		}
	}
	for _, h := range holds {
		for check(h) {
		}
	}
}
