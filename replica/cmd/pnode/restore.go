package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/transfer"
	"github.com/cleavestore/cleave/partmap"
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
	target := make(map[string]*cluster.Container)
	for _, t := range b.Containers {
		switch has, failed := cl.Definition(ctx, t.Name); {
		case errors.Is(failed, engine.ErrNoContainer):
			lacks = append(lacks, fmt.Errorf("the cluster has no container %q: pnode container %s %s", t.Name, quote(c.Dir), arguments(&t)))
		case failed != nil:
			return failed
		default:
			target[t.Name] = &has
			lacks = append(lacks, c.compare(&t, &has))
		}
	}
	if err = errors.Join(lacks...); err != nil {
		return err
	}
	total := int64(0)
	for _, g := range b.Groups {
		n, err := c.restore(ctx, cl, &g, target[g.Container])
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

// restore writes what a group has to another cluster.
func (c *restoreCommand) restore(ctx context.Context, cl *client.Client, g *backupGroup, has *cluster.Container) (n int64, err error) {
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
	return c.copy(ctx, cl, file, has)
}

// restoreTime bounds how long one write is tried.
const restoreTime = time.Minute

// copy writes all items of a group to a container of the cluster, and returns how many they were.
func (c *restoreCommand) copy(ctx context.Context, cl *client.Client, file io.Reader, has *cluster.Container) (n int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var tasks sync.WaitGroup
	places := make(chan struct{}, max(c.Writes, 1))
	for it, failed := range saved(ctx, file, has) {
		if failed != nil {
			cancel(failed)
			break
		}
		n++
		places <- struct{}{}
		tasks.Go(func() {
			defer func() { <-places }()
			each, end := context.WithTimeout(ctx, restoreTime)
			defer end()
			if err := decided(func() error {
				_, err := cl.Batch(each, has.Name, it.key, it.write)
				return err
			}); err != nil {
				cancel(fmt.Errorf("item %q: %w", it.id, err))
			}
		})
	}
	tasks.Wait()
	return n, context.Cause(ctx)
}

// decided repeats a write until its results are known. It may have been refused, and once more does no harm.
func decided(write func() error) error {
	for {
		if err := write(); !errors.Is(err, client.ErrResults) {
			return err
		}
	}
}

// savedItem is an item of a backup, and the write that brings it into a container.
type savedItem struct {
	key   engine.PartitionKey
	id    string
	write raftcommand.Operation
}

// saved returns the items of a group that had not expired by its newest entry, for a container that has the default time to live of
// theirs.
func saved(ctx context.Context, file io.Reader, has *cluster.Container) iter.Seq2[savedItem, error] {
	return func(yield func(savedItem, error) bool) {
		source, err := transfer.NewReader(file)
		if err != nil {
			yield(savedItem{}, err)
			return
		}
		past := source.Head.Past()
		for op := new(logrecord.Operation); ; {
			if err = source.Next(ctx, op); err == io.EOF {
				return
			}
			if err != nil {
				yield(savedItem{}, err)
				return
			}
			v := &op.Version
			if v.Flags == item.Claim || past.Gone(v) {
				continue // the write of an item makes its claims
			}
			if !yield(savedItem{
				key: partmap.FromTrusted(bytes.Clone(op.Key.PK)), id: string(op.Key.ID),
				write: raftcommand.Operation{Kind: raftcommand.Upsert, Body: bytes.Clone(v.Body), TTL: timeToLive(v, &source.Head, has)},
			}, nil) {
				return
			}
		}
	}
}

// timeToLive returns the time to live of an item that its write has said: without it the item would go by its document and the
// default of the container. 0: it does.
func timeToLive(v *item.Version, from *transfer.Head, has *cluster.Container) time.Duration {
	switch {
	case has.DefaultTTL == 0 && !has.MutableTTL:
		return 0 // no item expires there, and a write that says a time would be refused
	case from.Mutable && v.Expires == 0:
		return 0
	case from.Mutable && v.Expires == lifetime.Never:
		return engine.NoExpiry
	case from.Mutable: // a time of its own, by the write or by the document
		return time.Duration(v.Expires-v.Modified) * time.Millisecond
	case from.TTL == 0:
		return 0
	}
	said := max(from.TTL, 0) // in milliseconds; 0: for ever
	jsondoc.Members(v.Body, func(name []byte, value jsondoc.Value) {
		if string(name) != "ttl" || value.Kind != jsondoc.KindNumber {
			return
		}
		if s, err := strconv.ParseFloat(string(value.Text), 64); err == nil {
			said = int64(max(s, 0) * 1000)
		}
	})
	switch {
	case v.Expires == 0 && said == 0, v.Expires != 0 && said != 0 && v.Expires == v.Modified+said:
		return 0
	case v.Expires == 0:
		return engine.NoExpiry
	}
	return time.Duration(v.Expires-v.Modified) * time.Millisecond
}
