package main

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/survey"
	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/partmap"
)

// newMap makes a map of even partitions with these bytes.
func newMap(w survey.Window, sizes ...int64) *mapReport {
	m := &mapReport{Container: "a<b", Key: []string{"/k", "/l"}, Logical: 12, Density: make([]int64, mapBins), window: w}
	for i, r := range partmap.Ranges(len(sizes)) {
		m.RawBytes += sizes[i]
		m.Partitions = append(m.Partitions, mapPartition{
			ID: partmap.PartitionID(i + 1), Share: 1 / float64(len(sizes)), Logical: 3, Documents: 40, Exact: i > 0, RawBytes: sizes[i], FileBytes: sizes[i] / 2, rng: r,
		})
		m.Density[(2*i+1)*mapBins/(2*len(sizes))] = sizes[i]
	}
	m.Largest = []mapLogical{{EPK: "2FFFFFFFFFFFFFFF", Key: `"<&>"`, Partition: 4, RawBytes: sizes[len(sizes)-1], Place: (float64(len(sizes)) - 0.5) / float64(len(sizes))}}
	return m
}

// withHeat adds heat to a map: most of it in the second partition.
func withHeat(m *mapReport) *mapReport {
	m.Heat = &mapHeat{Writes: 1000, ByPlace: make([]int64, mapBins), span: ", at some time"}
	for i := range m.Partitions {
		n := []int64{5, 60, 0, 15}[i%4]
		m.Partitions[i].Recent = &n
		m.Heat.Documents += n
		m.Heat.ByPlace[(2*i+1)*mapBins/(2*len(m.Partitions))] = n
	}
	return m
}

func TestMapOutput(t *testing.T) {
	var b bytes.Buffer
	out := &output{w: bufio.NewWriter(&b)}
	withHeat(newMap(survey.Window{Lo: 0, Hi: 1}, 4<<20, 1<<20, 0, 9<<20)).print(out, 3)
	out.printf("\n")
	newMap(survey.Window{Lo: 0, Hi: 1}, make([]int64, 40)...).print(out, 0)
	check(t, out.w.Flush())
	golden(t, "map.txt", b.String())
}

func TestMap(t *testing.T) {
	s := newSample(t)
	list := objects(t, clean(t, "map", s.dir, "--json", "--show-keys"))
	if len(list) != 3 || list[1]["container"] != "cities" && list[0]["container"] != "cities" {
		t.Fatalf("%d maps", len(list))
	}
	for _, v := range list {
		if v["container"] != "cities" {
			continue
		}
		var density, bytes, share float64
		for _, n := range v["raw_bytes_by_place"].([]any) {
			density += n.(float64)
		}
		for _, p := range v["partitions"].([]any) {
			bytes += p.(map[string]any)["raw_bytes"].(float64)
			share += p.(map[string]any)["key_space_share"].(float64)
		}
		if density != v["raw_bytes"] || bytes != density || share < 0.999 || share > 1.001 || v["logical_partitions"] != 7.0 {
			t.Errorf("%v bytes by place, %v by partition, %v of the key space: %v", density, bytes, share, v["raw_bytes"])
		}
		raw := 0
		for _, doc := range s.cities {
			raw += len(doc)
		}
		if bytes < float64(raw) {
			t.Errorf("%v bytes, the documents have %d", bytes, raw)
		}
		if largest := v["largest"].([]any); len(largest) != 3 || !strings.HasPrefix(largest[0].(map[string]any)["key"].(string), `"C`) {
			t.Errorf("largest: %v", largest)
		}
	}
	text := clean(t, "map", s.dir, "--container", "cities")
	if !strings.Contains(text, "├1") || !strings.Contains(text, "├3") || strings.Contains(text, `"C`) || strings.Contains(text, "blobs") {
		t.Errorf("%s", text)
	}
	// A part of the key space has only the partitions that reach into it.
	v := objects(t, clean(t, "map", s.dir, "--container", "cities", "--from", "15", "--to", "2A0", "--json"))[0]
	if n := len(v["partitions"].([]any)); n != 2 {
		t.Errorf("%d partitions between 15 and 2A", n)
	}
	if text := clean(t, "map", s.dir, "--container", "cities", "--partition", "2"); strings.Contains(text, "├1") || !strings.Contains(text, "├2") {
		t.Errorf("partition 2:\n%s", text)
	}
}

// The picture is well-formed, and shows names as they are.
func TestMapSVG(t *testing.T) {
	var b bytes.Buffer
	drawSVG(&b, []*mapReport{withHeat(newMap(survey.Window{Lo: 0, Hi: 1}, 4<<20, 1<<20, 0, 9<<20)), newMap(survey.Window{Lo: 0.2, Hi: 0.5}, make([]int64, 3000)...), newMap(survey.Window{Lo: 0, Hi: 1}, 7)})
	texts := ""
	rects := 0
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "rect" {
				rects++
			}
		case xml.CharData:
			texts += string(token) + "\n"
		}
	}
	for _, want := range []string{"a<b", "/k, /l", `"<&>" 9.00 MiB`, "9.00 MiB", "no documents", "physical partition 4", "75.0% of the heat", "newest 1,000 writes of the store, at some time"} {
		if !strings.Contains(texts, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if rects < 3000 || rects > 3000+2*mapBins+100 {
		t.Errorf("%d rectangles", rects)
	}
	s := newSample(t)
	file := filepath.Join(t.TempDir(), "map.svg")
	if text := clean(t, "map", s.dir, "--svg", file); text != "" {
		t.Error(text)
	}
	saved, err := os.ReadFile(file)
	check(t, err)
	if text := clean(t, "map", s.dir, "--svg", "-"); text != string(saved) || !strings.HasPrefix(text, "<svg") {
		t.Error("standard output shows something else")
	}
}

// No text of the picture lies on another one, as wide as a letter is in the
// mean of common fonts.
func TestMapSVGTexts(t *testing.T) {
	m := withHeat(newMap(survey.Window{Lo: 0, Hi: 1}, make([]int64, 4000)...))
	m.RawBytes, m.Logical = 999<<30, 123_456_789
	m.Heat.Documents, m.Heat.Writes, m.Heat.span = 1_234_567_890, 1_234_567_890, ", from 0000-00-00 00:00:00 to 0000-00-00 00:00:00 UTC"
	var b bytes.Buffer
	drawSVG(&b, []*mapReport{m, m})
	type box struct {
		left, right, top, bottom float64
		text                     string
	}
	var all []box
	const letter = 0.58
	texts := regexp.MustCompile(`<text x="([\d.]+)" y="([\d.]+)" font-size="(\d+)" text-anchor="(\w+)"[^>]*>([^<]*)</text>`)
	for _, found := range texts.FindAllStringSubmatch(b.String(), -1) {
		var x, y, size float64
		if _, err := fmt.Sscan(found[1]+" "+found[2]+" "+found[3], &x, &y, &size); err != nil {
			t.Fatal(err)
		}
		width := letter * size * float64(len([]rune(found[5])))
		left := map[string]float64{"start": x, "middle": x - width/2, "end": x - width}[found[4]]
		next := box{left, left + width, y - size, y, found[5]}
		for _, other := range all {
			if next.left < other.right && other.left < next.right && next.top < other.bottom && other.top < next.bottom {
				t.Errorf("%q lies on %q", next.text, other.text)
			}
		}
		if all = append(all, next); next.left < 0 || next.right > svgWidth {
			t.Errorf("%q reaches beyond the picture", next.text)
		}
	}
	if len(all) < 20 {
		t.Errorf("%d texts", len(all))
	}
}

func TestShade(t *testing.T) {
	for _, part := range []float64{-1, 0, 0.5, 1, 2} {
		if fill, text := chart.SizeColour(part); len(fill) != 7 || len(text) != 7 {
			t.Errorf("%v: %s, %s", part, fill, text)
		}
	}
}

func TestTop(t *testing.T) {
	s := newSample(t)
	list := objects(t, clean(t, "top", s.dir, "--container", "cities", "--json", "--show-keys"))
	if len(list) != 7 {
		t.Fatalf("%d logical partitions", len(list))
	}
	bytesOf, documentsOf := make(map[string]int), make(map[string]int)
	for i := range 620 {
		if id, country, _ := s.city(i); s.cities[id] != "" {
			bytesOf[fmt.Sprintf("%q", country)] += len(s.cities[id])
			documentsOf[fmt.Sprintf("%q", country)]++
		}
	}
	last := list[0]["raw_bytes"].(float64)
	shares := make(map[any]float64)
	for _, v := range list {
		key := v["key"].(string)
		if v["raw_bytes"].(float64) < float64(bytesOf[key]) || v["documents"].(float64) < float64(documentsOf[key]) || v["raw_bytes"].(float64) > last {
			t.Errorf("want at least %d bytes, %d documents: %v", bytesOf[key], documentsOf[key], v)
		}
		last = v["raw_bytes"].(float64)
		shares[v["partition"]] += v["partition_share"].(float64)
	}
	for id, share := range shares {
		if share < 0.999 || share > 1.001 {
			t.Errorf("the shares in partition %v add up to %v", id, share)
		}
	}
	// What pinspect partitions counts exactly is within the bounds.
	if n := len(objects(t, clean(t, "top", s.dir, "--container", "cities", "--json", "--top", "2"))); n != 2 {
		t.Errorf("%d rows", n)
	}
	each := objects(t, clean(t, "top", s.dir, "--container", "cities", "--json", "--each", "--top", "1"))
	if len(each) != len(shares) {
		t.Errorf("%d rows for %d physical partitions", len(each), len(shares))
	}
	for _, v := range objects(t, clean(t, "top", s.dir, "--partition", "2", "--json")) {
		if v["partition"] != 2.0 {
			t.Errorf("another partition: %v", v)
		}
	}
	text := clean(t, "top", s.dir)
	if strings.Contains(text, `"C`) || !strings.Contains(text, "container empty: 0 logical partitions") || !strings.Contains(text, "at most 20.0 GiB each") {
		t.Errorf("%s", text)
	}
}

// A store with one document, not flushed: the largest one is in the log.
func TestTopUnflushed(t *testing.T) {
	s := newSample(t)
	v := objects(t, clean(t, "top", s.dir, "--container", "blobs", "--json", "--show-keys"))
	if len(v) != 1 || v[0]["key"] != `["x",1]` || v[0]["exact"] != true || v[0]["partition_share"] != 1.0 || v[0]["documents"] != 1.0 {
		t.Errorf("%v", v)
	}
}

func TestMapAndTopBadInput(t *testing.T) {
	s := newSample(t)
	f := func(text string, args ...string) {
		t.Helper()
		if r := pinspect(t, args...); r.status != cli.ExitUsage || !strings.Contains(r.stderr, text) || r.stdout != "" {
			t.Errorf("%q: status %d, want %q\n%s%s", args, r.status, text, r.stdout, r.stderr)
		}
	}
	f("--top", "top", s.dir, "--top", "0")
	f(`"nowhere"`, "top", s.dir, "--container", "nowhere")
	f("99", "map", s.dir, "--partition", "99")
	f("choose one", "map", s.dir, "--json", "--svg", "x.svg")
	f("hex digit", "map", s.dir, "--from", "xyz")
	f("behind", "map", s.dir, "--from", "20", "--to", "10")
	f("behind", "map", s.dir, "--from", "FF")
	f("--rows", "map", s.dir, "--rows=-1")
}
