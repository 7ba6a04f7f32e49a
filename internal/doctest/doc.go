// Package doctest reads Markdown pages and checks what they say by doing it: it runs the
// commands of a page and compares what they print with what the page shows, type-checks
// its Go, and lists its links and the names in it for the caller to look up. bench/docs
// applies it to the pages of this repository.
//
// A page is written for readers. What only the runner needs stands in HTML comments,
// which readers do not see. A comment belongs to the fenced block that follows it:
//
//	<!-- not run: REASON -->      the block is not run; its commands and flags must exist
//	<!-- run by: TestNAME -->     the named test runs what the block shows
//	<!-- exit: N -->              the last command of the block ends with status N, not 0
//	<!-- figures: vary -->        numbers in shown output stand for any number
//	<!-- file: NAME -->           the block is written to this file of the page's directory
//	<!-- setup: COMMANDS -->      run before the block, not shown
//	<!-- go: DECLARATIONS -->     Go declarations for all blocks of the page
//
// Fenced blocks are told apart by their language:
//
//	console   lines that begin with "$ " are commands, the lines up to the next are
//	          what the command prints
//	sh        every line is a command; what it prints is not shown
//	go        a file, declarations, or the statements of a function that returns an error
//	json      a JSON value, or one a line
//
// In output, a line "…" stands for any lines, and "…" within a line for any characters. A
// command whose output the page does not show may print anything. Runs of blanks are
// alike, so that a table keeps its shape on the page whatever the width of its figures.
//
// Invariants:
//
//  1. All blocks of a page run in their order, in one directory; a block begins in the
//     working directory in which the one before it ended.
//  2. A marker in front of a block that this package does not know is an error.
package doctest
