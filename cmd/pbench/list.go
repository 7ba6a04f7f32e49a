package main

import (
	"fmt"

	"github.com/cleavestore/cleave/internal/workload"
)

type listCommand struct{}

// Run prints what there is to choose from.
func (listCommand) Run(env *environment) error {
	t := newTable("workload", "operations", "keys", "")
	for column := range 4 {
		t.left(column)
	}
	for _, w := range workload.Workloads() {
		t.row(w.Name, w.Mix.String(), w.Keys.String(), w.About)
	}
	t.print(env.stdout)
	fmt.Fprintln(env.stdout)
	t = newTable("generator", "key", "")
	t.left(1)
	t.left(2)
	for _, s := range workload.Shapes() {
		t.row(s.Name, s.KeyPath, s.About)
	}
	t.print(env.stdout)
	fmt.Fprint(env.stdout, `
keys         which documents the operations are about
uniform      all alike
zipf:0.99    a few of them often, spread over the key space
latest:0.99  the newest ones often
hot:F/S      the fraction F of the documents for the share S of the operations
`)
	return nil
}
