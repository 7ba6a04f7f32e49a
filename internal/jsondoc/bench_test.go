package jsondoc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cleavestore/cleave/internal/quotes"
)

// foodDocument returns a nested document of 1 to 2 KB.
func foodDocument(r *rand.Rand) []byte {
	words := []string{"Babyfood", "cereal", "oatmeal", "with applesauce", "dry", "fortified", "Crème fraîche", "raw", "lowfat", "unsweetened", "whole"}
	units := []string{"g", "mg", "kcal", "µg", "IU"}
	var b bytes.Buffer
	word := func() string { return words[r.IntN(len(words))] }
	fmt.Fprintf(&b, `{"id":"%05d","description":"%s, %s, %s","tags":[`, r.IntN(1e5), word(), word(), word())
	for i := range 3 {
		fmt.Fprintf(&b, `%s{"name":"%s"}`, ",,"[:min(i, 1)], word())
	}
	fmt.Fprintf(&b, `],"version":1,"isFromSurvey":%v,"foodGroup":"%s Foods","manufacturerName":null,"nutrients":[`, r.IntN(2) == 0, word())
	for i := range 10 + r.IntN(8) {
		fmt.Fprintf(&b, `%s{"id":"%d","description":"%s, %s","nutritionValue":%.3f,"units":"%s"}`, ",,"[:min(i, 1)], 200+r.IntN(500), word(), word(), r.Float64()*100, units[r.IntN(len(units))])
	}
	b.WriteString(`],"servings":[`)
	for i := range 3 {
		fmt.Fprintf(&b, `%s{"amount":%d,"description":"%s","weightInGrams":%d}`, ",,"[:min(i, 1)], r.IntN(4), word(), r.IntN(400))
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func foodDocuments(n int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	docs := make([][]byte, n)
	for i := range docs {
		docs[i] = foodDocument(r)
	}
	return docs
}

func benchmarkScan(b *testing.B, docs [][]byte, path string) {
	paths, err := Compile([]string{path})
	if err != nil {
		b.Fatal(err)
	}
	var s Scanner
	var out Doc
	scan := func(b *testing.B, fast bool) {
		b.ReportAllocs()
		total, i := 0, 0
		for b.Loop() {
			if err := s.read(docs[i], paths, Limits{}, &out, fast); err != nil {
				b.Fatal(err)
			}
			total += len(docs[i])
			if i++; i == len(docs) {
				i = 0
			}
		}
		b.SetBytes(int64(total / b.N))
	}
	b.Run("plain", func(b *testing.B) { scan(b, false) })
	if quotes.Available && len(docs[0]) >= quotes.MinLen {
		b.Run("fast", func(b *testing.B) { scan(b, true) })
	}
}

func BenchmarkFood(b *testing.B) { benchmarkScan(b, foodDocuments(1000), "/foodGroup") }

func BenchmarkFoodIndented(b *testing.B) {
	docs := foodDocuments(1000)
	for i := range docs {
		var out bytes.Buffer
		if err := json.Indent(&out, docs[i], "", "  "); err != nil {
			b.Fatal(err)
		}
		docs[i] = out.Bytes()
	}
	benchmarkScan(b, docs, "/foodGroup")
}

func BenchmarkFoodWarm(b *testing.B) { benchmarkScan(b, foodDocuments(1), "/foodGroup") }

func BenchmarkSmall(b *testing.B) {
	benchmarkScan(b, [][]byte{[]byte(`{"id":"1880-F-Mary","name":"Mary","sex":"F","year":1880,"births":7065}`)}, "/name")
}

func BenchmarkNumberKey(b *testing.B) {
	benchmarkScan(b, [][]byte{[]byte(`{"id":"1880-F-Mary","name":"Mary","sex":"F","year":1880,"births":7065}`)}, "/year")
}

func BenchmarkManyMembers(b *testing.B) {
	var doc bytes.Buffer
	doc.WriteString(`{"id":"x"`)
	for i := range 200 {
		fmt.Fprintf(&doc, `,"member%d":%d`, i, i)
	}
	doc.WriteString("}")
	benchmarkScan(b, [][]byte{doc.Bytes()}, "/member7")
}

// BenchmarkValid is the measure: encoding/json only says whether it is JSON.
func BenchmarkValid(b *testing.B) {
	docs := foodDocuments(1000)
	total, i := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		if !json.Valid(docs[i]) {
			b.Fatal("invalid")
		}
		total += len(docs[i])
		if i++; i == len(docs) {
			i = 0
		}
	}
	b.SetBytes(int64(total / b.N))
}

// BenchmarkLengths shows from which length on vector instructions are worth their start.
func BenchmarkLengths(b *testing.B) {
	for _, nutrients := range []int{1, 2, 3, 4, 6} {
		doc := []byte(`{"id":"01234","foodGroup":"Baby Foods","nutrients":[`)
		for i := range nutrients {
			doc = fmt.Appendf(doc, `%s{"id":"%d","description":"Protein, whole","nutritionValue":%d.25,"units":"g"}`, ",,"[:min(i, 1)], 200+i, i)
		}
		doc = append(doc, `]}`...)
		b.Run(fmt.Sprint(len(doc)), func(b *testing.B) { benchmarkScan(b, [][]byte{doc}, "/foodGroup") })
	}
}
