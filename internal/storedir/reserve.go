package storedir

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// A store keeps a reserve file. An open on a full disk removes it to get space, so that
// items can be deleted. docs/crash-safety.md says why that is safe.

// reserveShare: the reserve takes at most one part in reserveShare of the free space.
const reserveShare = 8

// ReleaseReserve removes the reserve file. It returns false if there is none.
func ReleaseReserve(fsys vfs.FS) bool {
	if fsys.Remove(manifest.ReserveName) != nil {
		return false
	}
	// Some file systems free the blocks only when the removal is durable.
	_ = fsys.SyncDir(".")
	return true
}

// KeepReserve makes the reserve file, if it is missing or too small and the disk has room. It says whether
// the file is there.
// Beyond least bytes it has room for a store manifest of manifestBytes: at times that is
// written whole, beside the one before.
func KeepReserve(fsys vfs.FS, least, manifestBytes int64) (bool, error) {
	size := least + 2*manifestBytes/least*least
	if info, err := fsys.Stat(manifest.ReserveName); err == nil && info.Size >= size {
		return true, nil
	}
	if free, err := fsys.Free(); err != nil || free/reserveShare < uint64(size) {
		return false, nil // without room there is no reserve
	}
	// Random bytes: zeros take no space where the file system compresses.
	bytes := make([]byte, size)
	rng := rand.New(rand.NewPCG(0, 0))
	for at := 0; at+8 <= len(bytes); at += 8 {
		binary.LittleEndian.PutUint64(bytes[at:], rng.Uint64())
	}
	err := vfs.WriteFileAtomic(fsys, manifest.ReserveName+manifest.TempSuffix, manifest.ReserveName, bytes)
	return err == nil, err
}
