// Command pairs compares the benchmarks of two states of the repository. It runs them in
// turns, so that other load on the machine meets both.
//
//	go run ./bench/pairs REV                       commit REV and the work tree
//	go run ./bench/pairs REV REV2                  two commits
//	go run ./bench/pairs -rounds 20 REV            narrower intervals
//	go run ./bench/pairs -run '^./segment' REV     only lines of the list that match
//	go run ./bench/pairs -docs 100000 REV          queries of 100,000 documents, not of a million
//
// A round runs each line of list.txt once with each build; the builds take turns in
// being the first. A row of the table is one benchmark:
//
//   - old, new: the medians of the rounds.
//   - ratio: the median of the rounds' ratios of speed. Above 1 the new build is
//     faster.
//   - interval: the true median lies in it with a probability of at least 95 %.
//     That follows from the order of the ratios alone: how many of them are below the
//     true median is binomial. Fewer than six rounds have no interval.
//   - verdict: "slower" if the ratio is below the limit and the interval below 1;
//     "unclear" if the interval reaches below the limit and the row is not slower.
//
// The exit status is 1 if a row is slower and 2 if something does not run.
//
// Run no other programs meanwhile. If a row is unclear, run more rounds.
package main
