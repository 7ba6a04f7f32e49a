package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/partmap"
)

type exportCommand struct {
	target
	Container string  `arg:"" help:"Name of the container."`
	Key       *string `arg:"" optional:"" help:"Only this logical partition, as for get."`
	Where     *string `placeholder:"FILTER" help:"Only documents for which this holds, as after WHERE in a query: c.people > 1000."`
	Limit     int     `placeholder:"N" help:"Stop after N documents."`
	Reverse   bool    `help:"From the end."`
	Out       string  `name:"output" short:"o" default:"-" placeholder:"FILE" help:"File to write, which must not exist, compressed if its name ends in .zst; default - is standard output."`
}

// Help returns the long help text.
func (*exportCommand) Help() string {
	return `Prints the documents of a container, one a line, as of one moment, in the order of the key space; those of one logical partition in the order of their ids. pbench load --data reads them back. With --where the order is open, unless the filter ends with ORDER BY; it may end with OFFSET … LIMIT … too, and the lower limit counts. With --json each is wrapped in an object with its key, id, etag and time.

Of a damaged store the rest is printed. What is missing follows on standard error, each with its file, offset and part of the key space, and with --json as a last object; the exit status is 1. Left out are also documents of which a newer version, or a delete, may lie in what is damaged. With --where or --reverse the command ends where it meets damage.

Documents of an opaque container are printed in base64, always wrapped, and cannot be loaded again: backup is for them.

Examples:
  pinspect export DIR cities -o cities.ndjson.zst
  pinspect export DIR cities '"PT"' --limit 10
  pinspect export DIR cities --where "c.population >= 1000000" | jq -r .name
  pinspect export DIR cities | pbench load --db COPY --container cities --partition-key /country_code --data -`
}

// Run runs the command.
func (c *exportCommand) Run(ctx context.Context, env *environment, out *output) (err error) {
	if c.Limit < 0 {
		return cli.Usagef("--limit %d: must not be negative", c.Limit)
	}
	var key partmap.Key
	if c.Key != nil {
		if key, err = command.ParseKey(*c.Key); err != nil {
			return err
		}
	}
	var where engine.Query
	if c.Where != nil {
		if c.Reverse {
			return cli.Usagef("--reverse does not go with --where")
		}
		text := "SELECT * FROM c WHERE " + *c.Where
		if where, err = engine.ParseQuery(text, nil); err != nil {
			return cli.Usagef("--where: %w%s", err, pointer(text, err))
		}
		if c.Limit > 0 && (where.Limit == 0 || c.Limit < where.Limit) {
			where.Limit = c.Limit
		}
	}
	db, container, err := openIn(ctx, c.Dir, c.Container)
	if err != nil {
		return err
	}
	defer db.Close()
	snapshot, err := container.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snapshot.Close()
	var report engine.RepairReport
	items := c.documents(ctx, container, snapshot, key, where, &report)
	if c.Out != "-" {
		var n int64
		err = writeNew(c.Out, func(to io.Writer) (err error) {
			file, end, err := c.documentsInto(to)
			if err != nil {
				return err
			}
			n, err = c.print(env, file, container, items, &report)
			if endErr := end(); err == nil {
				err = endErr
			}
			return err
		})
		if err == nil {
			env.wrote(c.Out, humanize.Plural(n, "document", "documents"))
		}
	} else {
		_, err = c.print(env, out, container, items, &report)
	}
	if err != nil {
		return err
	}
	if len(report.Lost) == 0 {
		return nil
	}
	missing := describeDamage(report.Lost)
	list := &output{w: bufio.NewWriter(env.stderr)}
	printDamage(list, missing, len(missing))
	if report.Uncertain > 0 {
		list.printf("! left out: %s documents that may have a newer version in what is damaged\n", humanize.Count(report.Uncertain))
	}
	return errors.Join(list.w.Flush(), damageFailure(missing, nil))
}

// exportMissing is the last object of an export that is not whole.
type exportMissing struct {
	header
	Uncertain int64        `json:"uncertain"` // documents of which a newer version may be lost
	Lost      []damageInfo `json:"lost"`
}

// documents are those that are wanted. Where they are read past damage the report says
// what is missing.
func (c *exportCommand) documents(
	ctx context.Context, from *engine.Container, s *engine.Snapshot, key partmap.Key, where engine.Query, report *engine.RepairReport,
) iter.Seq2[engine.Item, error] {
	switch {
	case c.Where != nil:
		scope := engine.AllPartitions()
		if key.Valid() {
			scope = engine.PrefixOf(key)
		}
		return s.Query(ctx, scope, where).All()
	case !c.Reverse:
		return from.ScanReadable(ctx, key, report)
	case key.Valid():
		return s.Scan(ctx, key, engine.IDRange{}, &engine.ScanOptions{Limit: c.Limit, Reverse: true})
	}
	return s.ScanAll(ctx, &engine.ScanOptions{Limit: c.Limit, Reverse: true})
}

func (c *exportCommand) print(env *environment, out *output, of *engine.Container, items iter.Seq2[engine.Item, error], report *engine.RepairReport) (n int64, err error) {
	line := env.newLine()
	defer line.Clear()
	kind := of.Def().Kind
	for it, err := range items {
		if err != nil {
			return n, readFailure(err)
		}
		if c.JSON || kind != engine.JSON {
			err = out.object(describeItem(&it, kind))
		} else {
			err = printLine(out, it.Body)
		}
		if err != nil {
			return n, err
		}
		if n++; n%1024 == 0 && c.Out != "-" {
			line.Show(time.Now(), func() string { return c.Container + ": " + humanize.Count(n) + " documents written" })
		}
		if n == int64(c.Limit) {
			break
		}
	}
	if c.JSON && len(report.Lost) > 0 {
		return n, out.object(&exportMissing{header: newHeader("missing"), Uncertain: report.Uncertain, Lost: describeDamage(report.Lost)})
	}
	return n, nil
}

// documentsInto returns an output into a file, compressed if its name says so;
// end writes what is left.
func (c *exportCommand) documentsInto(f io.Writer) (out *output, end func() error, err error) {
	if !strings.HasSuffix(c.Out, ".zst") {
		w := bufio.NewWriterSize(f, 64<<10)
		return &output{w: w}, w.Flush, nil
	}
	z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, nil, err
	}
	w := bufio.NewWriterSize(z, 64<<10)
	return &output{w: w}, func() error { return errors.Join(w.Flush(), z.Close()) }, nil
}
