package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/workload"
)

// takesOnly refuses flags that a workload does not take which makes its own stores and documents.
func takesOnly(parsed *kong.Context, name string, taken ...string) error {
	var refused []string
	for _, p := range parsed.Path {
		if p.Flag != nil && p.Flag.Name != "workload" && !slices.Contains(taken, p.Flag.Name) {
			refused = append(refused, "--"+p.Flag.Name)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return harness.Usagef("%s makes its own stores and documents: of the flags it takes --%s, and not %s",
		name, strings.Join(taken, ", --"), strings.Join(refused, ", "))
}

// checkFlags refuses flags that the workload would ignore.
func (r *runCommand) checkFlags(parsed *kong.Context) error {
	switch r.Workload {
	case workload.QueryCliffs:
		return takesOnly(parsed, r.Workload, "docs", "partitions", "json")
	case workload.Stalls:
		return takesOnly(parsed, r.Workload, "docs", "partitions", "duration", "json")
	}
	return nil
}
