package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavestore/cleave/cleavetest"
	"github.com/cleavestore/cleave/engine"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var acme = engine.StringKey("acme")

// document is a document of a tenant.
func document(tenant, id, text string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"tenant":%q,"text":%q}`, id, tenant, text)
}

// notes is the container of the tests.
func notes(t testing.TB, db *engine.DB, change func(*engine.ContainerDef)) *engine.Container {
	t.Helper()
	def := engine.ContainerDef{PartitionKey: []string{"/tenant"}}
	if change != nil {
		change(&def)
	}
	c, err := db.EnsureContainer(t.Context(), "notes", def)
	must(t, err)
	return c
}

func upsert(t testing.TB, c *engine.Container, tenant, id, text string) {
	t.Helper()
	_, err := c.Upsert(t.Context(), document(tenant, id, text), nil)
	must(t, err)
}

// content returns the documents of a tenant by id, and their etags.
func content(t testing.TB, c *engine.Container, key engine.PartitionKey) (docs map[string]string, etags map[string]engine.ETag) {
	t.Helper()
	docs, etags = make(map[string]string), make(map[string]engine.ETag)
	for it, err := range c.Scan(context.Background(), key, engine.IDRange{}, nil) {
		must(t, err)
		docs[it.ID], etags[it.ID] = string(it.Body), it.ETag
	}
	return docs, etags
}

func backupOf(t testing.TB, db *engine.DB, since *engine.BackupInfo) ([]byte, *engine.BackupInfo) {
	t.Helper()
	var b bytes.Buffer
	info, err := db.Backup(t.Context(), &b, &engine.BackupOptions{Since: since})
	must(t, err)
	return b.Bytes(), &info
}

// run restores, with a directory for temporary stores in which nothing may be left.
func run(t testing.TB, c *engine.Container, backup []byte, o Options) (Result, error) {
	t.Helper()
	o.TempDir = t.TempDir()
	result, err := LogicalPartition(context.Background(), c, acme, bytes.NewReader(backup), &o)
	if left, listErr := os.ReadDir(o.TempDir); listErr != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, listErr)
	}
	return result, err
}

// TestLogicalPartition brings a tenant back from chains of backups between which everything
// is flushed, compacted, split and merged. Random changes come before; the other tenants keep
// theirs.
func TestLogicalPartition(t *testing.T) {
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(1, 2))
	s := cleavetest.New(t, cleavetest.WithOptions(engine.Options{FileBytes: 64 << 10}))
	db := s.DB()
	c := notes(t, db, func(d *engine.ContainerDef) { d.Limits.BatchOperations = 40 })
	tenants := []string{"acme", "brown", "clark", "davis", "evans", "frank"}
	scramble := func(n int) {
		for range n {
			tenant, id := tenants[rng.IntN(len(tenants))], fmt.Sprintf("%03d", rng.IntN(300))
			if rng.IntN(4) == 0 {
				if err := c.Delete(ctx, engine.StringKey(tenant), id, nil); err != nil && !errors.Is(err, engine.ErrNotFound) {
					t.Fatal(err)
				}
				continue
			}
			upsert(t, c, tenant, id, strings.Repeat(fmt.Sprint(rng.IntN(10)), rng.IntN(300)))
		}
	}
	var chain [][]byte
	var since *engine.BackupInfo
	var then []map[string]string
	for round := range 5 {
		scramble(700)
		switch round {
		case 0, 3:
			must(t, db.Flush(ctx))
		case 1:
			job, err := c.Split(ctx, c.Partitions()[0].ID, nil)
			must(t, err)
			must(t, job.Wait(ctx))
		case 2:
			must(t, c.DeleteLogicalPartition(ctx, acme, nil))
			scramble(100)
			must(t, db.Compact(ctx))
		case 4:
			parts := c.Partitions()
			job, err := c.Merge(ctx, parts[0].ID, parts[1].ID)
			must(t, err)
			must(t, job.Wait(ctx))
		}
		stream, info := backupOf(t, db, since)
		chain, since = append(chain, stream), info
		docs, _ := content(t, c, acme)
		then = append(then, docs)
	}
	for _, last := range []int{2, 0, 4, 1, 3} {
		backup := bytes.Join(chain[:last+1], nil)
		scramble(200)
		others := make([]map[string]engine.ETag, len(tenants))
		for i, tenant := range tenants[1:] {
			_, others[i] = content(t, c, engine.StringKey(tenant))
		}
		before, etags := content(t, c, acme)
		want := Result{Items: int64(len(then[last]))}
		for id, doc := range then[last] {
			switch have, ok := before[id]; {
			case !ok:
				want.Created++
			case have != doc:
				want.Replaced++
			default:
				want.Unchanged++
				continue
			}
			want.Bytes += int64(len(doc))
		}
		for id := range before {
			if _, ok := then[last][id]; !ok {
				want.Deleted++
			}
		}
		dry, err := run(t, c, backup, Options{DryRun: true})
		must(t, err)
		if unchanged, _ := content(t, c, acme); !maps.Equal(unchanged, before) {
			t.Fatal("a dry run has changed something")
		}
		if _, err := run(t, c, backup, Options{}); !errors.Is(err, engine.ErrExists) {
			t.Errorf("without Replace: %v", err)
		}
		if unchanged, _ := content(t, c, acme); !maps.Equal(unchanged, before) {
			t.Fatal("a refused restore has changed something")
		}
		var progress []Progress
		got, err := run(t, c, backup, Options{Replace: true, Progress: func(p Progress) { progress = append(progress, p) }})
		must(t, err)
		if got != want || dry != want {
			t.Errorf("after backup %d: %+v, dry %+v, want %+v", last, got, dry, want)
		}
		if end := progress[len(progress)-1]; end.Items != got.changes() || end.Total != got.changes() || end.BackupBytes != int64(len(backup)) {
			t.Errorf("progress ends with %+v", end)
		}
		after, now := content(t, c, acme)
		if !maps.Equal(after, then[last]) {
			t.Fatalf("backup %d: %d items are restored, want %d", last, len(after), len(then[last]))
		}
		for id, etag := range etags {
			if doc, ok := after[id]; ok && (doc == before[id]) != (now[id] == etag) {
				t.Errorf("item %s: etag %v before, %v after, equal documents: %v", id, etag, now[id], doc == before[id])
			}
		}
		for i, tenant := range tenants[1:] {
			if _, now := content(t, c, engine.StringKey(tenant)); !maps.Equal(now, others[i]) {
				t.Errorf("tenant %s was changed", tenant)
			}
		}
		if again, err := run(t, c, backup, Options{}); err != nil || again.changes() != 0 || !again.Atomic {
			t.Errorf("again: %+v, %v", again, err)
		}
	}
}

// TestFiles: the temporary store has the segment files that may have items of the tenant, and
// no others.
func TestFiles(t *testing.T) {
	s := cleavetest.New(t)
	c := notes(t, s.DB(), func(d *engine.ContainerDef) { d.MinPartitions = 8 })
	other := s.Container("other", "/tenant")
	for i := range 400 {
		tenant := fmt.Sprint("tenant ", i%40)
		upsert(t, c, tenant, fmt.Sprint(i), "text")
		upsert(t, other, tenant, fmt.Sprint(i), "text")
	}
	upsert(t, c, "acme", "1", "text")
	must(t, s.DB().Compact(t.Context()))
	stream, info := backupOf(t, s.DB(), nil)
	must(t, c.DeleteLogicalPartition(t.Context(), acme, nil))
	dir := t.TempDir()
	files := 0
	_, err := LogicalPartition(t.Context(), c, acme, bytes.NewReader(stream), &Options{TempDir: dir, Progress: func(p Progress) {
		if p.Items > 0 {
			names, err := filepath.Glob(filepath.Join(dir, "*", "store", "p", "*", "*.seg"))
			must(t, err)
			files += len(names)
		}
	}})
	must(t, err)
	if files != 1 || len(info.Files) < 9 {
		t.Errorf("%d files of %d were written, want 1", files, len(info.Files))
	}
}

// TestCrash stops a restore before each change of the disk. One that fits into one transaction
// leaves the tenant as before or as in the backup; one that does not is completed by the next
// call.
func TestCrash(t *testing.T) {
	ctx := t.Context()
	for _, operations := range []int{100, 4} {
		open := func(s *cleavetest.Store) *engine.Container {
			return notes(t, s.DB(), func(d *engine.ContainerDef) {
				d.Limits.BatchOperations, d.UniqueKeys = operations, [][]string{{"/text"}}
			})
		}
		fill := func(c *engine.Container) {
			for i := range 20 {
				upsert(t, c, "acme", fmt.Sprintf("%02d", i), fmt.Sprint(i))
			}
			upsert(t, c, "brown", "1", "other")
		}
		// harm deletes, adds, and gives items the values of others.
		harm := func(c *engine.Container) {
			for i := range 5 {
				must(t, c.Delete(ctx, acme, fmt.Sprintf("%02d", 4*i), nil))
			}
			for i := range 5 {
				upsert(t, c, "acme", fmt.Sprintf("%02d", 4*i+1), fmt.Sprint(4*i))
				upsert(t, c, "acme", fmt.Sprintf("%02d-new", i), fmt.Sprint("new ", i))
			}
		}
		whole := cleavetest.New(t)
		fill(open(whole))
		backup, _ := backupOf(t, whole.DB(), nil)
		want, _ := content(t, open(whole), acme)

		crashes := 0
		for n := 1; ; n++ {
			s := cleavetest.New(t, cleavetest.NoBackground())
			c := open(s)
			fill(c)
			harm(c)
			before, _ := content(t, c, acme)
			s.CrashAt(n)
			_, err := run(t, c, backup, Options{Replace: true})
			if !s.Crashed() {
				must(t, err)
				break
			}
			crashes++
			s.CutPower()
			c = open(s)
			after, _ := content(t, c, acme)
			switch {
			case maps.Equal(after, want):
			case err == nil:
				t.Fatalf("crash %d: the restore has ended, and is lost", n)
			case operations == 100 && !maps.Equal(after, before):
				t.Fatalf("crash %d: half of a restore in one transaction:\n%v", n, after)
			}
			if other, _ := content(t, c, engine.StringKey("brown")); len(other) != 1 {
				t.Errorf("crash %d: the other tenant has %d items", n, len(other))
			}
			if _, err := run(t, c, backup, Options{Replace: true}); err != nil {
				t.Fatalf("crash %d: the second call: %v", n, err)
			}
			if after, _ = content(t, c, acme); !maps.Equal(after, want) {
				t.Fatalf("crash %d: after the second call:\n%v", n, after)
			}
		}
		if transactions := 15 / operations; crashes < max(1, 2*transactions) { // each writes and syncs
			t.Errorf("with %d operations a batch: %d crashes", operations, crashes)
		}
	}
}

// TestUniqueKeys: values that have moved between items move back, through several
// transactions too; documents of the backup that exclude each other are named.
func TestUniqueKeys(t *testing.T) {
	for _, operations := range []int{1, 2, 7, 100} {
		other := cleavetest.New(t).DB()
		c := notes(t, cleavetest.New(t).DB(), func(d *engine.ContainerDef) {
			d.UniqueKeys, d.Limits.BatchOperations = [][]string{{"/text"}}, operations
		})
		from := notes(t, other, nil)
		for i := range 20 {
			upsert(t, from, "acme", fmt.Sprintf("%02d", i), fmt.Sprint(i))
			upsert(t, c, "acme", fmt.Sprintf("%02d", i), fmt.Sprint(19-i))
		}
		backup, _ := backupOf(t, other, nil)
		result, err := run(t, c, backup, Options{Replace: true})
		must(t, err)
		want, _ := content(t, from, acme)
		if got, _ := content(t, c, acme); !maps.Equal(got, want) || result.Replaced != 20 || result.Created != 0 || result.Atomic != (operations == 100) {
			t.Errorf("%d operations: %+v, %v", operations, result, got)
		}
		upsert(t, from, "acme", "15", "3")
		backup, _ = backupOf(t, other, nil)
		_, err = run(t, c, backup, Options{Replace: true})
		var conflict *ConflictError
		if !errors.As(err, &conflict) || !errors.Is(err, engine.ErrUniqueKey) || !slices.Contains([]string{"03 15", "15 03"}, conflict.ID+" "+conflict.Holder) {
			t.Fatalf("%d operations: %v", operations, err)
		}
		for _, name := range []string{`"03"`, `"15"`, "/text"} {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%v: does not name %s", err, name)
			}
		}
	}
}

// TestExpiry: what is restored expires when it would have; what has expired stays away.
func TestExpiry(t *testing.T) {
	ctx := t.Context()
	s := cleavetest.New(t)
	c := notes(t, s.DB(), func(d *engine.ContainerDef) { d.DefaultTTL = 24 * time.Hour })
	for id, ttl := range map[string]time.Duration{"hour": time.Hour, "week": 7 * 24 * time.Hour, "ever": engine.NoExpiry, "day": 0} {
		_, err := c.Upsert(ctx, document("acme", id, id), &engine.WriteOptions{TTL: ttl})
		must(t, err)
	}
	expires := func() map[string]time.Time {
		all := make(map[string]time.Time)
		for it, err := range c.Scan(ctx, acme, engine.IDRange{}, nil) {
			must(t, err)
			all[it.ID] = it.Expires
		}
		return all
	}
	want := expires()
	backup, _ := backupOf(t, s.DB(), nil)
	must(t, c.DeleteLogicalPartition(ctx, acme, nil))
	s.Advance(2 * time.Hour)
	result, err := run(t, c, backup, Options{Now: s.Now})
	must(t, err)
	if result.Created != 3 || result.Items != 3 {
		t.Errorf("%+v", result)
	}
	got := expires()
	delete(want, "hour")
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for id, at := range want {
		if !sameExpiry(at, got[id]) {
			t.Errorf("item %s expires at %v, want %v", id, got[id], at)
		}
	}
	if again, err := run(t, c, backup, Options{Now: s.Now}); err != nil || again.Unchanged != 3 {
		t.Errorf("again: %+v, %v", again, err)
	}
	forever := notes(t, cleavetest.New(t).DB(), nil)
	if _, err := run(t, forever, backup, Options{Now: s.Now}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("into a container where nothing expires: %v", err)
	}
}

// TestOpaque restores bytes, among them documents that are too large for a transaction.
func TestOpaque(t *testing.T) {
	ctx := t.Context()
	s := cleavetest.New(t)
	c := notes(t, s.DB(), func(d *engine.ContainerDef) { d.Kind, d.Limits.BatchBytes = engine.Opaque, 64<<10 })
	put := func(id string, body []byte) {
		_, err := c.Put(ctx, acme, id, body, nil)
		must(t, err)
	}
	big := bytes.Repeat([]byte("big"), 30<<10)
	for i := range 10 {
		put(fmt.Sprint(i), []byte{0, 0xff, byte(i)})
	}
	put("5 big", big)
	put("6 big", big)
	want, _ := content(t, c, acme)
	backup, _ := backupOf(t, s.DB(), nil)
	put("6 big", big[1:])
	put("7", nil)
	put("other", big)
	must(t, c.Delete(ctx, acme, "5 big", nil))
	result, err := run(t, c, backup, Options{Replace: true})
	must(t, err)
	if got, _ := content(t, c, acme); !maps.Equal(got, want) || result.Atomic || result.Created != 1 || result.Replaced != 2 || result.Deleted != 1 {
		t.Errorf("%+v, %d items", result, len(got))
	}
	must(t, c.Delete(ctx, acme, "5 big", nil))
	if _, err := run(t, c, backup, Options{}); !errors.Is(err, engine.ErrTooLarge) {
		t.Errorf("a large item without Replace: %v", err)
	}
}

// TestHashVersion1 restores a logical partition whose key is placed by version 1 of the hash,
// and refuses a container that places it otherwise.
func TestHashVersion1(t *testing.T) {
	s := cleavetest.New(t)
	c := notes(t, s.DB(), func(d *engine.ContainerDef) { d.HashVersion, d.MinPartitions = 1, 4 })
	for _, tenant := range []string{"acme", "other", "third", "fourth"} {
		upsert(t, c, tenant, "1", "as it was")
	}
	want, _ := content(t, c, acme)
	backup, _ := backupOf(t, s.DB(), nil)
	upsert(t, c, "acme", "1", "changed")
	upsert(t, c, "acme", "2", "new")
	result, err := run(t, c, backup, Options{Replace: true})
	must(t, err)
	if got, _ := content(t, c, acme); len(want) != 1 || !maps.Equal(got, want) || result.Replaced != 1 || result.Deleted != 1 {
		t.Errorf("%+v: %v", result, got)
	}
	must(t, s.DB().DropContainer(t.Context(), "notes"))
	c = notes(t, s.DB(), nil)
	if _, err := run(t, c, backup, Options{}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("into a container of version 2: %v", err)
	}
}

// TestLargeDocument restores a JSON document that is too large for a transaction.
func TestLargeDocument(t *testing.T) {
	s := cleavetest.New(t)
	c := notes(t, s.DB(), func(d *engine.ContainerDef) { d.Limits.BatchBytes = 64 << 10 })
	upsert(t, c, "acme", "a", strings.Repeat("x", 100<<10))
	upsert(t, c, "acme", "b", strings.Repeat("y", 100<<10))
	upsert(t, c, "acme", "c", "z")
	want, _ := content(t, c, acme)
	backup, _ := backupOf(t, s.DB(), nil)
	must(t, c.Delete(t.Context(), acme, "a", nil))
	if result, err := run(t, c, backup, Options{}); err != nil || result.Created != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	upsert(t, c, "acme", "b", "small")
	if result, err := run(t, c, backup, Options{Replace: true}); err != nil || result.Replaced != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if got, _ := content(t, c, acme); !maps.Equal(got, want) {
		t.Errorf("%d items", len(got))
	}
}

// TestBesideWriters: writers go on in the same logical partition. Without Replace none of
// their writes is lost; with it, what they wrote before the end of a range is gone, and each
// range was equal to the backup.
func TestBesideWriters(t *testing.T) {
	ctx := t.Context()
	s := cleavetest.New(t)
	c := notes(t, s.DB(), func(d *engine.ContainerDef) { d.Limits.BatchOperations = 10 })
	for i := range 100 {
		upsert(t, c, "acme", fmt.Sprintf("%03d", i), "backup")
	}
	backup, _ := backupOf(t, s.DB(), nil)
	must(t, c.DeleteLogicalPartition(ctx, acme, nil))

	// A writer writes an item of the backup as soon as the first transaction has committed.
	wrote := false
	_, err := run(t, c, backup, Options{Progress: func(p Progress) {
		if p.Items > 0 && !wrote {
			wrote = true
			upsert(t, c, "acme", "050", "writer")
		}
	}})
	if !errors.Is(err, engine.ErrExists) || !strings.Contains(err.Error(), `"050"`) {
		t.Errorf("over the write of another: %v", err)
	}
	if it, err := c.Read(ctx, acme, "050"); err != nil || string(it.Body) != string(document("acme", "050", "writer")) {
		t.Errorf("the other's item: %s, %v", it.Body, err)
	}
	wrote = false
	result, err := run(t, c, backup, Options{Replace: true, Progress: func(p Progress) {
		if p.Items > 0 && !wrote {
			wrote = true
			upsert(t, c, "acme", "000-new", "behind what was restored")
			upsert(t, c, "acme", "070", "before")
			upsert(t, c, "acme", "070-new", "before")
		}
	}})
	must(t, err)
	got, _ := content(t, c, acme)
	if len(got) != 101 || got["070"] != string(document("acme", "070", "backup")) || got["000-new"] == "" {
		t.Errorf("%d items, %+v", len(got), result)
	}
	if result.Deleted != 1 {
		t.Errorf("%+v, want 1 deleted", result)
	}
}

// TestThrottled: a restore waits for the throughput of its tenant, also where that is a small
// part of what a transaction takes, and ends with its context.
func TestThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cleavetest.New(t)
		c := notes(t, s.DB(), func(d *engine.ContainerDef) { d.Limits.BatchOperations = 10 })
		for i := range 50 {
			upsert(t, c, "acme", fmt.Sprintf("%03d", i), "text")
		}
		backup, _ := backupOf(t, s.DB(), nil)
		must(t, c.DeleteLogicalPartition(t.Context(), acme, nil))
		must(t, c.SetKeyLimits(t.Context(), acme, engine.KeyLimits{Throughput: 20}))
		begun := time.Now()
		result, err := run(t, c, backup, Options{})
		if took := time.Since(begun); err != nil || result.Created != 50 || took < 9*time.Second {
			t.Errorf("%+v after %v, %v", result, took, err)
		}
		must(t, c.SetKeyLimits(t.Context(), acme, engine.KeyLimits{}))
		must(t, c.Delete(t.Context(), acme, "000", nil))
		must(t, c.SetKeyLimits(t.Context(), acme, engine.KeyLimits{Throughput: 1}))
		begun = time.Now()
		result, err = run(t, c, backup, Options{})
		if took := time.Since(begun); err != nil || result.Created != 1 || !result.Atomic || took < 40*time.Second {
			t.Errorf("at 1 RU/s: %+v after %v, %v", result, took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := LogicalPartition(ctx, c, acme, bytes.NewReader(backup), &Options{TempDir: t.TempDir()}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("within a second: %v", err)
		}
	})
}

// TestRefused: what a restore refuses, and that it changes nothing then.
func TestRefused(t *testing.T) {
	ctx := t.Context()
	s := cleavetest.New(t)
	db := s.DB()
	c := notes(t, db, nil)
	upsert(t, c, "acme", "1", "one")
	backup, info := backupOf(t, db, nil)
	upsert(t, c, "acme", "2", "two")
	next, _ := backupOf(t, db, info)
	before, _ := content(t, c, acme)
	cut := backup[:len(backup)-1]
	flipped := slices.Clone(backup)
	flipped[len(flipped)/2] ^= 1
	named := func(change func(*engine.ContainerDef)) *engine.Container {
		return notes(t, cleavetest.New(t).DB(), change)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for _, test := range []struct {
		what   string
		ctx    context.Context
		c      *engine.Container
		key    engine.PartitionKey
		backup io.Reader
		want   error
	}{
		{"cut", ctx, c, acme, bytes.NewReader(cut), engine.ErrCorrupt},
		{"flipped", ctx, c, acme, bytes.NewReader(flipped), engine.ErrCorrupt},
		{"nothing", ctx, c, acme, strings.NewReader(""), engine.ErrCorrupt},
		{"no reader", ctx, c, acme, nil, engine.ErrInvalid},
		{"the incremental one only", ctx, c, acme, bytes.NewReader(next), engine.ErrWrongParent},
		{"the wrong order", ctx, c, acme, bytes.NewReader(append(slices.Clone(next), backup...)), engine.ErrWrongParent},
		{"an unknown tenant", ctx, c, engine.StringKey("nobody"), bytes.NewReader(backup), engine.ErrNotFound},
		{"no key", ctx, c, engine.PartitionKey{}, bytes.NewReader(backup), engine.ErrInvalid},
		{"a key of two levels", ctx, c, engine.JoinKeys(acme, acme), bytes.NewReader(backup), engine.ErrInvalid},
		{"the end of the context", ended, c, acme, bytes.NewReader(backup), context.Canceled},
		{"another container", ctx, s.Container("other", "/tenant"), acme, bytes.NewReader(backup), engine.ErrNoContainer},
		{"another key", ctx, named(func(d *engine.ContainerDef) { d.PartitionKey = []string{"/owner"} }), acme, bytes.NewReader(backup), engine.ErrInvalid},
		{"another kind", ctx, named(func(d *engine.ContainerDef) { d.Kind = engine.Opaque }), acme, bytes.NewReader(backup), engine.ErrInvalid},
		{"replicated", ctx, named(func(d *engine.ContainerDef) { d.Replicated = true }), acme, bytes.NewReader(backup), engine.ErrReplicated},
	} {
		dir := t.TempDir()
		_, err := LogicalPartition(test.ctx, test.c, test.key, test.backup, &Options{Replace: true, TempDir: dir})
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.what, err, test.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left in the temporary directory: %v, %v", test.what, left, err)
		}
	}
	if after, _ := content(t, c, acme); !maps.Equal(after, before) {
		t.Errorf("changed: %v", after)
	}
	must(t, c.SetKeyLimits(ctx, acme, engine.KeyLimits{Bytes: 10}))
	must(t, c.DeleteLogicalPartition(ctx, acme, nil))
	if _, err := run(t, c, backup, Options{}); !errors.Is(err, engine.ErrLogicalPartitionFull) {
		t.Errorf("over the limit of the tenant: %v", err)
	}
}

// TestRandomSuffix restores a logical partition whose suffix the documents do not tell.
func TestRandomSuffix(t *testing.T) {
	ctx := t.Context()
	s := cleavetest.New(t)
	c := notes(t, s.DB(), func(d *engine.ContainerDef) {
		*d = engine.ContainerDef{Synthetic: &engine.SyntheticKey{Join: []string{"/tenant"}, Suffixes: 3}}
		d.Limits.BatchBytes = 64 << 10
	})
	keys, err := c.BaseKeys(acme)
	must(t, err)
	key := keys[1]
	create := func(id, text string) {
		_, err := c.Create(ctx, document("acme", id, text), &engine.WriteOptions{Key: key})
		must(t, err)
	}
	for _, id := range []string{"changed", "deleted", "same"} {
		create(id, "as it was")
	}
	big := strings.Repeat("x", 100<<10)
	create("large, changed", big)
	create("large, deleted", big)
	want, _ := content(t, c, key)
	backup, _ := backupOf(t, s.DB(), nil)
	for _, id := range []string{"changed", "large, changed"} {
		_, err := c.Replace(ctx, document("acme", id, "as it is"), &engine.WriteOptions{Key: key})
		must(t, err)
	}
	for _, id := range []string{"deleted", "large, deleted"} {
		must(t, c.Delete(ctx, key, id, nil))
	}
	create("new", "as it is")
	result, err := LogicalPartition(ctx, c, key, bytes.NewReader(backup), &Options{Replace: true, TempDir: t.TempDir()})
	must(t, err)
	if got, _ := content(t, c, key); !maps.Equal(got, want) || result.Created != 2 || result.Replaced != 2 || result.Deleted != 1 {
		t.Errorf("%+v, %d items", result, len(got))
	}
}
