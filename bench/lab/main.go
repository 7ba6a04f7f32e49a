// Command lab measures single properties of Cleave that its design sets bounds for, each
// with a set-up of its own: what splits cost (splits), point reads of a store larger than
// memory beside a bare loop of preads (cold), followers of the change feed (feed,
// catchup). The figures of the documents are its. pbench measures workloads.
//
// Exit status: 0 success, 1 something failed or a bound was not kept, 2 wrong usage, 3 the
// disk is full, 130 interrupted. Data goes to standard output, messages and progress to
// standard error.
package main

import (
	"os"

	"github.com/cleavestore/cleave/internal/harness"
)

func main() { os.Exit(harness.Main("lab", description, new(commands))) }

type commands struct {
	Splits  splitsCommand  `cmd:"" help:"Split partitions of some sizes under a steady load, and say what that cost and whether the bounds were kept."`
	Cold    coldCommand    `cmd:"" help:"Read a store larger than memory at random, beside a bare loop of reads of its files."`
	Feed    feedCommand    `cmd:"" help:"Follow the change feed beside buffered puts, through a split and a kill: how far behind it is, and whether every change comes once."`
	CatchUp catchUpCommand `cmd:"" name:"catchup" help:"Read the change feed of a store from the start, a time or a position: how fast, and with how much memory."`

	FeedLife feedLifeCommand `cmd:"" hidden:""`
}

const description = `Measure single properties of Cleave. pbench loads the stores that commands take, and measures workloads.

Exit status: 0 success, 1 something failed, 2 wrong usage, 3 the disk is full, 130 interrupted.`
