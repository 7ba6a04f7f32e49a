package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/synthetickey"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Options are the options of LogicalPartition. Nil means none.
type Options struct {
	// Replace allows the restore to delete and to overwrite items that the container has
	// now: afterwards it has those of the backup and no others. Without it the restore fails
	// with ErrExists, and writes nothing, if the container has an item that the backup does
	// not have, or has with other content.
	Replace bool
	// DryRun compares and counts, and writes nothing. Result then says what would be done.
	DryRun bool
	// TempDir is the directory below which the temporary store is made. It needs the space
	// of the segment files that may have items of the logical partition, and that of the
	// log records of the backup. They have what was in memory in the store, of all containers,
	// and are read into memory again, without a bound. "": os.TempDir.
	TempDir string
	// Progress, if not nil, is called on the goroutine of the caller, after about each
	// mebibyte of the backup and after each transaction.
	Progress func(Progress)
	// Now is the clock of the store, for tests with one of their own. What has expired by
	// the clock of the system is left out as well. Nil: time.Now.
	Now func() time.Time
}

// Progress tells how far a restore has come.
type Progress struct {
	BackupBytes int64 // read from the backup
	Items       int64 // written or deleted so far
	Total       int64 // items that differ; 0 until they are counted
}

// Result says what a restore has done or, with Options.DryRun, would do. It is also filled
// when an error ends a restore of several transactions: with what was done until then.
type Result struct {
	Items     int64 `json:"items"`     // of the backup; what has expired since is left out
	Created   int64 `json:"created"`   // items of the backup that the container did not have
	Replaced  int64 `json:"replaced"`  // items that the container had with other content or expiry
	Deleted   int64 `json:"deleted"`   // items that the backup does not have
	Unchanged int64 `json:"unchanged"` // items that were equal: they keep their etags
	Bytes     int64 `json:"bytes"`     // of the documents that were written
	// Atomic says that all changes fit into one transaction, which readers see as a whole. After
	// a restore: that it was one.
	Atomic bool `json:"atomic"`
}

// changes is how many items differ.
func (r *Result) changes() int64 { return r.Created + r.Replaced + r.Deleted }

// LogicalPartition makes a logical partition of a container what it is in a backup: the full
// backup that r holds and the incremental ones, if any, that follow it in r, as for
// engine.Restore. The backup may be of another store. It must have a container with the same
// name, kind and partition key, and at least one item of the key; to delete a logical
// partition there is Container.DeleteLogicalPartition.
//
// What is restored are new writes: they have new etags, sequences and times, change feeds
// show them, and throughput is consumed; where that is limited the restore waits. Items
// keep the time at which they expire, to the second. With MutableTTL in both containers that is
// the time under the present default of the container, not under that of the backup. Limits of
// the logical partition are not changed. The package document says what a crash leaves, and that the same call completes a
// restore that was broken off.
//
// Errors, beside those of Update: ErrExists, ErrNotFound if the backup has no item of the key,
// ErrNoContainer, ErrInvalid if the containers do not match, *ConflictError, those of
// engine.Restore about the backup, and ErrConflict if another writer changes an item that is
// restored again and again, or the default time to live meanwhile.
func LogicalPartition(ctx context.Context, c *engine.Container, key engine.PartitionKey, r io.Reader, o *Options) (Result, error) {
	s := session{ctx: ctx, to: c, key: key}
	if o != nil {
		s.o = *o
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if err := s.run(r); err != nil {
		return s.result, fmt.Errorf("restore of partition key %s of container %q: %w", key, c.Name(), err)
	}
	return s.result, nil
}

// session is a restore under way. It is for one goroutine.
type session struct {
	ctx       context.Context
	o         Options
	to        *engine.Container
	key       engine.PartitionKey
	random    bool              // documents do not tell the suffix of their key, so none is upserted
	from      *engine.Container // of the temporary store
	result    Result
	progress  Progress
	ttl       time.Duration   // the DefaultTTL of the container
	follows   bool            // in both containers items follow the default: both go by ttl
	differing int64           // items that differed when they were compared
	highest   string          // id of the last item then
	evicted   map[string]bool // ids that were deleted to be written again
}

// run does the steps of the package document.
func (s *session) run(r io.Reader) (err error) {
	def := s.to.Def()
	switch {
	case r == nil:
		return fmt.Errorf("%w: no reader of a backup is given", engine.ErrInvalid)
	case !s.key.Valid():
		return fmt.Errorf("%w: the partition key is not valid", engine.ErrInvalid)
	case def.Replicated:
		return engine.ErrReplicated
	}
	s.ttl = def.DefaultTTL
	s.random = def.Synthetic != nil && def.Synthetic.Suffixes > 0 && def.Synthetic.SuffixOf == ""
	if def.HashVersion == 1 {
		s.key = s.key.OfVersion(1)
	} else {
		s.key = s.key.OfVersion(2)
	}
	if _, err = s.to.Usage(s.ctx, s.key, nil); err != nil { // before the backup is read
		return err
	}
	dir, err := os.MkdirTemp(s.o.TempDir, "cleave-restore-*")
	if err != nil {
		return err
	}
	defer func() {
		if removeErr := os.RemoveAll(dir); err == nil {
			err = removeErr
		}
	}()
	db, err := s.extract(dir, r)
	if err != nil {
		return err
	}
	defer func() { // before the directory is removed
		if closeErr := db.Close(); err == nil {
			err = closeErr
		}
	}()
	if s.from, err = db.Container(s.to.Name()); err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	if err = match(s.from.Def(), def); err != nil {
		return err
	}
	s.follows = def.MutableTTL && s.from.Def().MutableTTL
	bytes, err := s.compare()
	if err != nil {
		return err
	}
	switch found := &s.result; {
	case found.Items == 0:
		return fmt.Errorf("%w: the backup has no item of this key that has not expired", engine.ErrNotFound)
	case !s.o.Replace && found.Replaced+found.Deleted > 0:
		if !s.o.DryRun {
			return existing(found.Replaced, found.Deleted)
		}
	}
	s.result.Atomic = s.result.changes() <= int64(def.Limits.BatchOperations) && bytes <= def.Limits.BatchBytes
	if s.o.DryRun || s.result.changes() == 0 {
		return nil
	}
	return s.write()
}

// existing is the error of a restore that may not replace what is there.
func existing(replaced, deleted int64) error {
	return fmt.Errorf("%w: %d items have other content than in the backup and %d are not in it: only a restore with Replace overwrites and deletes",
		engine.ErrExists, replaced, deleted)
}

// extract does step 1, and opens the temporary store.
func (s *session) extract(dir string, r io.Reader) (*engine.DB, error) {
	fsys, err := vfs.CreateRoot(dir)
	if err != nil {
		return nil, err
	}
	if c, ok := fsys.(io.Closer); ok {
		defer c.Close()
	}
	const name = "store"
	input := &counted{Reader: r, s: s}
	if named, ok := r.(interface{ Name() string }); ok {
		input.name = named.Name()
	}
	place := backup.Place{Container: s.to.Name(), At: s.key.EPK()}
	if s.to.Def().MutableTTL {
		ttl := s.ttl
		if ttl == engine.NoExpiry {
			ttl = unsaid
		}
		place.DefaultTTL = new(definition.Millis(ttl))
	}
	if err = backup.RestorePlace(s.ctx, fsys, name, input, place); err != nil {
		return nil, err
	}
	return engine.Open(s.ctx, filepath.Join(dir, name), &engine.Options{ReadOnly: true, RefuseDamaged: true})
}

// counted counts what is read of the backup.
type counted struct {
	io.Reader
	s    *session
	name string
	told int64
}

// Name names the input in errors.
func (c *counted) Name() string {
	if c.name == "" {
		return "backup"
	}
	return c.name
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.s.progress.BackupBytes += int64(n); c.s.progress.BackupBytes-c.told >= 1<<20 || err == io.EOF {
		c.told = c.s.progress.BackupBytes
		c.s.tell()
	}
	return n, err
}

func (s *session) tell() {
	if s.o.Progress != nil {
		s.o.Progress(s.progress)
	}
}

// match says why items of one container cannot be written to the other.
func match(from, to engine.ContainerDef) error {
	differ := func(what string, from, to any) error {
		return fmt.Errorf("%w: the containers differ: %s is %v in the backup, %v in the store", engine.ErrInvalid, what, from, to)
	}
	switch {
	case from.Kind != to.Kind:
		return differ("the kind", from.Kind, to.Kind)
	case len(from.PartitionKey) != len(to.PartitionKey) || to.Kind == engine.JSON && !jsondoc.SamePaths(from.PartitionKey, to.PartitionKey):
		return differ("the partition key", from.KeyText(), to.KeyText())
	case from.HashVersion != to.HashVersion:
		return differ("HashVersion", from.HashVersion, to.HashVersion)
	case !(*synthetickey.Rule)(from.Synthetic).Equal((*synthetickey.Rule)(to.Synthetic)):
		return differ("the synthetic partition key", from.KeyText(), to.KeyText())
	case from.DefaultTTL != 0 && to.DefaultTTL == 0:
		return differ("DefaultTTL, without which nothing expires,", from.DefaultTTL, to.DefaultTTL)
	}
	return nil
}

// patiently calls do again while it is refused because throughput is consumed.
func (s *session) patiently(do func() error) error {
	for {
		err := do()
		throttled, ok := errors.AsType[*engine.ThrottledError](err)
		if !ok {
			return err
		}
		timer := time.NewTimer(throttled.RetryAfter)
		select {
		case <-s.ctx.Done():
			timer.Stop()
			return s.ctx.Err()
		case <-timer.C:
		}
	}
}
