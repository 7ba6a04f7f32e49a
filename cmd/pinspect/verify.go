package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/wal"
)

type verifyCommand struct {
	target
}

// Help returns the long help text.
func (*verifyCommand) Help() string {
	return `Reads the whole store: the manifests; of each segment file the checksum of every byte, the order of items, their place in the range of the partition, every locator entry, and its index against the documents, both ways; of the log every record; files that nothing names; and at last whether the store opens. Each finding names file, offset and what is wrong. Beside a live writer it checks the files that the store has when each partition is reached.

Exit status: 0 nothing is wrong, 1 findings, 3 the store cannot be verified (no store, no permission, a newer format), 130 interrupted: the findings until then are printed.

Examples:
  pinspect verify DIR
  pinspect verify DIR --json | jq 'select(.type=="finding")'`
}

// findingRow is a finding as it is printed.
type findingRow struct {
	header
	layout.Finding
}

// verifySummary is the last line.
type verifySummary struct {
	header
	Findings   int     `json:"findings"`
	Partitions int     `json:"partitions"`
	Segments   int     `json:"segments"`
	Items      uint64  `json:"items"` // versions in the segments, each file counted once and whole
	Bytes      int64   `json:"bytes"` // of segments and log that were read
	LogRecords int64   `json:"log_records"`
	TornBytes  int64   `json:"log_torn_bytes"`
	Seconds    float64 `json:"seconds"`
}

// Run runs the command.
func (c *verifyCommand) Run(ctx context.Context, env *environment, out *output) error {
	f, err := layout.Open(c.Dir)
	if err != nil {
		return err
	}
	defer f.Close()
	v := &verifier{ctx: ctx, files: f, dir: c.Dir, line: env.newLine(), out: out, json: c.JSON, seen: make(map[layout.Finding]bool)}
	defer v.line.Clear()
	start := time.Now()
	if err := v.run(); err != nil {
		return err
	}
	v.line.Clear()
	s := &v.sum
	s.header, s.Seconds = newHeader("summary"), time.Since(start).Seconds()
	if c.JSON {
		if err := out.object(s); err != nil {
			return err
		}
	} else {
		s.print(out)
	}
	if s.Findings > 0 {
		return errFound
	}
	return nil
}

func (s *verifySummary) print(out *output) {
	verdict := "clean"
	if s.Findings > 0 {
		verdict = humanize.Plural(s.Findings, "finding", "findings")
	}
	out.printf("%s: %s, %s, %s, %s; log: %s", verdict, humanize.Plural(s.Partitions, "partition", "partitions"),
		humanize.Plural(s.Segments, "segment", "segments"), humanize.Plural(s.Items, "version", "versions"), humanize.Bytes(s.Bytes), humanize.Plural(s.LogRecords, "record", "records"))
	if s.TornBytes > 0 {
		out.printf(", %s torn at its end", humanize.Bytes(s.TornBytes))
	}
	out.printf("; %.1f s\n", s.Seconds)
}

// verifier is a verification under way.
type verifier struct {
	ctx   context.Context
	files *layout.Files
	dir   string
	line  *cli.Line
	out   *output
	json  bool
	err   error // of the output
	seen  map[layout.Finding]bool
	sum   verifySummary
	read  map[fileID]readFile // partitions share files
}

// fileID tells files apart. An inode alone does not: beside a writer it may
// have been that of a file which is gone.
type fileID struct {
	inode, number uint64
	footerCRC     uint32
}

func idOf(s *layout.Segment) fileID { return fileID{s.Inode, s.Ref.Number, s.Ref.FooterCRC} }

// readFile is a file that was read by one of its names.
type readFile struct {
	name    string
	damaged bool
}

// maxRemembered bounds the findings that are remembered to report each once.
const maxRemembered = 100_000

func (v *verifier) report(f layout.Finding) {
	if v.seen[f] {
		return
	}
	if len(v.seen) < maxRemembered {
		v.seen[f] = true
	}
	v.sum.Findings++
	v.line.Clear()
	var err error
	if v.json {
		err = v.out.object(&findingRow{newHeader("finding"), f})
	} else {
		_, err = fmt.Fprintln(v.out.w, f)
	}
	if v.err == nil {
		v.err = err
	}
}

// run verifies the store. An error says that it cannot be verified.
func (v *verifier) run() error {
	l, err := v.structure()
	if err != nil || l == nil {
		return err
	}
	for _, problem := range l.Problems {
		v.report(problem)
	}
	v.strangers()
	for _, c := range l.Containers {
		for _, p := range c.Partitions {
			if err := v.partition(l, p); err != nil {
				return err
			}
		}
	}
	if err := v.log(); err != nil {
		return err
	}
	if v.sum.Findings == 0 {
		if err := v.opens(); err != nil {
			return err
		}
	}
	if v.err != nil {
		return v.err
	}
	return v.ctx.Err()
}

// structure reads the store manifest. A damaged or lost one is a finding, and
// the layout nil: nothing else can be believed.
func (v *verifier) structure() (*layout.Store, error) {
	l, err := v.files.ReadStructure(v.ctx)
	if errors.Is(err, engine.ErrCorrupt) && !errors.Is(err, engine.ErrNotStore) || errors.Is(err, layout.ErrNoManifest) {
		v.report(v.files.FindingOf(".", err))
		return nil, nil
	}
	return l, err
}

// strangers reports names in the directories of the store that are none of its
// own.
func (v *verifier) strangers() {
	bases, err := v.files.FS.List(manifest.PartitionsDir)
	if err != nil {
		v.report(v.files.FindingOf(manifest.PartitionsDir, err))
		return
	}
	for _, base := range bases {
		if _, ok := manifest.ParsePartitionDir(base); !ok {
			v.report(v.files.Finding(path.Join(manifest.PartitionsDir, base), -1, "not a partition of this store"))
		}
	}
	bases, err = v.files.FS.List(manifest.LogDir)
	if err != nil {
		v.report(v.files.FindingOf(manifest.LogDir, err))
		return
	}
	for _, base := range bases {
		if _, ok := wal.ParseFileName(base); !ok && path.Ext(base) != ".spare" && path.Ext(base) != manifest.TempSuffix {
			v.report(v.files.Finding(path.Join(manifest.LogDir, base), -1, "not a file of the log"))
		}
	}
}

// partition verifies a physical partition: all its files are opened first, so
// that a writer cannot take them away.
func (v *verifier) partition(l *layout.Store, p *layout.Partition) error {
	defer p.Release()
	err := v.files.ReadPartition(v.ctx, l, p, layout.Readers)
	for attempt := 1; err == layout.ErrReplaced && attempt < layout.MaxAttempts; attempt++ {
		state, generation, loadErr := v.files.LoadStore(v.ctx)
		if loadErr != nil {
			return loadErr
		}
		if !layout.Lists(&state, p.ID) {
			return nil // dropped meanwhile
		}
		l.Generation = generation
		err = v.files.ReadPartition(v.ctx, l, p, layout.Readers)
	}
	if err != nil {
		return err
	}
	v.sum.Partitions++
	for _, problem := range p.Problems {
		v.report(problem)
	}
	for _, run := range p.Runs {
		var before *layout.Segment
		for _, s := range run {
			if s.Problem != nil {
				v.report(*s.Problem)
				continue
			}
			if err := v.segment(l, p, s); err != nil {
				return err
			}
			whole := before != nil && before.Ref.Part == nil && s.Ref.Part == nil
			if whole && item.Compare(&before.Props.Max, &s.Props.Min) >= 0 || before != nil && bytes.Compare(before.Ref.Max, s.Ref.Min) > 0 {
				v.report(v.files.Finding(s.Name, -1, "begins before the end of %s, the file before it in its run", path.Base(before.Name)))
			}
			before = s
		}
	}
	return v.unknown(l, p)
}

// segment verifies a segment file and its reference.
func (v *verifier) segment(l *layout.Store, p *layout.Partition, s *layout.Segment) error {
	v.line.Show(time.Now(), func() string {
		return fmt.Sprintf("%s: %s read, %s", s.Name, humanize.Bytes(v.sum.Bytes), humanize.Plural(v.sum.Findings, "finding", "findings"))
	})
	if before, ok := v.read[idOf(s)]; ok && s.Inode != 0 {
		if before.damaged && before.name != s.Name {
			v.report(v.files.Finding(s.Name, -1, "is the same file as %s, which is damaged", before.name))
		}
	} else if err := v.content(s); err != nil {
		return err
	}
	v.reference(l, p, s)
	s.Reader.Release()
	s.Reader = nil
	return nil
}

// content verifies what is in a file.
func (v *verifier) content(s *layout.Segment) error {
	damaged := false
	err := s.Reader.Verify(v.ctx, func(found segment.Finding) {
		damaged = true
		v.report(v.files.Finding(s.Name, found.Offset, "%s", found.What))
	})
	if v.ctx.Err() != nil {
		return v.ctx.Err()
	}
	if err != nil {
		v.report(v.files.FindingOf(s.Name, err))
	}
	if !damaged && err == nil {
		err = lsm.CheckIndex(v.ctx, s.Reader, func(at int64, what string) {
			damaged = true
			v.report(v.files.Finding(s.Name, at, "%s", what))
		})
		if v.ctx.Err() != nil {
			return v.ctx.Err()
		}
		if err != nil {
			v.report(v.files.FindingOf(s.Name, err))
		}
	}
	if v.read == nil {
		v.read = make(map[fileID]readFile)
	}
	v.read[idOf(s)] = readFile{s.Name, damaged || err != nil}
	v.sum.Segments++
	v.sum.Bytes += s.Ref.Size
	v.sum.Items += s.Props.Items
	return nil
}

// reference checks that a file is the one that the manifest means, and that
// what is in it belongs there. The items lie between the first and the last.
func (v *verifier) reference(l *layout.Store, p *layout.Partition, s *layout.Segment) {
	props := s.Props
	report := func(offset int64, format string, args ...any) {
		v.report(v.files.Finding(s.Name, offset, format, args...))
	}
	if s.Ref.FooterCRC != s.Reader.FooterCRC() {
		report(s.Ref.Size-4, "footer checksum %08x, the manifest says %08x", s.Reader.FooterCRC(), s.Ref.FooterCRC)
	}
	if props.FileNumber != s.Ref.Number {
		report(16, "this is segment file %d", props.FileNumber)
	}
	if props.StoreID != l.State.StoreID {
		report(24, "segment file of another store")
	}
	if props.MaxSeq > p.Files.FlushedSeq {
		report(-1, "holds sequence %d, the partition is flushed up to %d", props.MaxSeq, p.Files.FlushedSeq)
	}
	lo, loErr := partmap.EPKFromBytes(s.Ref.Min)
	hi, hiErr := partmap.EPKFromBytes(s.Ref.Max)
	if err := errors.Join(loErr, hiErr); err != nil {
		report(-1, "bad bounds in the manifest: %v", err)
		return
	}
	if lo.Compare(&p.Range.Min) < 0 || hi.Compare(&p.Range.Max) > 0 {
		report(-1, "reference [%s, %s) goes beyond partition %d", lo.String(), hi.String(), p.ID)
	}
	if s.Ref.Part != nil {
		return // some of its items belong to other partitions
	}
	bounds := partmap.Range{Min: lo, Max: hi}
	for _, key := range []*item.Key{&props.Min, &props.Max} {
		if epk := layout.EPKOf(key); !bounds.Contains(&epk) {
			report(-1, "item with EPK %s lies outside of the reference [%s, %s)", epk.String(), lo.String(), hi.String())
		}
	}
}

// unknown reports files in the directory of a partition that its manifest does
// not name and that no crash leaves there.
func (v *verifier) unknown(l *layout.Store, p *layout.Partition) error {
	if p.Generation == 0 {
		return nil // its manifest cannot be read
	}
	dir := manifest.NewDir(v.files.FS, p.Dir, manifest.PartitionKind)
	for range layout.MaxAttempts {
		m, err := layout.LoadNewest[manifest.Files](v.ctx, dir)
		if err != nil {
			return v.gone(l, p, err)
		}
		names, err := v.files.FS.List(p.Dir)
		if err != nil {
			return v.gone(l, p, err)
		}
		var strange []layout.Finding
		for _, name := range names {
			number, isSegment := manifest.ParseSegmentName(name)
			_, isManifest := manifest.ParseName(name)
			known := isSegment && (m.Lists(number) || m.Disposable(number))
			if !known && !isManifest && !manifest.IsTemp(name) {
				strange = append(strange, v.files.Finding(path.Join(p.Dir, name), -1, "no manifest names this file"))
			}
		}
		if len(strange) > 0 && layout.Replaced(dir, dir.Generation()) {
			continue
		}
		for _, found := range strange {
			v.report(found)
		}
		return nil
	}
	return layout.ErrRestless
}

// gone reports err, which the directory of a partition gave, unless the
// partition was dropped meanwhile.
func (v *verifier) gone(l *layout.Store, p *layout.Partition, err error) error {
	if v.ctx.Err() != nil {
		return v.ctx.Err()
	}
	goneErr := v.files.Gone(v.ctx, l, p)
	if goneErr == nil {
		v.report(v.files.FindingOf(p.Dir, err))
	}
	if goneErr == layout.ErrReplaced {
		goneErr = nil
	}
	return goneErr
}

// opens checks that the store opens: it applies the log's records to the
// partitions, which nothing before did.
func (v *verifier) opens() error {
	db, err := openStore(v.ctx, v.dir)
	if errors.Is(err, errDamaged) {
		v.report(v.files.FindingOf(".", err))
		return nil
	}
	if err != nil {
		return err
	}
	return db.Close()
}
