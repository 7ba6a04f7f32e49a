package jsondoc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/cleavestore/cleave/internal/quotes"
	"github.com/cleavestore/cleave/internal/randtest"
)

var mutations = flag.Int("mutations", 30000, "changed documents that TestFastScan compares")

// scans is a pair of scanners, one with vector instructions and one without.
type scans struct {
	fast, plain       Scanner
	fastDoc, plainDoc Doc
}

// compare scans a document both ways, with equal results, and returns the error.
func (s *scans) compare(t *testing.T, doc []byte, paths *Paths, limits Limits) error {
	t.Helper()
	want := s.plain.read(doc, paths, limits, &s.plainDoc, false)
	got := s.fast.read(doc, paths, limits, &s.fastDoc, true)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%q:\ngot  %v\nwant %v", doc, got, want)
	}
	a, b := &s.fastDoc, &s.plainDoc
	if !bytes.Equal(a.ID, b.ID) || a.IDStart != b.IDStart || a.IDEnd != b.IDEnd || !bytes.Equal(a.PK, b.PK) || a.TTL != b.TTL || a.HasTTL != b.HasTTL || s.fast.found != s.plain.found {
		t.Fatalf("%q:\ngot  %+v\nwant %+v", doc, a, b)
	}
	// The fast scan by itself: it decides every case, so that no document is scanned
	// twice but one that is refused.
	s.plain.found = [slots]finding{}
	accepted := s.plain.scan(doc, paths.places, maxDepth(limits)) == nil
	s.plain.trim()
	if fast := s.fast.scanFast(doc, paths.places, maxDepth(limits)); fast != accepted {
		t.Fatalf("%q: the fast scan says %t", doc, fast)
	}
	s.fast.trim()
	return want
}

func maxDepth(l Limits) int {
	if l.MaxDepth == 0 {
		return DefaultMaxDepth
	}
	return l.MaxDepth
}

// samples returns documents of quotes.MinLen bytes or more: generated, indented, and of
// published data sets.
func samples(t testing.TB, r *rand.Rand) (docs [][]byte) {
	t.Helper()
	add := func(doc []byte) {
		if n := quotes.MinLen - len(doc); n > 0 {
			doc = slices.Concat(doc, bytes.Repeat([]byte{' '}, n))
		}
		docs = append(docs, doc)
	}
	for range 100 {
		doc := foodDocument(r)
		add(doc)
		var indented bytes.Buffer
		if err := json.Indent(&indented, doc, "", []string{"\t", " ", "    "}[r.IntN(3)]); err != nil {
			t.Fatal(err)
		}
		add(indented.Bytes())
		g := generator{r: r}
		g.document()
		add(g.b)
	}
	for range 50 { // the structure of a generated document, in windows of its own
		g := generator{r: r}
		g.document()
		long := fmt.Sprintf(`{"long":"%s","escaped":"%s",`, strings.Repeat("é long text ", r.IntN(400)), strings.Repeat(`\\\"\u00e9`, r.IntN(500)))
		add(bytes.Replace(g.b, []byte("{"), []byte(long), 1))
		var wide strings.Builder
		for i := range r.IntN(100) {
			fmt.Fprintf(&wide, `"\u0077ide %d":[{},"%d"],`, i, i)
		}
		add(bytes.Replace(g.b, []byte("{"), []byte("{"+wide.String()), 1))
	}
	files, err := filepath.Glob(filepath.FromSlash("../../testdata/real/*.ndjson.zst"))
	if err != nil || len(files) == 0 {
		t.Fatal("no data", err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		z, err := zstd.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(z)
		lines.Buffer(nil, 4<<20)
		for n := 0; lines.Scan() && n < 200; n++ {
			add(bytes.Clone(lines.Bytes()))
		}
		z.Close()
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return docs
}

// mutate changes up to three places of a document: as damage does, by a byte, or by a
// part of another document.
func mutate(r *rand.Rand, docs [][]byte) []byte {
	doc := docs[r.IntN(len(docs))]
	for range r.IntN(4) {
		if len(doc) == 0 {
			break
		}
		switch i := r.IntN(len(doc)); r.IntN(8) {
		case 0:
			doc = slices.Clone(doc)
			doc[i] ^= 1 << r.IntN(8)
		case 1:
			doc = slices.Clone(doc)
			doc[i] = byte(r.Uint32())
		case 2:
			other := docs[r.IntN(len(docs))]
			j := r.IntN(len(other))
			doc = slices.Concat(doc[:i], other[j:min(len(other), j+r.IntN(200))], doc[i:])
		case 3: // a byte that means something takes the place of one
			doc = slices.Clone(doc)
			doc[i] = `"\{}[]:,0-.e `[r.IntN(13)]
		default:
			doc = damage(r, doc)
		}
	}
	if n := quotes.MinLen - len(doc); n > 0 {
		doc = slices.Concat(doc, bytes.Repeat([]byte{' '}, n))
	}
	return doc
}

// TestFastScan compares the scan by vector instructions with the plain one, on changed
// documents.
func TestFastScan(t *testing.T) {
	if !quotes.Available {
		t.Log("the processor has not the instructions")
		return
	}
	r := randtest.New(t)
	rounds := *mutations
	if testing.Short() {
		rounds = min(rounds, 6000)
	}
	docs := samples(t, r)
	var s scans
	sets := []*Paths{mustCompile(t, "/foodGroup"), mustCompile(t, "/a/b", "/id"), mustCompile(t, "/name", "/c", "/ttl"), mustCompile(t, "/wide 3")}
	kinds := map[error]int{}
	for _, doc := range docs {
		for _, paths := range sets {
			_ = s.compare(t, doc, paths, Limits{})
		}
	}
	for range rounds {
		err := s.compare(t, mutate(r, docs), sets[r.IntN(len(sets))], Limits{MaxDepth: r.IntN(2) * 5})
		var e *Error
		if errors.As(err, &e) {
			kinds[e.Kind]++
		} else {
			kinds[nil]++
		}
	}
	for _, kind := range []error{nil, ErrSyntax, ErrUTF8, ErrDuplicateName, ErrTooDeep} {
		if kinds[kind] < rounds/600 {
			t.Errorf("only %d documents with %v", kinds[kind], kind)
		}
	}
	t.Log(kinds)
}

// TestFastScanEverywhere damages a document at each of its bytes.
func TestFastScanEverywhere(t *testing.T) {
	if !quotes.Available {
		t.Log("the processor has not the instructions")
		return
	}
	r := rand.New(rand.NewPCG(1, 3))
	var s scans
	paths := mustCompile(t, "/foodGroup")
	doc := foodDocument(r)
	escaped := []byte(`{"id":"\u0041\ud83d\ude00","é":"\\\"\n","\u00e8":[1.5e-7,true,null,{"a":{}}],"foodGroup":"x","more":"` + strings.Repeat("more ", 20) + `"}`)
	for _, doc := range [][]byte{doc, escaped} {
		for i := range doc {
			for _, c := range []byte("\"\\{}[]:,0-e. \n\x00\x80\xc3\xe0\xed\xf4\xff") {
				changed := bytes.Clone(doc)
				changed[i] = c
				_ = s.compare(t, changed, paths, Limits{})
				if i%7 == 0 {
					_ = s.compare(t, slices.Insert(changed, i, doc[i]), paths, Limits{})
				}
			}
			if i >= quotes.MinLen {
				_ = s.compare(t, doc[:i], paths, Limits{})
			}
		}
	}
}

// FuzzScan compares the scan by vector instructions with the plain one, in any bytes.
func FuzzScan(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 0))
	for _, doc := range samples(f, r)[:60] {
		f.Add(doc)
	}
	paths, err := Compile([]string{"/foodGroup", "/a/b"})
	if err != nil {
		f.Fatal(err)
	}
	var s scans
	f.Fuzz(func(t *testing.T, doc []byte) {
		if n := quotes.MinLen - len(doc); n > 0 {
			doc = slices.Concat(doc, bytes.Repeat([]byte{' '}, n))
		}
		if quotes.Available {
			_ = s.compare(t, doc, paths, Limits{MaxDepth: 6})
		}
	})
}
