package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// damagedStore returns a small store that was closed in order, with files,
// several runs and records that are in the log only, and what it holds.
func damagedStore(t *testing.T) (*vfs.Mem, map[string]string) {
	mem := vfs.NewMem()
	s := &stage{t: t, opts: testOptions(mem), o: newOracle()}
	s.open()
	s.create("c", 2)
	s.put("c", 12, 150)
	s.flush()
	s.put("c", 12, 150)
	s.remove("c", 2)
	s.flush()
	s.put("c", 4, 100)
	if s.err != nil {
		t.Fatal(s.err)
	}
	content, err := contentOf(s.db)
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	if s.err != nil {
		t.Fatal(s.err)
	}
	return mem, content
}

// contentOf reads all containers, each item twice: by scan and by itself. What
// a reader may not see is left out; errors are returned together.
func contentOf(db *DB) (map[string]string, error) {
	content := make(map[string]string)
	var errs []error
	for info := range db.Containers() {
		c, err := db.Container(info.Name)
		if err != nil {
			return nil, err
		}
		for it, err := range c.ScanAll(context.Background(), nil) {
			if err != nil {
				errs = append(errs, err)
				break
			}
			content[info.Name+" "+it.Key.String()+" "+it.ID] = string(it.Body)
		}
		for n := range 40 {
			for _, key := range stageKeys {
				id := fmt.Sprintf("i%d", n)
				it, err := c.Read(context.Background(), key, id)
				which := info.Name + " " + key.String() + " " + id
				switch {
				case err == nil && content[which] == "" && len(errs) == 0:
					errs = append(errs, fmt.Errorf("read finds %s, the scan did not", which))
				case err == nil && content[which] != "" && content[which] != string(it.Body):
					errs = append(errs, fmt.Errorf("read and scan differ on %s", which))
				case err == nil:
					content[which] = string(it.Body)
				case errors.Is(err, ErrNotFound) && content[which] != "":
					errs = append(errs, fmt.Errorf("the scan finds %s, read does not", which))
				case !errors.Is(err, ErrNotFound):
					errs = append(errs, err)
				}
			}
		}
	}
	return content, errors.Join(errs...)
}

// TestFlippedBytes changes bytes of each file of a store, with -full each byte. The store either
// opens and shows what it held, or tells where the damage is: by an error of
// Open, of each read that meets it, and of Verify.
func TestFlippedBytes(t *testing.T) {
	t.Parallel()
	mem, content := damagedStore(t)
	seed := newSeed(t)
	found, harmless, total := 0, 0, 0
	var places []string
	for _, name := range mem.Names() {
		data, err := mem.ReadFile(name)
		if err != nil || strings.HasSuffix(name, "LOCK") || name == manifest.ReserveName {
			continue
		}
		step := lone(sweep(7, 29, 29))
		for i := int(seed % uint64(step)); i < len(data); i += step {
			damaged := append([]byte{}, data...)
			damaged[i] ^= 1 << ((uint64(i) + seed) % 8)
			image := mem.Clone()
			if err := image.WriteFile(name, damaged); err != nil {
				t.Fatal(err)
			}
			total++
			if checkDamaged(t, image, fmt.Sprintf("%s, byte %d", name, i), content) {
				found++
			} else {
				harmless++
				places = append(places, fmt.Sprintf("%s:%d", name, i))
			}
		}
	}
	t.Logf("%d bytes flipped, %d found, %d without effect", total, found, harmless)
	if harmless > 0 {
		t.Errorf("unnoticed: %v", places)
	}
}

// checkDamaged opens a damaged store; it reports whether the damage was told.
func checkDamaged(t *testing.T, image *vfs.Mem, what string, content map[string]string) bool {
	t.Helper()
	opts := testOptions(image)
	opts.ReadOnly = true
	db, err := Open(context.Background(), "damaged", opts)
	if err != nil {
		checkTyped(t, what, err)
		return true
	}
	defer db.Close()
	told := false
	for f, err := range db.Verify(context.Background()) {
		if err != nil {
			t.Fatalf("%s: verify: %v", what, err)
		}
		if f.File == "" || f.What == "" {
			t.Fatalf("%s: verify names nothing: %+v", what, f)
		}
		told = true
	}
	got, err := contentOf(db)
	if err != nil {
		checkTyped(t, what, err)
		if !told {
			t.Fatalf("%s: verify found nothing, reading did: %v", what, err)
		}
	}
	for which, body := range got {
		if content[which] != body {
			t.Fatalf("%s: %s is %.60q, was %.60q", what, which, body, content[which])
		}
	}
	if err == nil && len(got) != len(content) {
		t.Fatalf("%s: %d items, had %d, no error", what, len(got), len(content))
	}
	return told
}

// checkTyped requires that an error of damage names a file.
func checkTyped(t *testing.T, what string, err error) {
	t.Helper()
	corruption, io := new(CorruptionError), new(IOError)
	switch {
	case errors.As(err, &corruption) && corruption.File != "":
	case errors.As(err, &io) && io.File != "":
	case errors.Is(err, ErrTooNew), errors.Is(err, ErrNotStore):
	default:
		t.Fatalf("%s: untyped error: %v", what, err)
	}
}

// TestMissingFiles removes each file of a store, and cuts each one short.
func TestMissingFiles(t *testing.T) {
	mem, content := damagedStore(t)
	for _, name := range mem.Names() {
		data, err := mem.ReadFile(name)
		if err != nil || strings.HasSuffix(name, "LOCK") || name == manifest.ReserveName {
			continue
		}
		image := mem.Clone()
		if err := image.Remove(name); err != nil {
			t.Fatal(err)
		}
		if !checkDamaged(t, image, name+" removed", content) {
			t.Errorf("%s removed: not noticed", name)
		}
		for _, n := range []int{0, 1, len(data) / 2, len(data) - 1} {
			image := mem.Clone()
			if err := image.WriteFile(name, data[:n]); err != nil {
				t.Fatal(err)
			}
			if !checkDamaged(t, image, fmt.Sprintf("%s cut to %d bytes", name, n), content) {
				t.Errorf("%s cut to %d of %d bytes: not noticed", name, n, len(data))
			}
		}
	}
}

// TestFileOfHighestNumber: a file whose name no new file could follow does not spoil what is written beside it.
func TestFileOfHighestNumber(t *testing.T) {
	ctx, mem := context.Background(), vfs.NewMem()
	opts := testOptions(mem)
	db, c := openStore(t, opts)
	upsert(t, c, "first", 100)
	must(t, db.Close())
	must(t, mem.WriteFile(path.Join(manifest.PartitionDir(uint32(c.Partitions()[0].ID)), manifest.SegmentName(manifest.MaxNumber)), []byte("stray")))
	db, c = openStore(t, opts)
	upsert(t, c, "second", 100)
	must(t, db.Flush(ctx))
	must(t, db.Close())
	_, c = openStore(t, opts)
	for _, id := range []string{"first", "second"} {
		if _, err := c.Read(ctx, StringKey("a"), id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}
