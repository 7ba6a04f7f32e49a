package engine

import "context"

// copyOn begins to copy a container, goes on with a copy, perhaps one that a
// crash has left, or gives it up. It compares what is copied.
func (m *model) copyOn() {
	ctx := context.Background()
	if m.copy == nil {
		src, err := m.db.Container("mortal")
		must(m.t, err)
		m.copy, err = copied(ctx, src, "copy", ContainerDef{PartitionKey: []string{"/id", "/k"}, MinPartitions: 2, DefaultTTL: NoExpiry, Index: IndexAll()})
		must(m.t, err)
	} else {
		must(m.t, m.copy.CatchUp(ctx))
	}
	must(m.t, sameItems(m.copy.src, m.copy.dst))
	switch m.rng.IntN(8) {
	case 0:
		m.copy.Cancel()
		must(m.t, m.db.DropContainer(ctx, "copy"))
		m.copy = nil
	case 1:
		m.copy.Cancel()
		m.copy = nil
	}
}
