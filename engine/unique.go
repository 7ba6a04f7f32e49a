package engine

import (
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/writebatch"
)

// isClaim says whether the key is that of a claim. Without unique keys none is: the ids
// of an opaque container may be any bytes.
func (c *Container) isClaim(k *item.Key) bool {
	return c.unique != nil && k.Marked()
}

// UniqueKeyError tells which unique key is taken, and by which item. It comes as a
// *UniqueKeyError, and matches ErrUniqueKey.
//
//	Paths  []string
//	Holder string // id of the item that has the values
//	ID     string // id of the item that was refused
type UniqueKeyError = writebatch.UniqueKeyError
