package main

import (
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/engine"
)

// damageInfo is a part of a store that cannot be read.
type damageInfo struct {
	Container string             `json:"container"`
	Partition engine.PartitionID `json:"partition"`
	Min       string             `json:"min"` // effective partition keys, inclusive
	Max       string             `json:"max"` // exclusive
	File      string             `json:"file"`
	Offset    int64              `json:"offset"`          // -1: the file as a whole
	Aside     bool               `json:"set_aside"`       // compactions leave it alone
	Whole     bool               `json:"whole_partition"` // the partition is neither read nor written
	Error     string             `json:"error"`
}

// damageOf describes what the store has found damaged so far.
func damageOf(db *engine.DB) []damageInfo { return describeDamage(db.Stats().Damage) }

func describeDamage(list []engine.Damage) (all []damageInfo) {
	for _, d := range list {
		all = append(all, damageInfo{
			Container: d.Container, Partition: d.Partition, Min: d.Min, Max: d.Max, File: d.File, Offset: d.Offset,
			Aside: d.Aside, Whole: d.Whole, Error: d.Err.Error(),
		})
	}
	return all
}

// damageFailure is the error of a command that has shown what is left of a damaged
// store; nil: there is no damage, or err says it.
func damageFailure(all []damageInfo, err error) error {
	if len(all) == 0 || err != nil {
		return err
	}
	return findingError{fmt.Errorf("%w: %s; pinspect repair writes what can be read into another store", errDamagedParts, all[0].Error)}
}

var errDamagedParts = errors.New("parts of the store cannot be read")

// printFindings prints what a command that lists files has found wrong beside them, and returns errFound if there is
// something.
func printFindings(out *output, list []layout.Finding, json bool) error {
	if len(list) > 0 && !json {
		out.printf("\n")
	}
	for _, f := range list {
		if !json {
			out.printf("! %v\n", f)
		} else if err := out.object(&findingRow{newHeader("finding"), f}); err != nil {
			return err
		}
	}
	if len(list) > 0 {
		return errFound
	}
	return nil
}

// printDamage lists damage, and counts what is more than most.
func printDamage(out *output, all []damageInfo, most int) {
	for i, d := range all {
		if i == most {
			out.printf("! and %d more\n", len(all)-i)
			return
		}
		what := "file of"
		if d.Whole {
			what = "whole"
		}
		out.printf("! damaged: %s partition %d of %s, [%.8s, %.8s): %s\n", what, d.Partition, printable(d.Container), d.Min, d.Max, printable(d.Error))
	}
}
