// Package manifest reads and writes the manifests of a store: small files that say which
// containers, partitions and segment files exist. A file that no manifest names does not
// belong to the store.
//
// A manifest file holds one generation: the whole state, or an edit of an older generation,
// its base.
//
//	cleave-manifest partition 2 <n> 0 00000000 <crc32c, 8 hex> <length, decimal>\n
//	cleave-manifest store 3 <n> <base> <crc32c of the base> <crc32c> <length>\n
//	<length bytes of JSON>
//
// The JSON is a Store, a Files or, in an edit, an Edit. The checksum covers the JSON and the
// words before it on the first line. Checksum and length are the last two words of the first
// line in every future format too, so that a damaged manifest can be told from one in a newer
// format. The file of generation n is named MANIFEST-n, with n in 10 decimal digits. The
// manifest of a partition is always whole. That of a store is whole if its base is 0; the
// checksum of the base is then 0. Format 3 has limits of logical
// partitions, format 4 ranges that are absent, format 5 composite indexes, format 6 keys
// of version 1, and format 7 containers whose default time to live can be changed; without them a generation is written in format 2, which is the same otherwise.
// In format 1 a manifest is whole, and its first line has no n and no base.
//
//	MANIFEST-0000000007   whole                   310 KB
//	MANIFEST-0000000391   edit of 7, <its crc>     34 KB
//	MANIFEST-0000000402   edit of 391, <its crc>    5 KB: the newest one
//
// Invariants of the files:
//
//  1. The file with the highest n counts, together with its chain: its base, the base of that,
//     and so on. If a file of the chain is damaged the store does not open, because an older
//     generation would lose acknowledged changes.
//  2. A new generation is written to MANIFEST-n.tmp, synced, renamed, and the
//     directory is synced. The change is committed when the rename is durable.
//  3. If a step before the rename fails, for instance because the disk is full,
//     nothing has changed and the next write may succeed. If the rename or the
//     sync of the directory fails the outcome is unknown: this Dir refuses
//     further writes with fault.ErrOutcomeUnknown and its owner deletes no
//     file until the store is opened again.
//  4. A manifest contains its generation, which is higher than that of its base. An
//     edit names its base by number and checksum, and the name of the base is durable before
//     the edit is written. All files of a chain are of one store. The containers and partitions
//     of an edit rise by number.
//
// Load, and readers of manifests in a backup, refuse contents that break one of the following
// invariants. Of the store:
//
//  5. LastSeq is at most SeqLimit, which no sequence reaches. SeqLimit is at most
//     item.MaxSeq+1.
//  6. Numbers of containers and partitions are not 0, and below the next number, which is at
//     most MaxID. So a new container or partition has a directory of its own.
//  7. Two containers differ in number and name, two partitions in number.
//  8. Each partition belongs to a container of the manifest. The partitions of a container
//     cover the key space once.
//  9. Children of jobs that were not committed are no partitions.
//  10. Times end with the year 9999. Marks rise, and so do the log files.
//
// Of a partition:
//
//  11. Its sequences, its entry and its file numbers are low enough to count on from them.
//     It inherits each stream at most once, and not its own.
//  12. Files of a run follow each other without overlap. None of them is obsolete.
//  13. References to one file agree on its content, and do not overlap.
//  14. It belongs to the store and the place in which it lies. The streams that it inherits
//     are those of partitions that exist or existed.
//
// A manifest takes memory in proportion to its length: see Unmarshal.
//
// A crash leaves the chain of generation n-1 or that of n. It may also leave files of the
// other chain, which the next write removes, and a .tmp file, which Load ignores and the owner
// removes. docs/crash-safety.md explains why.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Format is the newest version of the store manifests that this program writes. It writes
// a version only where it needs it, so that older programs open what they can understand.
const Format = 7

// PartitionFormat is the version of the partition manifests that this program writes.
const PartitionFormat = 2

const (
	editFormat      = 2 // says its generation; that of a store may be an edit
	limitsFormat    = 3 // with limits of logical partitions
	absentFormat    = 4 // with ranges that are absent
	compositeFormat = 5 // with composite indexes
	hashFormat      = 6 // with keys that are placed by version 1 of the hash
	mutableFormat   = 7 // with containers whose default time to live can be changed
)

// StoreFormat returns the version in which these containers and partitions are written.
func StoreFormat(containers []Container, partitions []Partition) int {
	if slices.ContainsFunc(containers, func(c Container) bool { return c.MutableTTL }) {
		return mutableFormat
	}
	if slices.ContainsFunc(containers, func(c Container) bool { return c.HashVersion != 0 }) {
		return hashFormat
	}
	if slices.ContainsFunc(containers, func(c Container) bool { return c.Index != nil && len(c.Index.Composite) > 0 }) {
		return compositeFormat
	}
	if slices.ContainsFunc(partitions, func(p Partition) bool { return p.Absent }) {
		return absentFormat
	}
	for i := range containers {
		if c := &containers[i]; c.MaxLogicalThroughput != 0 || len(c.KeyLimits) > 0 {
			return limitsFormat
		}
	}
	return editFormat
}

// formatOf returns the version in which a manifest or an edit of one is written.
func formatOf(v any) int {
	switch v := v.(type) {
	case *Store:
		return StoreFormat(v.Containers, v.Partitions)
	case *Edit:
		return StoreFormat(v.Containers, v.Partitions)
	}
	return PartitionFormat
}

// MaxBytes bounds the size of a manifest, with all that it builds on. A larger one is neither written nor read.
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

// Encode returns the bytes of the manifest file of a generation that holds v whole.
func Encode(kind Kind, generation uint64, v any) ([]byte, error) {
	data, _, err := encode(kind, generation, link{}, v)
	return data, err
}

// encode is Encode; base is what v is an edit of. It returns the checksum too.
func encode(kind Kind, generation uint64, base link, v any) (data []byte, sum uint32, err error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, 0, fmt.Errorf("manifest: %w", err)
	}
	head := fmt.Sprintf("%s %s %d %d %d %08x", magic, kind, formatOf(v), generation, base.generation, base.sum)
	sum = checksum(head, body)
	return append(fmt.Appendf(nil, "%s %08x %d\n", head, sum, len(body)), body...), sum, nil
}

// Decode checks the bytes of a manifest file that is whole and unmarshals them into
// v. file is the name for errors: *fault.CorruptionError, or fault.ErrTooNew.
func Decode(file string, kind Kind, data []byte, v any) error {
	_, base, body, err := parse(file, kind, data, 0)
	if err != nil {
		return err
	}
	if base.generation != 0 {
		return fault.Corrupt(file, 0, "an edit of generation %d, where a whole one is expected", base.generation)
	}
	return unmarshal(file, data, body, v)
}

func unmarshal(file string, data, body []byte, v any) error {
	if err := Unmarshal(body, v, true); err != nil {
		return fault.Corrupt(file, int64(len(data)-len(body)), "%w", err)
	}
	return nil
}

// parse checks the bytes of the manifest file of a generation; 0: of any. It returns its
// checksum, what of its base is known, and the JSON.
func parse(file string, kind Kind, data []byte, generation uint64) (sum uint32, base link, body []byte, err error) {
	refuse := func(off int, format string, args ...any) (uint32, link, []byte, error) {
		return 0, link{}, nil, fault.Corrupt(file, int64(off), format, args...)
	}
	line, body, ok := bytes.Cut(data, []byte("\n"))
	if !ok || len(line) > 128 {
		return refuse(0, "no manifest header")
	}
	words := strings.Split(string(line), " ")
	if len(words) < 3 || words[0] != magic {
		return refuse(0, "no manifest header")
	}
	if words[1] != string(kind) {
		return refuse(0, "a %.32q manifest where %q is expected", words[1], string(kind))
	}
	newest, n := uint64(PartitionFormat), 5
	if kind == StoreKind {
		newest = Format
	}
	format, err := strconv.ParseUint(words[2], 10, 32)
	if err != nil || format == 0 {
		return refuse(0, "bad format version %q", words[2])
	}
	switch {
	case format > newest:
		n = max(n, len(words))
	case format >= editFormat:
		n = 8
	}
	if len(words) != n {
		return refuse(0, "manifest header has %d words, not %d", len(words), n)
	}
	head, last := words[:n-2], words[n-2:]
	if last[1] != strconv.Itoa(len(body)) {
		return refuse(len(line), "length %s in the header, %d bytes in the file", last[1], len(body))
	}
	sum = checksum(strings.Join(head, " "), body)
	if want := fmt.Sprintf("%08x", sum); last[0] != want {
		return refuse(0, "checksum %s, computed %s", last[0], want)
	}
	if format > newest {
		return 0, link{}, nil, fmt.Errorf("%s: manifest format %d, this program knows up to %d: %w", file, format, newest, fault.ErrTooNew)
	}
	if format >= editFormat {
		var itself uint64
		text := strings.Join(head[3:], " ")
		_, err := fmt.Sscanf(text, "%d %d %x", &itself, &base.generation, &base.sum)
		if want := fmt.Sprintf("%d %d %08x", itself, base.generation, base.sum); err != nil || want != text {
			return refuse(0, "bad numbers of generations %q", text)
		}
		if generation != 0 && itself != generation {
			return refuse(0, "generation %d in the place of generation %d", itself, generation)
		}
		if kind == PartitionKind && base != (link{}) {
			return refuse(0, "an edit of generation %d in the place of a partition", base.generation)
		}
	}
	return sum, base, body, nil
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

	fold int64 // see foldBytes
	most int64 // MaxBytes

	mu     sync.Mutex // held while a generation is written and synced; no write of a document takes it
	chain  []link     // the newest generation and what it builds on, the whole one first
	stale  []uint64   // other generations, which a crash may have left
	firm   bool       // the names of the chain are durable
	failed error
}

// NewDir returns the manifests of a directory; nothing is read.
func NewDir(fsys vfs.FS, dir string, kind Kind) *Dir {
	return &Dir{fs: fsys, dir: dir, kind: kind, fold: foldBytes, most: MaxBytes}
}

// FoldFrom sets how large a generation of a store is at least on which another one
// builds. It is for tests, before the first call of Edit.
func (d *Dir) FoldFrom(bytes int64) { d.fold = bytes }

// generations returns those that are present.
func generations(names []string) (list []uint64) {
	for _, name := range names {
		if n, ok := ParseName(name); ok {
			list = append(list, n)
		}
	}
	return list
}

// Latest returns the highest generation present, 0 if there is none.
func (d *Dir) Latest() (uint64, error) {
	names, err := d.fs.List(d.dir)
	list := generations(names)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return slices.Max(list), nil
}

// Load reads the newest generation into v. It returns an error matching
// fault.ErrMissing if there is none, or if a writer removes one of its files
// meanwhile.
func (d *Dir) Load(v any) error {
	names, err := d.fs.List(d.dir)
	if err != nil {
		return err
	}
	return d.LoadListed(names, v)
}

// LoadNewest loads the newest manifest of a directory in whose place a writer may put
// another one at any time.
func LoadNewest[M any](fs vfs.FS, name string, kind Kind) (m M, err error) {
	for before := uint64(0); ; {
		dir := NewDir(fs, name, kind)
		latest, err := dir.Latest()
		if err != nil {
			return m, err
		}
		if err = dir.Load(&m); !errors.Is(err, fault.ErrMissing) || latest == before {
			return m, err
		}
		before = latest
	}
}

// LoadListed is Load for one who has listed the directory.
func (d *Dir) LoadListed(names []string, v any) error {
	present := generations(names)
	if len(present) == 0 {
		return fault.IO("open", d.fs.Path(path.Join(d.dir, namePrefix+"*")), -1, fs.ErrNotExist)
	}
	chain, err := d.read(slices.Max(present), v)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.chain, d.firm = chain, false
	d.stale = slices.DeleteFunc(present, func(n uint64) bool {
		return slices.ContainsFunc(chain, func(l link) bool { return l.generation == n })
	})
	return nil
}

// read reads a generation, from the newest file of its chain to the whole one: what is
// newest is replaced first.
func (d *Dir) read(newest uint64, v any) (chain []link, err error) {
	left := d.most
	for next := (link{generation: newest}); ; {
		name := path.Join(d.dir, Name(next.generation))
		data, err := vfs.ReadFile(d.fs, name, left)
		if err != nil {
			return nil, err
		}
		file := d.fs.Path(name)
		sum, base, body, err := parse(file, d.kind, data, next.generation)
		if err != nil {
			return nil, err
		}
		if len(chain) > 0 && sum != next.sum {
			return nil, fault.Corrupt(file, 0, "checksum %08x, the edit of it says %08x", sum, next.sum)
		}
		left -= int64(len(data))
		l := link{generation: next.generation, bytes: int64(len(data)), sum: sum}
		if base.generation == 0 {
			if err := unmarshal(file, data, body, v); err != nil {
				return nil, err
			}
			chain = append(chain, l)
			break
		}
		l.edit = new(Edit)
		if err := unmarshal(file, data, body, l.edit); err != nil {
			return nil, err
		}
		if chain = append(chain, l); base.generation >= l.generation || len(chain) == maxLinks {
			return nil, fault.Corrupt(file, 0, "edit %d of generation %d", len(chain), base.generation)
		}
		next = base
	}
	slices.Reverse(chain)
	if s, ok := v.(*Store); ok {
		if err := s.take(chain[1:]); err != nil {
			return nil, fault.Corrupt(d.fs.Path(path.Join(d.dir, Name(newest))), 0, "%w", err)
		}
	}
	return chain, nil
}

// Generation returns the generation last loaded or written.
func (d *Dir) Generation() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.generation()
}

func (d *Dir) generation() uint64 {
	if len(d.chain) == 0 {
		return 0
	}
	return d.chain[len(d.chain)-1].generation
}

// Bytes returns the size of the files that the newest generation is made of.
func (d *Dir) Bytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return together(d.chain)
}

// together returns the size of the files of a chain.
func together(chain []link) (sum int64) {
	for _, l := range chain {
		sum += l.bytes
	}
	return sum
}

// Failed returns the error of the write that failed, if one did.
func (d *Dir) Failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// Store makes v the next generation, whole. When it returns nil v is durable and
// those before are removed. After an error matching
// fault.ErrOutcomeUnknown every later call returns it again; after another
// error, such as fault.ErrTooLarge beyond MaxBytes, the manifest is as it was.
func (d *Dir) Store(v any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return d.failed
	}
	data, sum, err := encode(d.kind, d.generation()+1, link{}, v)
	if err != nil {
		return err
	}
	return d.write(nil, data, link{sum: sum})
}

// write makes data the next generation, which l describes: whole, or an edit of the last
// one in keep, the beginning of the chain.
func (d *Dir) write(keep []link, data []byte, l link) error {
	l.generation, l.bytes = d.generation()+1, int64(len(data))
	next := path.Join(d.dir, Name(l.generation))
	if n := together(keep) + l.bytes; n > d.most {
		return fmt.Errorf("manifest %s: %w: %d bytes, at most %d", d.fs.Path(next), fault.ErrTooLarge, n, d.most)
	}
	if err := vfs.WriteFileAtomic(d.fs, next+TempSuffix, next, data); err != nil {
		err = fmt.Errorf("manifest %s: %w", d.fs.Path(next), err)
		if errors.Is(err, fault.ErrOutcomeUnknown) {
			d.failed = err
		}
		return err
	}
	for _, old := range d.chain[len(keep):] {
		d.stale = append(d.stale, old.generation)
	}
	for _, n := range d.stale {
		// The highest generation counts: another one that stays does no harm.
		_ = d.fs.Remove(path.Join(d.dir, Name(n)))
	}
	d.chain, d.stale, d.firm = append(slices.Clip(keep), l), nil, true
	return nil
}

// settle makes the names of the chain durable. A process that was killed may have left
// it without.
func (d *Dir) settle() error {
	if d.firm {
		return nil
	}
	err := d.fs.SyncDir(d.dir)
	d.firm = err == nil
	return err
}
