package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/pairs"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/settings"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/survey"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

type infoCommand struct {
	target
	Count bool `help:"Read all documents to count them exactly; without it only if they are fewer than 256 MiB."`
}

// Help returns the long help text.
func (*infoCommand) Help() string {
	return `Shows what a store holds. A number after ≤ is an upper bound: documents that were overwritten or deleted count until a compaction drops them. --count makes it exact. Of a container with a change retention it says how far back the feed of all versions goes. What containers keep that is dead otherwise, and files that merges have replaced and that are there yet, are named. Where documents cannot be read the bounds are printed, and then the error; a store that is damaged so that it cannot be opened is shown as by pinspect tree.

Examples:
  pinspect DIR
  pinspect info DIR --count
  pinspect info DIR --json | jq .containers[].documents`
}

// infoReport is what info prints.
type infoReport struct {
	header
	Directory  string          `json:"directory"`
	StoreID    manifest.ID     `json:"store_id"`
	Format     int             `json:"format"`
	Generation uint64          `json:"manifest_generation"`
	Clean      bool            `json:"clean"`
	Owner      string          `json:"owner,omitempty"` // note of the process that has it open for writing, or had and did not close it
	LastSeq    uint64          `json:"last_seq"`
	Dropped    *wal.Dropped    `json:"log_dropped,omitempty"` // behind the end of the log: torn, or being written
	Documents  int64           `json:"documents"`
	Logical    int64           `json:"logical_partitions"`
	Exact      bool            `json:"exact"`
	RawBytes   int64           `json:"raw_bytes"`
	Disk       layout.Space    `json:"disk_bytes"`
	Obsolete   int64           `json:"obsolete_bytes"`    // of segment files that compactions have replaced and that are there yet
	Holders    []engine.Holder `json:"holders,omitempty"` // what containers keep that is dead otherwise
	Process    processFiles    `json:"process"`
	Containers []containerInfo `json:"containers"`
	Damage     []damageInfo    `json:"damage,omitempty"` // parts that cannot be read
}

// diskByRaw compares what a store takes with its documents. The log and the manifests of a
// small store are larger than its documents, and hardly grow with them: there is nothing to compare.
func diskByRaw(disk layout.Space, raw int64) string {
	if fixed := disk.Total - disk.Segments; fixed > raw {
		return fmt.Sprintf("-, log and other files, %s, are larger than the documents", humanize.Bytes(fixed))
	}
	return formatRatio(disk.Total, raw)
}

// processFiles is how many segment files the process has open and mapped that looks at
// the store, and may have.
type processFiles struct {
	Open      int `json:"open_files"`
	MaxOpen   int `json:"max_open_files"`
	Mapped    int `json:"mapped_files"`
	MaxMapped int `json:"max_mapped_files"`
}

// containerInfo is a container in infoReport.
type containerInfo struct {
	Name         string   `json:"name"`
	Kind         string   `json:"kind"`
	PartitionKey []string `json:"partition_key"` // see keyPaths
	Compression  string   `json:"compression"`
	Physical     int      `json:"physical_partitions"`
	Logical      int64    `json:"logical_partitions"`
	Documents    int64    `json:"documents"`
	Exact        bool     `json:"exact"` // documents, logical partitions and raw bytes
	RawBytes     int64    `json:"raw_bytes"`
	FileBytes    int64    `json:"file_bytes"`
	Unflushed    int64    `json:"unflushed_bytes"` // of memtables: in the log and not in files
	Runs         int      `json:"runs"`
	Files        int      `json:"files"`

	Changes *layout.FeedHistory `json:"changes,omitempty"` // if it has a change retention

	settings.Settings
}

// Run runs the command.
func (c *infoCommand) Run(ctx context.Context, env *environment, out *output) error {
	f, err := layout.Open(c.Dir)
	if err != nil {
		return err
	}
	defer f.Close()
	db, err := openStore(ctx, c.Dir)
	if errors.Is(err, errDamaged) {
		return showDamaged(ctx, f, nil, c.JSON, out, err)
	}
	if err != nil {
		return err
	}
	defer db.Close()
	report, damage, err := c.collect(ctx, env, f, db)
	if err != nil {
		return err
	}
	if c.JSON {
		err = out.object(report)
	} else {
		report.print(out)
	}
	return errors.Join(err, damage)
}

// collect describes the store. damage is why documents could not be counted:
// then there are bounds.
func (c *infoCommand) collect(ctx context.Context, env *environment, f *layout.Files, db *engine.DB) (r *infoReport, damage, err error) {
	l, err := f.ReadLayout(ctx, layout.Properties, nil)
	if err != nil {
		return nil, nil, err
	}
	r = &infoReport{
		header: newHeader("store"), Directory: f.FS.Path("."), StoreID: l.State.StoreID, Format: manifest.StoreFormat(l.State.Containers, l.State.Partitions),
		Generation: l.Generation, Clean: l.State.Clean, Exact: true, Containers: []containerInfo{},
	}
	if !r.Clean {
		r.Owner = owner(f)
	}
	line := env.newLine()
	defer line.Clear()
	stats := db.Stats()
	if stats.Log.Dropped != (wal.Dropped{}) {
		r.Dropped = &stats.Log.Dropped
	}
	r.Process = processFiles{stats.OpenFiles, stats.MaxOpenFiles, stats.MappedFiles, stats.MaxMappedFiles}
	for _, h := range stats.Holders {
		if h.Container != "" { // the others are readers of this process
			r.Holders = append(r.Holders, h)
		}
	}
	for _, cs := range stats.Containers {
		info := describeContainer(&cs, l)
		for _, p := range cs.Partitions {
			r.LastSeq = max(r.LastSeq, p.Visible)
		}
		if !info.Exact && (c.Count || info.RawBytes < survey.CheapBytes) {
			counted, countErr := survey.TakeCensus(ctx, db, &cs, 0, 0, line)
			countErr = readFailure(countErr)
			switch {
			case countErr == nil:
				sum := counted.Total()
				info.Documents, info.Logical, info.RawBytes, info.Exact = sum.Documents, sum.Logical, sum.Bytes, true
			case errors.As(countErr, new(findingError)):
				damage = errors.Join(damage, countErr)
			default:
				return nil, nil, countErr
			}
		}
		r.Documents += info.Documents
		r.Logical += info.Logical
		r.RawBytes += info.RawBytes
		r.Exact = r.Exact && info.Exact
		r.Containers = append(r.Containers, info)
	}
	if l.State.Clean {
		r.LastSeq = l.State.LastSeq
	}
	r.Damage = damageOf(db)
	r.Obsolete = f.Obsolete(l)
	r.Disk, err = f.DiskSpace(ctx)
	return r, damageFailure(r.Damage, damage), err
}

// keyPaths returns the paths of a partition key, one a level; of a synthetic key
// the rule in the place of a path.
func keyPaths(def *engine.ContainerDef) []string {
	if def.Synthetic != nil {
		return []string{def.KeyText()}
	}
	return def.PartitionKey
}

// describeContainer adds up a container as the store has it that is open; only
// how far its change feed goes back comes from the files as they are now. The counts are exact if each
// partition has its items in one place where no item has two versions.
func describeContainer(cs *engine.ContainerStats, l *layout.Store) containerInfo {
	info := containerInfo{
		Name: cs.Name, Kind: cs.Def.Kind.String(), PartitionKey: keyPaths(&cs.Def),
		Physical: len(cs.Partitions), Exact: true, Compression: cs.Def.Compression.String(), Settings: settings.Of(&cs.Def),
	}
	for _, p := range cs.Partitions {
		info.Documents += p.Items
		info.Logical += p.Logical
		info.RawBytes += p.RawBytes
		info.FileBytes += p.FileBytes
		info.Unflushed += p.MemtableBytes
		info.Runs += p.Runs
		info.Files += p.Files
		info.Exact = info.Exact && p.Runs == 0 && p.Memtables == 0
	}
	for _, view := range l.Containers {
		if view.Name == cs.Name {
			info.Changes, info.LimitedKeys = layout.DescribeFeed(&l.State, view), len(view.KeyLimits)
		}
	}
	return info
}

// maxOwnerBytes bounds the note that is read from the lock file.
const maxOwnerBytes = 256

// owner returns what the last writer noted in the lock file. The lock itself
// is not touched.
func owner(f *layout.Files) string {
	note, err := vfs.ReadFile(f.FS, manifest.LockName, maxOwnerBytes)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(note))
}

func (r *infoReport) print(out *output) {
	var p pairs.List
	p.Add("store", printable(r.Directory))
	p.Add("id", fmt.Sprintf("%x", r.StoreID[:]))
	p.Add("format", fmt.Sprintf("%d", r.Format))
	state := "closed cleanly"
	if !r.Clean {
		state = "open, or not closed: the next open replays the log"
		if r.Owner != "" {
			state += " (last writer: " + printable(r.Owner) + ")"
		}
	}
	p.Add("state", state+", last sequence "+humanize.Count(r.LastSeq))
	if d := r.Dropped; d != nil {
		p.Add("end of the log", fmt.Sprintf("torn, or being written: %s (%s) that the next open would drop", humanize.Bytes(d.Bytes), humanize.Plural(d.Records, "record", "records")))
	}
	logical := "logical partitions"
	if r.Logical == 1 {
		logical = "logical partition"
	}
	p.Add("documents", fmt.Sprintf("%s in %s %s, %s",
		formatBound(r.Documents, r.Exact), formatBound(r.Logical, r.Exact), logical, humanize.Bytes(r.RawBytes)))
	disk := fmt.Sprintf("%s: segments %s, log %s, manifests %s", humanize.Bytes(r.Disk.Total),
		humanize.Bytes(r.Disk.Segments), humanize.Bytes(r.Disk.Log), humanize.Bytes(r.Disk.Manifests))
	if r.Disk.Other > 0 {
		disk += ", other " + humanize.Bytes(r.Disk.Other)
	}
	p.Add("on disk", disk)
	if r.Obsolete > 0 {
		p.Add("replaced", humanize.Bytes(r.Obsolete)+" in files that compactions have replaced: somebody reads them, or the next open removes them")
	}
	for _, h := range r.Holders {
		p.Add("kept", printable(h.String()))
	}
	p.Add("segment files", fmt.Sprintf("this process has %s open (%s at most) and %s mapped (%s at most)",
		humanize.Count(r.Process.Open), humanize.Count(r.Process.MaxOpen), humanize.Count(r.Process.Mapped), humanize.Count(r.Process.MaxMapped)))
	if r.RawBytes > 0 {
		p.Add("disk / raw", diskByRaw(r.Disk, r.RawBytes))
	}
	p.Print(out.w)
	printDamage(out, r.Damage, maxInfoContainers)
	if len(r.Containers) == 0 {
		out.printf("\nno containers\n")
		return
	}
	var largest int64
	for _, c := range r.Containers {
		largest = max(largest, c.FileBytes)
	}
	t := cli.NewTable("<container", "<kind", "<partition key", "<compression", "physical", "logical", "documents", "raw", "in files", "files/raw", "not flushed", "<")
	for i, c := range r.Containers {
		if i == maxInfoContainers {
			break
		}
		t.Row(printable(c.Name), c.Kind, printable(jsondoc.JoinPaths(c.PartitionKey)), c.Compression,
			humanize.Count(c.Physical), formatBound(c.Logical, c.Exact), formatBound(c.Documents, c.Exact), humanize.Bytes(c.RawBytes),
			humanize.Bytes(c.FileBytes), formatRatio(c.FileBytes, c.RawBytes), humanize.Bytes(c.Unflushed), chart.Bar(c.FileBytes, largest, 16))
	}
	out.printf("\n")
	t.Print(out.w, "")
	for i, c := range r.Containers {
		if text := c.Settings.Text(); text != "" && i < maxInfoContainers {
			out.printf("settings of %s: %s\n", printable(c.Name), text)
		}
		if c.Changes != nil && i < maxInfoContainers {
			out.printf("changes of %s: %s\n", printable(c.Name), c.Changes.Text())
		}
	}
	if more := len(r.Containers) - maxInfoContainers; more > 0 {
		out.printf("and %d more; see pinspect tree\n", more)
	}
}

// maxInfoContainers keeps the output on one screen.
const maxInfoContainers = 25
