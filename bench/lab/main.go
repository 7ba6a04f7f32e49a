// Command lab measures single properties of Cleave for which its design sets bounds. Each
// command has a set-up of its own: splits under a steady load (splits), point reads of a
// store larger than memory, compared with a loop of preads (cold), and readers of the change
// feed (feed, catchup). The documents in docs take their figures from it. Command pbench
// measures workloads.
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
	Chart   chartCommand   `cmd:"" help:"Draw the pictures of the documents, from results of bench/peers and pbench or of a page."`

	FeedLife feedLifeCommand `cmd:"" hidden:""`
}

const description = `Measure single properties of Cleave. pbench loads the stores that commands take, and measures workloads.

Exit status: 0 success, 1 something failed, 2 wrong usage, 3 the disk is full, 130 interrupted.`
