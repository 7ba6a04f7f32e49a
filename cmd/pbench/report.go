package main

import (
	"bytes"
	"context"
	"io"

	"github.com/cleavestore/cleave/internal/harness"
)

type reportCommand struct {
	Dir    string             `arg:"" type:"existingdir" help:"Directory of pbench run --out."`
	Beside string             `arg:"" optional:"" type:"existingdir" help:"A second one, which is drawn over the first and compared with it."`
	HTML   harness.OutputFile `name:"html" default:"report.html" placeholder:"FILE" help:"Where the page goes; - is standard output; default ${default}."`
}

// Help returns what follows the short help.
func (*reportCommand) Help() string {
	return `
The page is one file that asks nothing of the network. It has the response times over time with what the store did meanwhile, offered and achieved rates, the percentile curve, a heat map of the key space with the boundaries that splits made, bytes, amplification, memory, errors, the settings, the machine and the commands to repeat the run. Each chart has its numbers as a table.

Examples:

    pbench run --docs 200k --workload ycsb-a --rate 10k --split-at 10s --out runs/a
    pbench report runs/a --html a.html
    pbench report runs/a runs/b --html compared.html`
}

// Run writes the page.
func (c *reportCommand) Run(_ context.Context, env *harness.Environment) error {
	dirs := []string{c.Dir}
	if c.Beside != "" {
		dirs = append(dirs, c.Beside)
	}
	if err := c.HTML.Open("--html"); err != nil {
		return err
	}
	defer c.HTML.Discard()
	return writeReport(env, &c.HTML, true, dirs...)
}

// writeReport writes the page about one run, or two, whose directories are kept or not.
func writeReport(env *harness.Environment, to *harness.OutputFile, kept bool, dirs ...string) error {
	var runs []*recorded
	for i, dir := range dirs {
		r, err := readRecorded(dir)
		if err != nil {
			return err
		}
		if !kept {
			r.dir = ""
		}
		if len(dirs) > 1 {
			r.name = string(rune('A' + i))
		}
		runs = append(runs, r)
	}
	var b bytes.Buffer
	if err := drawReport(&b, runs); err != nil {
		return err
	}
	err := to.Write(env.Stdout, func(w io.Writer) error {
		_, err := b.WriteTo(w)
		return err
	})
	if err == nil && to.String() != "-" {
		env.Notef("the report is in %s", to)
	}
	return err
}
