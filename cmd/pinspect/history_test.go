package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
)

// reshaped is a store whose partitions were split, merged and moved. Their files
// are shared still: they are written anew at a byte a second.
func reshaped(t *testing.T) (dir string, last []engine.PartitionID) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	ctx := t.Context()
	db, err := engine.Open(ctx, dir, &engine.Options{Durability: engine.Buffered, TrimBytesPerSecond: 1})
	check(t, err)
	c, err := db.CreateContainer(ctx, "c", engine.ContainerDef{PartitionKey: []string{"/k"}})
	check(t, err)
	other, err := db.CreateContainer(ctx, "other", engine.ContainerDef{PartitionKey: []string{"/k"}, MinPartitions: 2})
	check(t, err)
	put := func(c *engine.Container, n, k int) {
		_, err := c.Upsert(ctx, fmt.Appendf(nil, `{"id":"%d","k":"k%d","text":"%080d"}`, n, k, n), nil)
		check(t, err)
	}
	for i := range 900 {
		put(c, i, i%60)
	}
	put(other, 1, 1)
	check(t, db.Flush(ctx))
	ids := func() (list []engine.PartitionID) {
		for _, p := range c.Partitions() {
			list = append(list, p.ID)
		}
		return list
	}
	wait := func(job *engine.ReshapeJob, err error) {
		t.Helper()
		check(t, err)
		check(t, job.Wait(ctx))
	}
	wait(c.Split(ctx, ids()[0], &engine.SplitOptions{At: "1F"})) // 1 -> 4 5
	wait(c.Split(ctx, ids()[0], &engine.SplitOptions{At: "0F"})) // 4 -> 6 7
	wait(c.MoveBoundary(ctx, ids()[0], ids()[1], "11"))          // 6 7 -> 8 9
	wait(c.Merge(ctx, ids()[1], ids()[2]))                       // 9 5 -> 10
	for i := range 40 {
		put(c, i, 3) // the newest writes, in one logical partition
	}
	last = ids()
	check(t, db.Close())
	return dir, last
}

func TestHistory(t *testing.T) {
	dir, last := reshaped(t)
	if fmt.Sprint(last) != "[8 10]" {
		t.Fatalf("partitions %v", last)
	}
	list := objects(t, clean(t, "history", dir, "--json"))
	var got []string
	for _, v := range list {
		text := v["container"].(string) + " " + v["kind"].(string)
		for _, side := range []string{"parents", "children"} {
			for _, p := range v[side].([]any) {
				p := p.(map[string]any)
				text += fmt.Sprintf(" %v[%.2s %.2s]", p["id"], p["min"], p["max"])
			}
			text += ";"
		}
		got = append(got, text)
	}
	want := []string{
		"c split 1[ FF]; 4[ 1F] 5[1F FF];",
		"c split 4[ 1F]; 6[ 0F] 7[0F 1F];",
		"c move 6[ 0F] 7[0F 1F]; 8[ 11] 9[11 1F];",
		"c merge 9[11 1F] 5[1F FF]; 10[11 FF];",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("history:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	text := clean(t, "history", dir)
	for _, want := range []string{"container c: 4 changes", "← 5 + 9 ← 1 + 6 + 7 ← 4", "container other: 0 changes", "made with the container", "6 + 7    →  8 + 9"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	// What partition 9 came from and what came of it.
	if n := len(objects(t, clean(t, "history", dir, "--partition", "9", "--json"))); n != 4 {
		t.Errorf("%d changes lead to 9 or begin with it", n)
	}
	if n := len(objects(t, clean(t, "history", dir, "--partition", "8", "--json"))); n != 3 {
		t.Errorf("%d changes lead to 8", n)
	}
	if text := clean(t, "history", dir, "--container", "c", "--rows", "1"); !strings.Contains(text, "the newest 1 of them") || strings.Contains(text, "move") {
		t.Errorf("the newest change:\n%s", text)
	}
	for _, args := range [][]string{{"--partition", "99"}, {"--container", "nowhere"}, {"--rows=-1"}} {
		if r := pinspect(t, append([]string{"history", dir}, args...)...); r.status != cli.ExitUsage {
			t.Errorf("%q: status %d", args, r.status)
		}
	}
}

// Files that partitions share are counted once.
func TestPartitionsShare(t *testing.T) {
	dir, last := reshaped(t)
	var own, shared float64
	for _, v := range ofType(objects(t, clean(t, "partitions", dir, "--container", "c", "--json")), "partition") {
		own += v["own_bytes"].(float64)
		shared += v["shared_bytes"].(float64)
	}
	inodes := make(map[string]bool)
	for _, name := range storeFiles(t, dir, "p/*/*.seg") {
		inodes[filepath.Base(name)] = true
	}
	info := objects(t, clean(t, "info", dir, "--json"))
	disk := info[0]["disk_bytes"].(map[string]any)["segments"].(float64)
	if shared == 0 || own+shared/float64(len(last)) > disk {
		t.Errorf("%v bytes of their own, %v shared, %v on disk", own, shared, disk)
	}
	text := clean(t, "partitions", dir, "--container", "c")
	if !strings.Contains(text, "that several partitions share, counted once") {
		t.Errorf("%s", text)
	}
	if text := clean(t, "partitions", dir, "--container", "other"); strings.Contains(text, "counted once") {
		t.Errorf("%s", text)
	}
}

func TestHot(t *testing.T) {
	dir, _ := reshaped(t)
	list := objects(t, clean(t, "hot", dir, "--container", "c", "--recent", "40", "--json", "--show-keys"))
	if len(list) != 1 || list[0]["key"] != `"k3"` || list[0]["recent_documents"] != 40.0 || list[0]["recent_share"] != 1.0 || list[0]["documents"].(float64) < 40 {
		t.Errorf("%v", list)
	}
	// The newest tenth of 941 writes.
	list = objects(t, clean(t, "hot", dir, "--container", "c", "--json", "--top", "100"))
	sum := 0.0
	for i, v := range list {
		sum += v["recent_documents"].(float64)
		if i > 0 && v["recent_documents"].(float64) > list[i-1]["recent_documents"].(float64) {
			t.Errorf("row %d is hotter than the one before", i)
		}
	}
	if len(list) < 2 || sum != 94 { // one of the 95 is in the other container
		t.Errorf("%d rows with %v documents", len(list), sum)
	}
	text := clean(t, "hot", dir, "--recent", "40")
	if strings.Contains(text, `"k3"`) || !strings.Contains(text, "container other: the last write of 0 documents") || !strings.Contains(text, "40 documents is among the newest 40 writes") {
		t.Errorf("%s", text)
	}
	each := objects(t, clean(t, "hot", dir, "--container", "c", "--json", "--each", "--top", "1", "--recent", "900"))
	if len(each) != 2 || each[0]["partition"] == each[1]["partition"] {
		t.Errorf("the hottest of each: %v", each)
	}
	if r := pinspect(t, "hot", dir, "--top", "0"); r.status != cli.ExitUsage {
		t.Errorf("status %d", r.status)
	}
}

func TestMapHeat(t *testing.T) {
	dir, _ := reshaped(t)
	v := objects(t, clean(t, "map", dir, "--container", "c", "--recent", "40", "--json"))[0]
	heat := v["heat"].(map[string]any)
	var byPlace, byPartition float64
	for _, n := range heat["recent_documents_by_place"].([]any) {
		byPlace += n.(float64)
	}
	for _, p := range v["partitions"].([]any) {
		byPartition += p.(map[string]any)["recent_documents"].(float64)
	}
	if heat["recent_documents"] != 40.0 || heat["writes"] != 40.0 || byPlace != 40 || byPartition != 40 {
		t.Errorf("%v documents by place, %v by partition: %v", byPlace, byPartition, heat)
	}
	if v := objects(t, clean(t, "map", dir, "--container", "c", "--no-heat", "--json"))[0]; v["heat"] != nil {
		t.Errorf("heat that was not wanted: %v", v["heat"])
	}
	if text := clean(t, "map", dir, "--no-heat"); !strings.Contains(text, "heat is not shown") {
		t.Errorf("%s", text)
	}
	if text := clean(t, "map", dir, "--svg", "-", "--recent", "40"); !strings.Contains(text, "strip below it") || !strings.Contains(text, "100.0% of the heat") {
		t.Errorf("%s", text)
	}
}

// TestHotAfterCrash: the sequences that a store leaves out after a crash are no writes.
func TestHotAfterCrash(t *testing.T) {
	dir := t.TempDir()
	write := func(n int) {
		db, err := engine.Open(t.Context(), dir, nil)
		check(t, err)
		c, err := db.EnsureContainer(t.Context(), "c", engine.ContainerDef{PartitionKey: []string{"/k"}})
		check(t, err)
		for i := range n {
			doc := fmt.Appendf(nil, `{"id":"%d of %d","k":"%d"}`, i, n, i)
			_, err := c.Upsert(t.Context(), doc, &engine.WriteOptions{Durability: engine.Buffered})
			check(t, err)
		}
		check(t, db.Close())
	}
	write(100)
	neverClosed(t, dir)
	write(20)
	if text := clean(t, "hot", dir); !strings.Contains(text, "the last write of 12 documents is among the newest 12 writes") {
		t.Errorf("the newest tenth: %s", text)
	}
	if text := clean(t, "map", dir, "--recent", "30"); !strings.Contains(text, "where 30 documents lie whose last write is among the newest 30 writes") {
		t.Errorf("the newest 30: %s", text)
	}
}
