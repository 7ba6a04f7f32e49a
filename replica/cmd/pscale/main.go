// Command pscale simulates a large cluster: its load rises, then a rack is lost. It prints
// what the map of partitions, the metadata store and the nodes have to bear. Package scale
// says what is modelled.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/cleavestore/cleave/replica/scale"
)

func main() {
	switch err := run(os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "pscale:", err)
		os.Exit(1)
	}
}

func run(args []string, out, progress io.Writer) error {
	cfg := scale.Default()
	flags := flag.NewFlagSet("pscale", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.Usage = func() {
		fmt.Fprintf(progress, `Usage: pscale [flags]

Simulates a cluster at rest, a rise of its load, and the loss of a rack, with the planner
and the map that a real cluster runs. One step is a second of the cluster's time.

Example: a tenth of the default, with faster copies
  pscale -nodes 100 -groups 10000 -copy-rate 200e6

Flags:
`)
		flags.PrintDefaults()
	}
	flags.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "`number` that repeats a run")
	flags.IntVar(&cfg.Nodes, "nodes", cfg.Nodes, "how many nodes")
	flags.IntVar(&cfg.Racks, "racks", cfg.Racks, "in how many racks")
	flags.IntVar(&cfg.Groups, "groups", cfg.Groups, "how many physical partitions")
	gigabytes := flags.Float64("group-gb", float64(cfg.GroupBytes)/1e9, "`GB` of one replica of one partition")
	flags.Float64Var(&cfg.NodeLoad, "node-load", cfg.NodeLoad, "`RU/s` that a node carries")
	flags.Float64Var(&cfg.Share, "share", cfg.Share, "of this load that is in use at the beginning")
	flags.Float64Var(&cfg.Rise, "rise", cfg.Rise, "by how much the load rises within a minute")
	flags.Float64Var(&cfg.CopyRate, "copy-rate", cfg.CopyRate, "`bytes` per second of one copy")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: all settings are flags", flags.Arg(0))
	}
	cfg.GroupBytes = int64(*gigabytes * 1e9)
	if err := cfg.Check(); err != nil {
		return err
	}
	c := scale.New(cfg)
	groups, mapBytes := c.Map()
	var phases []scale.Phase
	for _, event := range []func() scale.Phase{c.Settle, c.RaiseLoad, c.LoseRack} {
		if !*asJSON {
			fmt.Fprintf(progress, "phase %d of 3 …\n", len(phases)+1)
		}
		phases = append(phases, event())
	}
	if *asJSON {
		return json.NewEncoder(out).Encode(struct {
			MapGroups int           `json:"map_groups"`
			MapBytes  int64         `json:"map_bytes"`
			Phases    []scale.Phase `json:"phases"`
		}{groups, mapBytes, phases})
	}
	fmt.Fprintf(out, "%d nodes in %d racks, %d groups, %.1f TB of documents, three times each; a map of %.1f MB, %d bytes a group\n\n",
		cfg.Nodes, cfg.Racks, groups, float64(cfg.GroupBytes)*float64(groups)/1e12, float64(mapBytes)/1e6, mapBytes/int64(groups))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, value func(p *scale.Phase) string) {
		fmt.Fprint(w, name)
		for i := range phases {
			fmt.Fprint(w, "\t", value(&phases[i]))
		}
		fmt.Fprintln(w)
	}
	row("", func(p *scale.Phase) string { return p.Name })
	row("settled after", func(p *scale.Phase) string { return span(p.Settled, "not") })
	row("every replica there after", func(p *scale.Phase) string { return span(p.Replicated, "always") })
	row("no node above 90 % after", func(p *scale.Phase) string { return span(p.Spread, "always") })
	row("groups short of a replica, without a majority", func(p *scale.Phase) string { return fmt.Sprintf("%d, %d", p.Short, p.Stuck) })
	row("copies, at once", func(p *scale.Phase) string { return fmt.Sprintf("%d, %d", p.Copies, p.CopiesAtOnce) })
	row("copied", func(p *scale.Phase) string { return fmt.Sprintf("%.1f TB", float64(p.CopyBytes)/1e12) })
	row("splits, at once", func(p *scale.Phase) string { return fmt.Sprintf("%d, %d", p.Splits, p.SplitsAtOnce) })
	row("transfers of leaders", func(p *scale.Phase) string { return fmt.Sprint(p.Transfers) })
	row("changes of the map, at most in a second", func(p *scale.Phase) string { return fmt.Sprintf("%d, %d", p.Writes, p.PeakWrites) })
	row("these, sent to every node", func(p *scale.Phase) string {
		return fmt.Sprintf("%.1f MB", float64(p.WriteBytes)*float64(cfg.Nodes)/1e6)
	})
	row("share in use: mean, most, most on the way", func(p *scale.Phase) string {
		return fmt.Sprintf("%.2f, %.2f, %.2f", p.Mean, p.Max, p.Peak)
	})
	row("longest plan, here", func(p *scale.Phase) string { return p.PlanTime.Round(time.Millisecond).String() })
	return w.Flush()
}

// span prints a time, or what none means.
func span(d time.Duration, none string) string {
	if d == 0 {
		return none
	}
	return d.String()
}
