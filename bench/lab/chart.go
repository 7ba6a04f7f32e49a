package main

import (
	"bytes"
	"context"
	"os"

	"github.com/cleavestore/cleave/internal/harness"
)

// chartCommand draws the pictures of the documents.
type chartCommand struct {
	Peers chartPeersCommand `cmd:"" help:"Draw the throughput of Cleave beside that of other stores, from the JSON file of bench/peers."`
	Split chartSplitCommand `cmd:"" help:"Draw the response times across a split, from a directory of pbench run --out."`
	Model chartModelCommand `cmd:"" help:"Draw how a tenant finds its physical partition, and what a split does."`
	Page  chartPageCommand  `cmd:"" help:"Take a picture of a page, such as the console, in a browser."`
}

// svgFlag says where a picture goes.
type svgFlag struct {
	SVG string `name:"svg" default:"-" placeholder:"FILE" help:"Where the picture goes; default -, standard output."`
}

// write writes a picture.
func (f *svgFlag) write(env *harness.Environment, draw func(b *bytes.Buffer) error) error {
	var b bytes.Buffer
	if err := draw(&b); err != nil {
		return err
	}
	if f.SVG == "-" {
		_, err := env.Stdout.Write(b.Bytes())
		return err
	}
	if err := harness.OutsideStores("--svg", f.SVG); err != nil {
		return err
	}
	return os.WriteFile(f.SVG, b.Bytes(), 0o666)
}

// chartWidth is how wide pictures are: that of a README.
const chartWidth = 860

type chartPeersCommand struct {
	File string `arg:"" type:"existingfile" help:"JSON file of bench/peers, such as runs/full.json."`
	svgFlag
}

// Help returns what follows the short help.
func (*chartPeersCommand) Help() string {
	return `
Each row compares Cleave with the best of the other stores; all rows are drawn that have such a ratio, also those that Cleave loses.

Examples:

    lab chart peers bench/peers/runs/full.json --svg docs/pictures/peers.svg`
}

// Run draws.
func (c *chartPeersCommand) Run(_ context.Context, env *harness.Environment) error {
	r, err := readPeers(c.File)
	if err != nil {
		return err
	}
	return c.write(env, r.draw)
}

type chartSplitCommand struct {
	Dir string `arg:"" type:"existingdir" help:"Directory of pbench run --out, of a run with --split-at."`
	svgFlag
}

// Help returns what follows the short help.
func (*chartSplitCommand) Help() string {
	return `
Examples:

    pbench run --docs 200k --workload ycsb-b --rate 10k --split-at 15s --duration 30s --out runs/split
    lab chart split runs/split --svg docs/pictures/split.svg`
}

// Run draws.
func (c *chartSplitCommand) Run(_ context.Context, env *harness.Environment) error {
	r, err := readSplitRun(c.Dir)
	if err != nil {
		return err
	}
	return c.write(env, r.draw)
}

type chartModelCommand struct{ svgFlag }

// Help returns what follows the short help.
func (*chartModelCommand) Help() string {
	return `
The places of the tenants are their hashes, the boundaries those of three physical partitions, the cut is in the middle of the second.

Examples:

    lab chart model --svg docs/pictures/model.svg`
}

// Run draws.
func (c *chartModelCommand) Run(_ context.Context, env *harness.Environment) error {
	return c.write(env, drawModel)
}
