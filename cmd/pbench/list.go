package main

import (
	"fmt"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/workload"
)

type listCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// listReport is what list prints as JSON.
type listReport struct {
	V          int             `json:"v"`
	Workloads  []listWorkload  `json:"workloads"`
	Generators []listGenerator `json:"generators"`
}

type listWorkload struct {
	Name  string `json:"name"`
	Mix   string `json:"mix"`
	Keys  string `json:"keys"`
	About string `json:"about"`
}

type listGenerator struct {
	Name    string `json:"name"`
	KeyPath string `json:"key_path"`
	About   string `json:"about"`
}

func newListReport() *listReport {
	r := &listReport{V: 1}
	for _, w := range workload.Workloads() {
		r.Workloads = append(r.Workloads, listWorkload{w.Name, w.Mix.String(), w.Keys.String(), w.About})
	}
	for _, s := range workload.Shapes() {
		r.Generators = append(r.Generators, listGenerator{s.Name, s.KeyPath, s.About})
	}
	return r
}

// Run prints what there is to choose from.
func (l *listCommand) Run(env *harness.Environment) error {
	list := newListReport()
	if l.JSON {
		return harness.WriteJSON(env.Stdout, list)
	}
	t := cli.NewTable("<workload", "<operations", "<keys", "<")
	for _, w := range list.Workloads {
		t.Row(w.Name, w.Mix, w.Keys, w.About)
	}
	t.Print(env.Stdout, "")
	fmt.Fprintln(env.Stdout)
	t = cli.NewTable("<generator", "<key", "<")
	for _, s := range list.Generators {
		t.Row(s.Name, s.KeyPath, s.About)
	}
	t.Print(env.Stdout, "")
	fmt.Fprint(env.Stdout, `
keys         which documents the operations are about
uniform      all alike
zipf:0.99    a few of them often, spread over the key space
latest:0.99  the newest ones often
hot:F/S      the fraction F of the documents for the share S of the operations
moving:F/S   so, but they are a range of the key space, which goes through it in a minute
`)
	return nil
}
