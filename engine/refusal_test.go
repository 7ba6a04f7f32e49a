package engine

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/internal/vfs"
)

// TestRefusalRestsOnWhatIsShown has writes refused while another write, whose sync
// is held back, is not visible yet. What the refusal says of an item must be what
// a read shows by then.
func TestRefusalRestsOnWhatIsShown(t *testing.T) {
	document := func(id string, u string) []byte { return []byte(`{"id":"` + id + `","k":"a","u":"` + u + `"}`) }
	key := StringKey("a")
	for _, tc := range []struct {
		name    string
		hidden  func(c *Container) error // whose sync is held back
		refused func(c *Container) error
		want    error
	}{
		{"a replace of an item that is being created, with the value of another",
			func(c *Container) error { return second(c.Create(t.Context(), document("new", "new"), nil)) },
			func(c *Container) error { return second(c.Replace(t.Context(), document("new", "a"), nil)) },
			ErrUniqueKey},
		{"a create of an item that is being deleted, with the value of another",
			func(c *Container) error { return c.Delete(t.Context(), key, "b", nil) },
			func(c *Container) error { return second(c.Create(t.Context(), document("b", "a"), nil)) },
			ErrUniqueKey},
		{"a batch whose first operation needs what is being created, and whose second fails",
			func(c *Container) error { return second(c.Create(t.Context(), document("new", "new"), nil)) },
			func(c *Container) error {
				batch := c.NewBatch(key)
				if err := errors.Join(batch.Replace(document("new", "newer"), nil), batch.Create(document("a", "a"), nil)); err != nil {
					return err
				}
				return second(c.Commit(t.Context(), batch))
			},
			ErrExists},
		{"a transaction that takes a value that is being taken",
			func(c *Container) error { return second(c.Create(t.Context(), document("new", "new"), nil)) },
			func(c *Container) error {
				return c.Update(t.Context(), key, func(tx *Tx) error { return tx.Upsert(document("b", "new"), nil) })
			},
			ErrUniqueKey},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := newGate(vfs.NewMem())
				db, c := openStore(t, testOptions(gate), ContainerDef{PartitionKey: []string{"/k"}, UniqueKeys: [][]string{{"/u"}}})
				for _, id := range []string{"a", "b"} {
					must(t, second(c.Create(t.Context(), document(id, id), nil)))
				}
				gate.syncs.Store(true)
				hidden := background(func() error { return tc.hidden(c) })
				synctest.Wait()
				refused := background(func() error { return tc.refused(c) })
				synctest.Wait()
				select {
				case err := <-refused:
					t.Errorf("refused before what it rests on is shown: %v", err)
					gate.release()
				default:
					gate.release()
					if err := <-refused; !errors.Is(err, tc.want) {
						t.Errorf("%v, want %v", err, tc.want)
					}
				}
				must(t, <-hidden)
				must(t, db.Close())
			})
		})
	}
}
