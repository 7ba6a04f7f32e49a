package vfs

import (
	"slices"
	"syscall"
)

// journal is the state of the journal of a Mem, which names, lengths and what space
// was written for the first time are committed to.
type journal int

const (
	journalWorks journal = iota
	// The journal has failed and nobody has noticed: syncs answer nil without it.
	journalAborted
	// A call that needed it has noticed: the file system is read-only.
	journalNoticed
)

// AbortJournal has the journal fail, as that of ext4 does on a device that takes no
// more: a commit that another process waits for ends without those who come later being
// told. From now on syncs answer nil and make durable only what was written
// over bytes that a sync has brought to the device before; what went into new space,
// lengths and names are lost. The first call that begins to change metadata fails with
// EROFS, and with it every later call that would change something or make it durable.
func (m *Mem) AbortJournal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.journal = journalAborted
}

// askJournal begins to change metadata.
func (m *Mem) askJournal() error {
	if m.journal == journalWorks {
		return nil
	}
	m.journal = journalNoticed
	return syscall.EROFS
}

// readOnly fails once somebody has noticed that the journal has failed.
func (m *Mem) readOnly() error {
	if m.journal == journalNoticed {
		return syscall.EROFS
	}
	return nil
}

// syncWritten is a sync without a journal.
func (n *node) syncWritten() {
	for _, c := range n.changes {
		for _, s := range c.sectors {
			if n.written.has(s.off) {
				n.durable.writeAt(s.data, s.off)
			} else {
				n.lost = append(n.lost, s.off)
			}
		}
	}
	n.changes = nil
}

// sectors is a set of sectors of a file, a bit for each.
type sectors []uint64

func (x sectors) has(off int64) bool {
	i := off / sectorBytes
	return i/64 < int64(len(x)) && x[i/64]&(1<<(i%64)) != 0
}

// add adds the sector at off.
func (x *sectors) add(off int64) {
	i := int(off / sectorBytes)
	if n := i/64 + 1; n > len(*x) {
		old := len(*x)
		*x = slices.Grow(*x, n-old)[:n]
		clear((*x)[old:])
	}
	(*x)[i/64] |= 1 << (i % 64)
}

// cut takes out the sectors that begin at size or behind it.
func (x *sectors) cut(size int64) {
	for off := (size + sectorBytes - 1) / sectorBytes * sectorBytes; off < int64(len(*x))*64*sectorBytes; off += sectorBytes {
		(*x)[off/sectorBytes/64] &^= 1 << (off / sectorBytes % 64)
	}
}
