package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	raftcommand "github.com/cleavestore/cleave/replica/command"
)

type restoreCommand struct {
	Backup string `arg:"" help:"Directory that backup has made."`
	Dir    string `arg:"" help:"Directory of another cluster, which runs and has the containers, with the same keys, unique keys and default times to live."`
	Writes int    `help:"Writes at once." default:"32"`
}

// Run implements the command.
func (c *restoreCommand) Run(ctx context.Context, e *environment) error {
	content, err := os.ReadFile(filepath.Join(c.Backup, backupName))
	if err != nil {
		return fmt.Errorf("%s is no complete backup: %w", c.Backup, err)
	}
	var b backup
	if err = json.Unmarshal(content, &b); err != nil || b.Format != backupFormat {
		return fmt.Errorf("%s: format %d, this program knows %d: %v", filepath.Join(c.Backup, backupName), b.Format, backupFormat, err)
	}
	if err = b.whole(); err != nil {
		return err
	}
	cl, _, err := openClient(c.Dir)
	if err != nil {
		return err
	}
	defer cl.Close()
	cl.Refresh(ctx)
	var lacks []error
	for _, t := range b.Containers {
		switch has, failed := cl.Definition(ctx, t.Name); {
		case errors.Is(failed, engine.ErrNoContainer):
			lacks = append(lacks, fmt.Errorf("the cluster has no container %q: pnode container %s %s", t.Name, quote(c.Dir), arguments(&t)))
		case failed != nil:
			return failed
		default:
			lacks = append(lacks, c.compare(&t, &has))
		}
	}
	if err = errors.Join(lacks...); err != nil {
		return err
	}
	total := int64(0)
	for _, g := range b.Groups {
		n, err := c.restore(ctx, cl, &b, &g)
		if err != nil {
			return fmt.Errorf("group %d: %w", g.ID, err)
		}
		total += n
		fmt.Fprintf(e.stdout, "group %d of %s: %d items\n", g.ID, g.Container, n)
	}
	fmt.Fprintf(e.stdout, "%d items of %d groups are in %s\n", total, len(b.Groups), c.Dir)
	return nil
}

// compare returns an error if the container of the cluster would keep other items than that of the backup, or others would expire.
func (c *restoreCommand) compare(saved, has *cluster.Container) error {
	sameKeys := jsondoc.SamePaths(saved.PartitionKey, has.PartitionKey) && slices.EqualFunc(saved.UniqueKeys, has.UniqueKeys, jsondoc.SamePaths)
	switch {
	case sameKeys && saved.DefaultTTL == has.DefaultTTL:
		return nil
	case sameKeys && has.MutableTTL:
		return fmt.Errorf("container %q of the cluster has the default time to live %d, and %d in the backup: pnode ttl %s -- %s %d",
			saved.Name, has.DefaultTTL, saved.DefaultTTL, quote(c.Dir), quote(saved.Name), saved.DefaultTTL)
	}
	return fmt.Errorf("container %q of the cluster has another definition, %s. Drop it, and: pnode container %s %s",
		saved.Name, arguments(has), quote(c.Dir), arguments(saved))
}

// arguments returns how a container is written for pnode container, for a shell.
func arguments(t *cluster.Container) string {
	name, out := quote(fmt.Sprintf("%s:%s:%d", t.Name, jsondoc.JoinPaths(t.PartitionKey), t.Partitions)), ""
	if policy, err := json.Marshal(t.Index); err == nil && string(policy) != "{}" {
		out += " --index " + quote(string(policy))
	}
	if t.DefaultTTL != 0 {
		out += fmt.Sprint(" --ttl=", t.DefaultTTL)
	}
	for _, paths := range t.UniqueKeys {
		out += " --unique " + quote(jsondoc.JoinPaths(paths))
	}
	if strings.HasPrefix(t.Name, "-") { // it is no flag
		return strings.TrimPrefix(out+" -- "+name, " ")
	}
	return name + out
}

// plain has words that a shell takes as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=-]+$`)

// quote returns a word for a shell.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// restore writes what a group has to another cluster. It reads it in a store of its own, which it
// removes.
func (c *restoreCommand) restore(ctx context.Context, cl *client.Client, b *backup, g *backupGroup) (n int64, err error) {
	file, err := os.Open(filepath.Join(c.Backup, filepath.Base(g.File)))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err = io.Copy(sum, file); err != nil {
		return 0, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != g.SHA256 {
		return 0, fmt.Errorf("%s has the digest %s, not %s: %w", file.Name(), got, g.SHA256, engine.ErrCorrupt)
	}
	if _, err = file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "pnode-restore")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := engine.Open(ctx, dir, &engine.Options{MaxPartitionBytes: -1})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	t, ttl, err := install(ctx, db, b, g, file)
	if err != nil {
		return 0, err
	}
	return c.copy(ctx, cl, t, ttl)
}

// install gives a store what the file of a group has. It returns the container, and the default time to live by which the group
// went: that of the container can have changed since the group began.
func install(ctx context.Context, db *engine.DB, b *backup, g *backupGroup, file io.Reader) (*engine.Container, time.Duration, error) {
	var def engine.ContainerDef
	for _, t := range b.Containers {
		if t.Name == g.Container {
			def = t.Def()
		}
	}
	def.MinPartitions = 1
	t, err := db.EnsureContainer(ctx, g.Container, def)
	if err != nil {
		return nil, 0, err
	}
	for _, at := range []string{g.Min, g.Max} {
		if err = cutAt(ctx, t, at); err != nil {
			return nil, 0, err
		}
	}
	got, err := t.InstallPartition(ctx, file)
	if err != nil {
		return nil, 0, err
	}
	rule, err := t.AppliedTTL(got.Partition)
	return t, rule.TTL, err
}

// cutAt splits the partition that has a boundary inside of it; there is none at the ends of all.
func cutAt(ctx context.Context, t *engine.Container, at string) error {
	for _, p := range t.Partitions() {
		if p.Min < at && at < p.Max {
			job, err := t.Split(ctx, p.ID, &engine.SplitOptions{At: at})
			if err != nil {
				return err
			}
			return job.Wait(ctx)
		}
	}
	return nil
}

// restoreTime bounds how long one write is tried.
const restoreTime = time.Minute

// copy writes all items of a container to the cluster, and returns how many they were.
func (c *restoreCommand) copy(ctx context.Context, cl *client.Client, t *engine.Container, defaultTTL time.Duration) (n int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var tasks sync.WaitGroup
	places := make(chan struct{}, max(c.Writes, 1))
	for it, failed := range t.ScanAll(ctx, nil) {
		if failed != nil {
			cancel(failed)
			break
		}
		n++
		op := raftcommand.Operation{Kind: raftcommand.Upsert, Body: slices.Clone(it.Body), TTL: lifetime(&it, defaultTTL)}
		places <- struct{}{}
		tasks.Go(func() {
			defer func() { <-places }()
			each, end := context.WithTimeout(ctx, restoreTime)
			defer end()
			_, err := cl.Batch(each, t.Name(), it.Key, op)
			if err != nil && !errors.Is(err, client.ErrResults) {
				cancel(fmt.Errorf("item %q: %w", it.ID, err))
			}
		})
	}
	tasks.Wait()
	return n, context.Cause(ctx)
}

// lifetime returns the time to live of an item that neither its document nor the default of its container says, since the write
// of it has said it: without it the item would live for ever, or would be gone too early. 0: they say it.
func lifetime(it *engine.Item, defaultTTL time.Duration) time.Duration {
	if defaultTTL == 0 {
		return 0 // no item expires there
	}
	said := max(defaultTTL, 0) // 0: for ever
	jsondoc.Members(it.Body, func(name []byte, v jsondoc.Value) {
		if string(name) != "ttl" || v.Kind != jsondoc.KindNumber {
			return
		}
		if s, err := strconv.ParseFloat(string(v.Text), 64); err == nil {
			said = time.Duration(max(s, 0) * float64(time.Second))
		}
	})
	switch {
	case it.Expires.IsZero() && said == 0, !it.Expires.IsZero() && said != 0 && it.Expires.Equal(it.Modified.Add(said)):
		return 0
	case it.Expires.IsZero():
		return engine.NoExpiry
	}
	return it.Expires.Sub(it.Modified)
}
