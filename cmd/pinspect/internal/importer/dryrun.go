package importer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/storedir"
	"github.com/cleavestore/cleave/internal/vfs"
)

// there is the container that a dry run would write to, where it exists already. It is only
// read: the dry run writes to a temporary one of the same definition.
type there struct {
	db        *engine.DB
	container *engine.Container
	// unique says that the container has unique keys. What the documents of a logical
	// partition claim is known when all of them lie in the temporary container: brought has
	// those that are there.
	unique  bool
	brought map[engine.PartitionKey]bool
	// judged takes the documents of the source alone, which judge reads. nil: nobody does, or
	// the temporary container has nothing else.
	judged *engine.Container
}

// openThere opens the store that a dry run is about, if there is one and it has the
// container.
func (w *writing) openThere(ctx context.Context) error {
	if !w.DryRun || w.DB == "" {
		return nil
	}
	db, err := engine.Open(ctx, w.DB, &engine.Options{ReadOnly: true})
	if errors.Is(err, engine.ErrNotStore) {
		// An import makes a store in an absent directory, and in one without files of others.
		refusal := files(w.DB, func(root vfs.FS) error { return storedir.Check(root, false) })
		if refusal == nil || errors.Is(refusal, fs.ErrNotExist) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	c, err := db.Container(w.Container)
	if err != nil {
		if errors.Is(err, engine.ErrNoContainer) {
			err = nil
		}
		return errors.Join(err, db.Close())
	}
	def := c.Def()
	w.there = &there{db: db, container: c, unique: len(def.UniqueKeys) > 0, brought: make(map[engine.PartitionKey]bool)}
	if len(w.PartitionKey) == 0 && def.Kind == engine.JSON && def.Synthetic == nil {
		w.PartitionKey = []string{jsondoc.JoinPaths(def.PartitionKey)} // the one that is judged
	}
	return nil
}

// close closes the store.
func (t *there) close() error {
	if t == nil {
		return nil
	}
	return t.db.Close()
}

// def returns the definition of a temporary container that takes what the other one takes,
// and makes nobody wait.
func (t *there) def() engine.ContainerDef {
	def := t.container.Def()
	def.MinPartitions, def.Throughput, def.Limits.LogicalPartitionThroughput = 1, 0, 0
	def.Index, def.ChangeRetention = engine.IndexPolicy{}, 0
	return def
}

// apart makes the container of the documents that are judged, where the temporary one gets
// others too.
func (t *there) apart(ctx context.Context, db *engine.DB) (err error) {
	if !t.unique {
		return nil
	}
	def, name := t.def(), "judged"
	if def.UniqueKeys = nil; t.container.Name() == name {
		name = "judged apart"
	}
	t.judged, err = db.CreateContainer(ctx, name, def)
	return err
}

// put writes a document as write does. In a dry run it finds out what the container that is
// there would say to it.
func (w *writing) put(ctx context.Context, container *engine.Container, doc *document) (engine.Meta, error) {
	t := w.there
	if t == nil {
		return w.write(ctx, container, doc)
	}
	if t.unique {
		if err := t.bring(ctx, container, doc); err != nil {
			return engine.Meta{}, err
		}
	}
	meta, err := w.write(ctx, container, doc)
	switch {
	case err != nil:
		return meta, err
	case t.judged != nil:
		_, err = t.judged.Upsert(ctx, doc.body, &engine.WriteOptions{Durability: engine.Buffered})
		return meta, err
	case t.unique || !w.SkipExisting:
		return meta, nil
	}
	switch _, err = t.container.Read(ctx, meta.Key, meta.ID); {
	case errors.Is(err, engine.ErrNotFound):
		return meta, nil
	case err == nil:
		if err = container.Delete(ctx, meta.Key, meta.ID, &engine.WriteOptions{Durability: engine.Buffered}); err == nil {
			err = engine.ErrExists
		}
	}
	return meta, err
}

// bring copies the logical partition of a document into the temporary container, before
// the first document is written there.
func (t *there) bring(ctx context.Context, container *engine.Container, doc *document) error {
	key, err := t.container.KeyOf(doc.body)
	if err != nil || t.brought[key] {
		return nil // the write will say what is wrong with the document
	}
	for item, err := range t.container.Scan(ctx, key, engine.IDRange{}, nil) {
		if err == nil {
			t.brought[key] = true // of others nothing needs to be remembered
			_, err = container.Upsert(ctx, item.Body, &engine.WriteOptions{Durability: engine.Buffered})
		}
		if errors.Is(err, engine.ErrLogicalPartitionFull) {
			return nil // so is the one that is there
		}
		if err != nil {
			return fmt.Errorf("logical partition %v of container %q: %w", key, t.container.Name(), err)
		}
	}
	return nil
}
