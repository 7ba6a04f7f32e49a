// Package manifest reads and writes the manifests of a store: the small files
// that say which containers, partitions and segment files exist. Everything
// else on disk is believed only because a manifest names it.
//
// A manifest file holds one generation, whole:
//
//	cleave-manifest <kind> <format> <crc32c, 8 hex> <length, decimal>\n
//	<length bytes of JSON>
//
// kind is "store" or "partition"; the checksum covers the JSON and the words
// before it on the first line. The file of generation n is named MANIFEST-n,
// n in 10 decimal digits.
//
// Invariants:
//  1. The file with the highest n counts. If it is damaged the store does not
//     open: an older one would forget what was acknowledged since.
//  2. A new generation is written to MANIFEST-n.tmp, synced, renamed, and the
//     directory is synced. The rename made durable is the commit.
//  3. If a step before the rename fails, for instance because the disk is full,
//     nothing has changed and the next write may succeed. If the rename or the
//     sync of the directory fails the outcome is unknown: this Dir refuses
//     further writes with fault.ErrOutcomeUnknown and its owner deletes no
//     file until the store is opened again.
//
// And of what they say, whatever the bytes: Load, and whoever reads manifests from
// a backup, refuses one that does not hold.
//
// The store:
//
//  4. LastSeq is not above SeqLimit, which no sequence reaches, and that not above
//     item.MaxSeq+1.
//  5. Numbers of containers and partitions are not 0, below the next ones, which are
//     at most MaxID. So what is made next has a directory of its own.
//  6. No two containers have one number or one name, no two partitions one number.
//  7. Each partition is of a container that is listed, and those of a container
//     cover the key space once.
//  8. Children of jobs that were not committed are no partitions.
//  9. Times end with the year 9999. Marks rise; so do the files of the log.
//
// A partition:
//
//  10. Its sequences, its entry and the numbers of its files leave room to count on.
//     It inherits a stream once, and not its own.
//  11. Files of a run follow each other without overlap. None is obsolete.
//  12. References to one file tell of the same content, and do not overlap.
//  13. It is of the store and in the place that it says; the streams that it inherits
//     are those of partitions that were made.
//
// A manifest takes memory in proportion to its length: see Unmarshal.
//
// A crash leaves either generation n-1 alone, or n (with or without n-1), or a
// .tmp file beside them, which Load ignores and the owner removes.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Format is the version of both manifests that this program writes.
const Format = 1

// MaxBytes bounds the size of a manifest that Load reads.
const MaxBytes = 256 << 20

// TempSuffix ends the names of files that were never published.
const TempSuffix = ".tmp"

const (
	magic      = "cleave-manifest"
	namePrefix = "MANIFEST-"
	nameDigits = 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kind tells the two manifests apart.
type Kind string

// Kinds.
const (
	StoreKind     Kind = "store"
	PartitionKind Kind = "partition"
)

// Name returns the file name of a generation.
func Name(generation uint64) string {
	return fmt.Sprintf("%s%0*d", namePrefix, nameDigits, generation)
}

// ParseName returns the generation of a manifest file name.
func ParseName(name string) (generation uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, namePrefix)
	if !ok || len(digits) < nameDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || Name(n) != name {
		return 0, false
	}
	return n, true
}

// Encode returns the bytes of a manifest file.
func Encode(kind Kind, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	head := fmt.Sprintf("%s %s %d", magic, kind, Format)
	line := fmt.Sprintf("%s %08x %d\n", head, checksum(head, body), len(body))
	return append([]byte(line), body...), nil
}

// Decode checks the bytes of a manifest file and unmarshals them into v. file
// is the name for errors: *fault.CorruptionError, or fault.ErrTooNew.
func Decode(file string, kind Kind, data []byte, v any) error {
	line, body, ok := bytes.Cut(data, []byte("\n"))
	if !ok || len(line) > 128 {
		return fault.Corrupt(file, 0, "no manifest header")
	}
	words := strings.Split(string(line), " ")
	if len(words) < 3 || words[0] != magic {
		return fault.Corrupt(file, 0, "no manifest header")
	}
	if words[1] != string(kind) {
		return fault.Corrupt(file, 0, "a %.32q manifest where %q is expected", words[1], string(kind))
	}
	format, err := strconv.ParseUint(words[2], 10, 32)
	if err != nil || format == 0 {
		return fault.Corrupt(file, 0, "bad format version %q", words[2])
	}
	if format > Format {
		return fmt.Errorf("%s: manifest format %d, this program knows up to %d: %w", file, format, Format, fault.ErrTooNew)
	}
	if len(words) != 5 {
		return fault.Corrupt(file, 0, "manifest header has %d words, not 5", len(words))
	}
	if words[4] != strconv.Itoa(len(body)) {
		return fault.Corrupt(file, int64(len(line)), "length %s in the header, %d bytes in the file", words[4], len(body))
	}
	if want := fmt.Sprintf("%08x", checksum(strings.Join(words[:3], " "), body)); words[3] != want {
		return fault.Corrupt(file, 0, "checksum %s, computed %s", words[3], want)
	}
	if err := Unmarshal(body, v, true); err != nil {
		return fault.Corrupt(file, int64(len(line))+1, "%w", err)
	}
	return nil
}

func checksum(head string, body []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(head), castagnoli), castagnoli, body)
}

// Dir is the sequence of manifests in one directory. It is safe for
// concurrent use; writes are made one at a time.
type Dir struct {
	fs   vfs.FS
	dir  string
	kind Kind

	mu         sync.Mutex
	generation uint64
	failed     error
}

// NewDir returns the manifests of a directory; nothing is read.
func NewDir(fsys vfs.FS, dir string, kind Kind) *Dir {
	return &Dir{fs: fsys, dir: dir, kind: kind}
}

// Latest returns the highest generation present, 0 if there is none.
func (d *Dir) Latest() (uint64, error) {
	names, err := d.fs.List(d.dir)
	if err != nil {
		return 0, err
	}
	var latest uint64
	for _, name := range names {
		if n, ok := ParseName(name); ok {
			latest = max(latest, n)
		}
	}
	return latest, nil
}

// Load reads the newest generation into v. It returns an error matching
// fault.ErrMissing if there is none.
func (d *Dir) Load(v any) error {
	latest, err := d.Latest()
	if err != nil {
		return err
	}
	if latest == 0 {
		return fault.IO("open", d.fs.Path(path.Join(d.dir, namePrefix+"*")), -1, fs.ErrNotExist)
	}
	name := path.Join(d.dir, Name(latest))
	data, err := vfs.ReadFile(d.fs, name, MaxBytes)
	if err != nil {
		return err
	}
	if err := Decode(d.fs.Path(name), d.kind, data, v); err != nil {
		return err
	}
	d.mu.Lock()
	d.generation = latest
	d.mu.Unlock()
	return nil
}

// Generation returns the generation last loaded or written.
func (d *Dir) Generation() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.generation
}

// Failed returns the error of the write that failed, if one did.
func (d *Dir) Failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// Store makes v the next generation. When it returns nil v is durable and the
// generation before is removed. After an error matching
// fault.ErrOutcomeUnknown every later call returns it again; after another
// error the manifest is as it was.
func (d *Dir) Store(v any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return d.failed
	}
	data, err := Encode(d.kind, v)
	if err != nil {
		return err
	}
	next := path.Join(d.dir, Name(d.generation+1))
	if err := vfs.WriteFileAtomic(d.fs, next+TempSuffix, next, data); err != nil {
		err = fmt.Errorf("manifest %s: %w", d.fs.Path(next), err)
		if errors.Is(err, fault.ErrOutcomeUnknown) {
			d.failed = err
		}
		return err
	}
	if d.generation > 0 {
		// The highest generation counts: one that stays does no harm.
		_ = d.fs.Remove(path.Join(d.dir, Name(d.generation)))
	}
	d.generation++
	return nil
}
