package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/uniquekey"
	"github.com/cleavestore/cleave/internal/vfs"
)

func uniqueDef() ContainerDef {
	return ContainerDef{
		PartitionKey: []string{"/k"}, DefaultTTL: NoExpiry, Index: IndexAll(),
		UniqueKeys: [][]string{{"/mail"}, {"/a", "/b/c"}},
	}
}

// mailDoc is a document whose second unique key is its id.
func mailDoc(id, mail string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"k":"a","mail":%s,"a":%q}`, id, mail, id)
}

// takenBy tests that err says that an item has the values of a unique key.
func takenBy(t *testing.T, what string, err error, holder, paths string) {
	t.Helper()
	var taken *UniqueKeyError
	if !errors.Is(err, ErrUniqueKey) || !errors.As(err, &taken) || taken.Holder != holder || strings.Join(taken.Paths, ",") != paths || taken.ID == "" || taken.ID == holder {
		t.Errorf("%s: %v, want that %s has %s", what, err, holder, paths)
	}
}

// TestUniqueKeys goes through the kinds of writes, with what is there in
// memtables, files and merged files.
func TestUniqueKeys(t *testing.T) {
	ctx := context.Background()
	key := StringKey("a")
	for _, where := range []string{"memory", "files", "settled", "reopened"} {
		t.Run(where, func(t *testing.T) {
			mem := vfs.NewMem()
			opts := testOptions(mem)
			db, c := openStore(t, opts, uniqueDef())
			move := func() {
				t.Helper()
				switch where {
				case "files":
					must(t, db.Flush(ctx))
				case "settled":
					must(t, db.Flush(ctx))
					must(t, db.Compact(ctx))
				case "reopened":
					must(t, db.Close())
					var err error
					db, err = Open(ctx, "db", opts)
					must(t, err)
					c, err = db.Container("c")
					must(t, err)
				}
			}
			defer func() { db.Close() }()
			ok := func(_ Meta, err error) {
				t.Helper()
				must(t, err)
				move()
			}
			ok(c.Create(ctx, mailDoc("x", `"x@"`), nil))
			ok(c.Upsert(ctx, mailDoc("y", `1`), nil))
			_, err := c.Create(ctx, mailDoc("z", `"x@"`), nil)
			takenBy(t, "create", err, "x", "/mail")
			_, err = c.Create(ctx, mailDoc("z", `"\u0078@"`), nil)
			takenBy(t, "create, other spelling", err, "x", "/mail")
			_, err = c.Upsert(ctx, mailDoc("x", `1.0`), nil)
			takenBy(t, "upsert", err, "y", "/mail")
			_, err = c.Replace(ctx, mailDoc("x", `10e-1`), nil)
			takenBy(t, "replace", err, "y", "/mail")
			_, err = c.Patch(ctx, key, "x", new(Patch).Set("/mail", 1), nil)
			takenBy(t, "patch", err, "y", "/mail")
			_, err = c.Create(ctx, []byte(`{"id":"z","k":"a","mail":0,"a":"x"}`), nil)
			takenBy(t, "second key", err, "x", "/a,/b/c")
			_, err = c.Create(ctx, []byte(`{"id":"z","k":"a","mail":0,"a":"x","b":{"c":null}}`), nil)
			takenBy(t, "null is absent", err, "x", "/a,/b/c")
			if _, err := c.Create(ctx, mailDoc("x", `2`), nil); !errors.Is(err, ErrExists) {
				t.Errorf("both wrong: %v", err)
			}
			ok(c.Create(ctx, mailDoc("s", `"1"`), nil)) // a text is no number
			ok(c.Create(ctx, []byte(`{"id":"x","k":"other","mail":"x@","a":"x"}`), nil))
			ok(c.Upsert(ctx, mailDoc("x", `"x@"`), nil)) // its own
			ok(c.Replace(ctx, mailDoc("x", `"new@"`), nil))
			ok(c.Create(ctx, mailDoc("z", `"x@"`), nil)) // given up
			must(t, c.Delete(ctx, key, "y", nil))
			move()
			ok(c.Patch(ctx, key, "z", new(Patch).Set("/mail", 1), nil))
			ok(c.Create(ctx, []byte(`{"id":"n","k":"a","a":1}`), nil))
			_, err = c.Create(ctx, []byte(`{"id":"o","k":"a","a":2}`), nil)
			takenBy(t, "absent twice", err, "n", "/mail")

			b := c.NewBatch(key)
			must(t, b.Create(mailDoc("p", `"q@"`), nil))
			must(t, b.Create(mailDoc("q", `"q@"`), nil))
			_, err = c.Commit(ctx, b)
			takenBy(t, "twice in a batch", err, "p", "/mail")
			if be, ok := errors.AsType[*BatchError](err); !ok || be.Index != 1 {
				t.Errorf("twice in a batch: %v", err)
			}
			b = c.NewBatch(key) // x and z exchange their values, s gives its to a new one
			must(t, b.Replace(mailDoc("x", `1`), nil))
			must(t, b.Replace(mailDoc("z", `"new@"`), nil))
			must(t, b.Create(mailDoc("r", `"1"`), nil))
			must(t, b.Delete("s", nil))
			_, err = c.Commit(ctx, b)
			ok(Meta{}, err)
			err = c.Update(ctx, key, func(tx *Tx) error {
				must(t, tx.Delete("r", nil))
				return tx.Replace(mailDoc("x", `"new@"`), nil)
			})
			takenBy(t, "transaction", err, "z", "/mail")
			if _, err := c.Read(ctx, key, "r"); err != nil {
				t.Errorf("after a refused transaction: %v", err)
			}
			must(t, c.Update(ctx, key, func(tx *Tx) error {
				must(t, tx.Delete("r", nil))
				return tx.Replace(mailDoc("x", `"1"`), nil)
			}))
			move()
			checkClaims(t, db, c)
			n := 0
			for range c.ScanAll(ctx, nil) {
				n++
			}
			for scope, want := range map[Scope]int64{OnePartition(key): int64(n) - 1, AllPartitions(): int64(n)} {
				if got, err := c.Count(ctx, scope, Filter{}); err != nil || got != want {
					t.Errorf("count in %v: %d, want %d, %v", scope, got, want, err)
				}
			}
			must(t, c.DeleteLogicalPartition(ctx, key, nil))
			move()
			ok(c.Create(ctx, mailDoc("new", `"new@"`), nil))
			_, err = c.Load(ctx, func(yield func([]byte, error) bool) {
				_ = yield(mailDoc("l1", `"l@"`), nil) && yield(mailDoc("l2", `"l@"`), nil)
			}, nil)
			takenBy(t, "load", err, "l1", "/mail")
			checkClaims(t, db, c)
			checkVerified(t, db)
		})
	}
}

func checkClaims(t testing.TB, db *DB, c *Container) {
	t.Helper()
	if err := compareClaims(db, c); err != nil {
		t.Error(err)
	}
}

// compareClaims compares the claims of a container with what its documents say.
func compareClaims(db *DB, c *Container) error {
	type claim struct {
		pk string
		id uniquekey.ClaimID
	}
	want := make(map[claim]string)
	for it, err := range c.ScanAll(context.Background(), nil) {
		if err != nil {
			return err
		}
		for _, id := range c.unique.Claims(nil, it.Body) {
			at := claim{string(it.Key.Encoded()), id}
			if other, ok := want[at]; ok {
				return fmt.Errorf("%s and %s have the same values", other, it.ID)
			}
			want[at] = it.ID
		}
	}
	guard := db.env.Epoch.Enter()
	defer guard.Leave()
	for _, p := range c.routing.Load().parts {
		var m lsm.Cursor
		m.Open(p.Version.Load(), lsm.MaxSequence, false)
		for m.Start(); m.Valid(); m.Next() {
			k, v := m.Top()
			if len(k.ID) == 0 || k.ID[0] != item.ClaimMark || v.Deleted() || p.Past().Gone(v) {
				continue
			}
			at := claim{string(k.PK), uniquekey.ClaimID(k.ID)}
			if want[at] != string(v.Body) {
				return fmt.Errorf("item %q has claim %x, of item %q", v.Body, k.ID, want[at])
			}
			delete(want, at)
		}
		err := m.Err()
		m.Close()
		if err != nil {
			return err
		}
	}
	for at, id := range want {
		return fmt.Errorf("item %q lacks its claim %x", id, at.id)
	}
	return nil
}

// TestUniqueKeysExpire: values are free when their item has expired.
func TestUniqueKeysExpire(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(vfs.NewMem())
	clock := newTestClock(opts)
	opts.ExpiryGrace = -1
	db, c := openStore(t, opts, uniqueDef())
	for range 3 {
		_, err := c.Create(ctx, mailDoc("x", `"x@"`), &WriteOptions{TTL: time.Minute})
		must(t, err)
		_, err = c.Create(ctx, mailDoc("y", `"x@"`), nil)
		takenBy(t, "create", err, "x", "/mail")
		clock.pass(30 * time.Second)
		_, err = c.Upsert(ctx, mailDoc("x", `"x@"`), &WriteOptions{TTL: time.Minute})
		must(t, err)
		clock.pass(40 * time.Second)
		_, err = c.Create(ctx, mailDoc("y", `"x@"`), nil)
		takenBy(t, "create after an upsert", err, "x", "/mail")
		clock.pass(30 * time.Second)
		_, err = c.Create(ctx, mailDoc("y", `"x@"`), nil)
		must(t, err)
		checkClaims(t, db, c)
		must(t, db.Flush(ctx))
		must(t, db.Compact(ctx))
		checkClaims(t, db, c)
		must(t, c.Delete(ctx, StringKey("a"), "y", nil))
	}
}

// TestUniqueKeysRace: of many who want the same values at once one gets them.
func TestUniqueKeysRace(t *testing.T) {
	ctx := context.Background()
	opts := testOptions(nil)
	opts.fs, opts.manual, opts.Durability = nil, false, Buffered
	db, err := Open(ctx, t.TempDir(), opts)
	must(t, err)
	defer db.Close()
	c, err := db.CreateContainer(ctx, "c", uniqueDef())
	must(t, err)
	seed := newSeed(t)
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	for round := range rounds {
		var won atomic.Int64
		var workers sync.WaitGroup
		mail := fmt.Sprintf(`"%d@"`, round)
		for w := range 4 {
			workers.Go(func() {
				id := fmt.Sprintf("w%d", w)
				var err error
				switch (round + w) % 3 {
				case 0:
					_, err = c.Upsert(ctx, mailDoc(id, mail), nil)
				case 1:
					err = c.Update(ctx, StringKey("a"), func(tx *Tx) error { return tx.Upsert(mailDoc(id, mail), nil) })
				default:
					b := c.NewBatch(StringKey("a"))
					must(t, b.Upsert(mailDoc(id, mail), nil))
					_, err = c.Commit(ctx, b)
				}
				if err == nil {
					won.Add(1)
				} else if !errors.Is(err, ErrUniqueKey) {
					t.Error(err)
				}
			})
		}
		workers.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d have %s", round, won.Load(), mail)
		}
		if round%20 == 19 {
			shake(t, db, c, rand.New(rand.NewPCG(seed, uint64(round))))
		}
	}
	checkClaims(t, db, c)
}

func TestUniqueKeysRefused(t *testing.T) {
	ctx := context.Background()
	db, _ := openStore(t, testOptions(vfs.NewMem()), uniqueDef())
	many := make([][]string, 11)
	for i := range many {
		many[i] = []string{fmt.Sprint("/p", i)}
	}
	for name, def := range map[string]ContainerDef{
		"opaque":   {Kind: Opaque, UniqueKeys: [][]string{{"/a"}}},
		"empty":    {PartitionKey: []string{"/k"}, UniqueKeys: [][]string{{}}},
		"path":     {PartitionKey: []string{"/k"}, UniqueKeys: [][]string{{"a"}}},
		"elements": {PartitionKey: []string{"/k"}, UniqueKeys: [][]string{{"/a/[]"}}},
		"twice":    {PartitionKey: []string{"/k"}, UniqueKeys: [][]string{{"/a", "/a"}}},
		"many":     {PartitionKey: []string{"/k"}, UniqueKeys: many},
	} {
		if _, err := db.CreateContainer(ctx, name, def); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := db.EnsureContainer(ctx, "c", ContainerDef{PartitionKey: []string{"/k"}}); !errors.Is(err, ErrExists) {
		t.Errorf("without the unique keys: %v", err)
	}
	if _, err := db.EnsureContainer(ctx, "c", uniqueDef()); err != nil {
		t.Error(err)
	}
}

// TestUniqueKeysRandom compares random writes of few values with a map.
func TestUniqueKeysRandom(t *testing.T) {
	ctx := context.Background()
	seed := newSeed(t)
	rng := rand.New(rand.NewPCG(seed, 5))
	steps := 1500
	if testing.Short() {
		steps = 400
	}
	opts := testOptions(vfs.NewMem())
	opts.memtableBytes = 16 << 10
	db, c := openStore(t, opts, uniqueDef())
	defer func() { db.Close() }()
	key := StringKey("a")
	mails := make(map[string]string) // by id
	holder := func(mail, but string) string {
		for id, m := range mails {
			if m == mail && id != but {
				return id
			}
		}
		return ""
	}
	judge := func(what, id, mail string, err error) {
		t.Helper()
		if other := holder(mail, id); other != "" {
			takenBy(t, what, err, other, "/mail")
			return
		}
		must(t, err)
		mails[id] = mail
	}
	for range steps {
		id := fmt.Sprint("i", rng.IntN(7))
		mail := fmt.Sprint(rng.IntN(6))
		_, exists := mails[id]
		switch rng.IntN(12) {
		case 0, 1, 2:
			_, err := c.Upsert(ctx, mailDoc(id, mail), nil)
			judge("upsert", id, mail, err)
		case 3:
			if exists {
				_, err := c.Patch(ctx, key, id, new(Patch).Set("/mail", json.RawMessage(mail)), nil)
				judge("patch", id, mail, err)
			}
		case 4, 5:
			if exists {
				must(t, c.Delete(ctx, key, id, nil))
				delete(mails, id)
			}
		case 6:
			err := c.Update(ctx, key, func(tx *Tx) error { return tx.Upsert(mailDoc(id, mail), nil) })
			judge("update", id, mail, err)
		case 7, 8: // two items exchange their values, or one takes those of one that is deleted
			other := holder(mail, id)
			if !exists || other == "" {
				continue
			}
			b := c.NewBatch(key)
			must(t, b.Replace(mailDoc(id, mail), nil))
			if rng.IntN(2) == 0 {
				must(t, b.Delete(other, nil))
				delete(mails, other)
			} else {
				must(t, b.Upsert(mailDoc(other, mails[id]), nil))
				mails[other] = mails[id]
			}
			mails[id] = mail
			_, err := c.Commit(ctx, b)
			must(t, err)
		case 9:
			if rng.IntN(8) == 0 {
				must(t, c.DeleteLogicalPartition(ctx, key, nil))
				clear(mails)
			}
		case 10:
			shake(t, db, c, rng)
		default:
			if rng.IntN(8) == 0 {
				must(t, db.Close())
				var err error
				db, err = Open(ctx, "db", opts)
				must(t, err)
				c, err = db.Container("c")
				must(t, err)
			}
			must(t, compareClaims(db, c))
		}
	}
	n := 0
	for it, err := range c.Scan(ctx, key, IDRange{}, nil) {
		must(t, err)
		if want := string(mailDoc(it.ID, mails[it.ID])); string(it.Body) != want {
			t.Errorf("%s, want %s", it.Body, want)
		}
		n++
	}
	if n != len(mails) {
		t.Errorf("%d items, want %d", n, len(mails))
	}
}
