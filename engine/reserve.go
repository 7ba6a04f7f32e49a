package engine

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// A store keeps a reserve file. An open on a full disk removes it to get space, so that
// items can be deleted. docs/crash-safety.md says why that is safe.

const (
	// defaultReserve is enough for a log file, manifests and the first flush of deletes.
	defaultReserve = 512 << 10
	// reserveShare: the reserve takes at most one part in reserveShare of the free space.
	reserveShare = 8
)

// errReleased says that Open met a full disk and has removed the reserve file.
var errReleased = errors.New("the reserve file was removed")

// releaseReserve removes the reserve file, if there is one and the lock is held.
func (db *DB) releaseReserve() bool {
	if db.lock == nil || db.env.FS.Remove(manifest.ReserveName) != nil {
		return false
	}
	// Some file systems free the blocks only when the removal is durable.
	_ = db.env.FS.SyncDir(".")
	db.opts.Logger.Warn("the disk is full: opening the store with the space of its reserve file", "file", db.env.FS.Path(manifest.ReserveName))
	return true
}

// keepReserve makes the reserve file, if it is missing or too small and the disk
// has room. The lock is held.
func (db *DB) keepReserve() {
	least := db.opts.reserveBytes
	if least <= 0 {
		return
	}
	// At times the store manifest is written whole, beside the one before.
	size := least + 2*db.storeManifest.dir.Bytes()/least*least
	if info, err := db.env.FS.Stat(manifest.ReserveName); err == nil && info.Size >= size {
		return
	}
	if free, err := db.env.FS.Free(); err != nil || free/reserveShare < uint64(size) {
		return
	}
	// Random bytes: zeros take no space where the file system compresses.
	bytes := make([]byte, size)
	rng := rand.New(rand.NewPCG(0, 0))
	for at := 0; at+8 <= len(bytes); at += 8 {
		binary.LittleEndian.PutUint64(bytes[at:], rng.Uint64())
	}
	if err := vfs.WriteFileAtomic(db.env.FS, manifest.ReserveName+manifest.TempSuffix, manifest.ReserveName, bytes); err != nil {
		db.opts.Logger.Warn("cannot make the reserve file", "error", err)
	}
}
