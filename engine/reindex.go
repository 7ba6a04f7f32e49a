package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/census"
	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
)

// An index policy changes in one step: the store manifest names the new policy, then
// queries and background work go by it. An index names the policy that it was made
// for. An index for another policy is not used: queries read the documents of its
// file, until a compaction or an index job writes the file anew with an index. An index
// job does that as a trim does (internal/physical), and keeps all versions.

// ErrIndexReplaced says that another policy has replaced the one that a job
// applied.
var ErrIndexReplaced = errors.New("another index policy was set")

// IndexJob applies an index policy to the files that a container has. After a cancel,
// files that have no index for the policy yet get one when a compaction writes them anew,
// by Compact, or after the store was opened again. The job's error may be ErrIndexReplaced, or
// ErrCorrupt if all files have an index but for damaged ones. It is safe for concurrent
// use.
type IndexJob struct {
	job[IndexProgress]
	c *Container
}

// IndexProgress tells how far an index job has come.
type IndexProgress struct {
	Files, FilesLeft int   // files to be written, and files left; compactions may change both
	Bytes, BytesLeft int64 // of these files
	Done             bool
}

// indexJobs holds the job under way.
type indexJobs struct {
	lockorder.Mutex[locks.Reindexing]
	job  *IndexJob  // nil: none
	left *partition // that had a file to be written when it was last asked; nil: none was
}

// SetIndexPolicy gives the container another index policy. When it returns, the
// change is durable and queries go by it. Queries give the right answers at all
// times, but read the documents of each file that has no index for the policy yet. The
// job ends when all files have one; after the store is reopened, the work goes on by
// itself. An empty policy ends indexing; compactions free the space of the indexes.
func (c *Container) SetIndexPolicy(ctx context.Context, p IndexPolicy) (*IndexJob, error) {
	db := c.db
	call, err := db.enterWriting(ctx)
	if err != nil {
		return nil, err
	}
	defer call.Leave()
	def := c.def.inner()
	var policy *index.Compiled
	if err = definition.CheckPatterns(index.Policy(p)); err == nil {
		policy, err = def.CompileIndex(index.Policy(p))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: container %q: %w", ErrInvalid, c.name, err)
	}
	j, err := c.replacePolicy(p, policy)
	if err != nil {
		return nil, err
	}
	if db.opts.manual {
		err = c.reindexAll(ctx)
	}
	c.endReindexing()
	db.work.RewriteSoon()
	return j, err
}

// replacePolicy replaces the policy, and the job that applies it, in one step.
func (c *Container) replacePolicy(p IndexPolicy, policy *index.Compiled) (*IndexJob, error) {
	c.reindexing.Lock()
	defer c.reindexing.Unlock()
	if err := c.storePolicy(p, policy); err != nil {
		return nil, err
	}
	j := &IndexJob{c: c}
	files, bytes, _ := c.stale()
	j.begin(c.db, IndexProgress{Files: files, Bytes: bytes})
	j.watch("index job", c.name)
	context.AfterFunc(j.ctx, func() { j.end(j.ctx.Err()) })
	if old := c.reindexing.job; old != nil {
		old.finish(ErrIndexReplaced)
	}
	c.reindexing.job = j
	return j, nil
}

// storePolicy makes a policy durable, then puts it into use.
func (c *Container) storePolicy(p IndexPolicy, policy *index.Compiled) error {
	err := c.change(func(m *manifest.Container) error { m.Index = definition.StoredIndex(index.Policy(p)); return nil })
	if err == nil {
		c.family.Indexing.Store(policy)
	}
	return err
}

// Progress tells how far the job has come.
func (j *IndexJob) Progress() IndexProgress {
	p := j.told()
	if p.Done = j.ended(); p.Done {
		return p
	}
	if call, err := j.c.enter(context.Background()); err == nil {
		p.FilesLeft, p.BytesLeft, _ = j.c.stale()
		call.Leave()
	}
	p.Files, p.Bytes = max(p.Files, p.FilesLeft), max(p.Bytes, p.BytesLeft)
	return p
}

// finish ends the job.
func (j *IndexJob) finish(err error) {
	_ = j.end(err)
	j.cancel()
}

// reindexes says whether the background writes files anew for the present policy: not
// after its job was cancelled.
func (c *Container) reindexes() bool {
	c.reindexing.Lock()
	defer c.reindexing.Unlock()
	j := c.reindexing.job
	return j == nil || !j.ended() || !errors.Is(j.err, context.Canceled)
}

// endReindexing ends the job under way if no file is left to be written, or if the
// container was dropped. Each partition without such a file calls it: it asks first the one that had some.
func (c *Container) endReindexing() {
	c.reindexing.Lock()
	defer c.reindexing.Unlock()
	j := c.reindexing.job
	if j == nil || j.ended() {
		return
	}
	if c.dropped.Load() {
		j.finish(c.gone())
		return
	}
	if left := c.reindexing.left; left != nil && !left.Dropped.Load() {
		if files, _, _ := left.stale(); files > 0 {
			return
		}
	}
	var damage error
	for _, p := range c.routing.Load().parts {
		files, _, why := p.stale()
		if files > 0 {
			c.reindexing.left = p
			return
		}
		damage = cmp.Or(damage, why)
	}
	j.finish(damage)
}

// stale returns how many files have no index for the present policy, and their bytes.
// Files that are set aside are not counted, as they cannot be written anew: damage is that
// of one that needs an index, nil if there is none.
func (c *Container) stale() (files int, bytes int64, damage error) {
	for _, p := range c.routing.Load().parts {
		n, size, why := p.stale()
		files, bytes, damage = files+n, bytes+size, cmp.Or(damage, why)
	}
	return files, bytes, damage
}

// stale is Container.stale of one partition.
func (p *partition) stale() (files int, bytes int64, damage error) {
	policy := p.c.family.Indexing.Load()
	if policy == nil {
		return 0, 0, nil
	}
	v, release := p.PinVersion()
	defer release()
	files, bytes, damage = census.Stale(v, policy)
	if damage != nil {
		damage = fmt.Errorf("index of partition %d: a file is set aside: %w", p.ID, damage)
	}
	return files, bytes, damage
}

// reindexOne writes anew one file of a partition that has no index for the policy of
// its container. done is false if there is no such file or, without wait, if a compaction
// runs in the partition. It gives way to splits as TrimOne does.
func (p *partition) reindexOne(ctx context.Context, wait bool) (done bool, err error) {
	policy := p.c.family.Indexing.Load()
	if policy == nil || !wait && !p.c.reindexes() {
		return false, nil
	}
	return p.InTurn(ctx, wait, func() (bool, error) {
		done, err := p.RewriteFile(ctx, physical.Reindex, nil, func(f *lsm.File) bool { return f.StaleFor(policy) })
		moved := err == lsm.ErrMoved
		if !done && (err == nil || moved) {
			p.c.endReindexing()
		}
		if moved && !wait {
			err = nil
		}
		return done, err
	})
}

// reindexAll writes all files of the container that need it.
func (c *Container) reindexAll(ctx context.Context) error {
	for _, p := range c.routing.Load().parts {
		if err := p.rewriteAll(ctx, p.reindexOne); err != nil {
			return err
		}
	}
	return nil
}
