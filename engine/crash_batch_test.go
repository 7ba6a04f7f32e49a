package engine

import (
	"context"
	"errors"
	"math/rand/v2"
)

// batchStories are the stories of batches and transactions.
var batchStories = []story{
	{"batch", func(s *stage) {
		s.start(2)
		s.batches("c", 6, 5, 300)
		s.flush()
		s.batches("c", 3, 9, 7_000) // over the end of a log file
		s.updates("c", 6)
		s.close()
		s.open()
		s.batches("c", 2, 3, 10)
	}},
	{"buffered batches", func(s *stage) {
		s.opts.Durability = Buffered
		s.opts.keepInheritance = true
		s.start(1)
		s.batches("c", 4, 5, 500)
		s.split("c", 0)
		s.batches("c", 4, 5, 500)
		s.carry()
		s.mergeParts("c")
		s.updates("c", 4)
		s.flush()
	}},
}

// batches commits n batches that overwrite and delete items, each of one
// partition key.
func (s *stage) batches(name string, n, operations, size int) {
	s.groups(name, n, func(c *Container, rng *rand.Rand, i int) (writes []write, metas []Meta, err error) {
		key := stageKeys[i%len(stageKeys)]
		b := c.NewBatch(key)
		add := func(w write) {
			writes = append(writes, w)
			if w.body == "" {
				err = errors.Join(err, b.Delete(w.id, nil))
			} else {
				err = errors.Join(err, b.Upsert([]byte(w.body), nil))
			}
		}
		for j := range operations {
			_, id, body := storyDoc(rng, i%4+4*j, size)
			add(write{container: name, key: key, id: id, body: body})
			if j == operations-1 {
				add(write{container: name, key: key, id: id}) // and deletes it again
			}
		}
		if err != nil {
			return nil, nil, err
		}
		metas, err = c.Commit(context.Background(), b)
		return writes, metas, err
	})
}

// updates runs n transactions that overwrite two items each.
func (s *stage) updates(name string, n int) {
	s.groups(name, n, func(c *Container, rng *rand.Rand, i int) (writes []write, metas []Meta, err error) {
		for j := range 2 {
			key, id, body := storyDoc(rng, i%4+4*j, 50)
			writes = append(writes, write{container: name, key: key, id: id, body: body})
		}
		metas, err = c.UpdateWith(context.Background(), writes[0].key, nil, func(tx *Tx) error {
			for _, w := range writes {
				if err := tx.Upsert([]byte(w.body), nil); err != nil {
					return err
				}
			}
			return nil
		})
		return writes, metas, err
	})
}
