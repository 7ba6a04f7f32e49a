package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/keyadvice"
)

type adviseCommand struct {
	Inputs     []string     `arg:"" name:"file|dir" help:"NDJSON files, plain or compressed (gzip, zstd), - for standard input, or directories of stores. Together they are one sample."`
	Key        []string     `sep:"none" placeholder:"PATH[,PATH]" help:"A candidate: 1 to 3 paths, as /tenant or /tenant,/user/id. May be given several times. Without it candidates are proposed, beside the key that a container has."`
	Container  string       `placeholder:"NAME" help:"The container of a store; needed where it has several."`
	Partitions int          `placeholder:"N" help:"Physical partitions to spread over; 8, or more if the target needs them."`
	Growth     growthFactor `placeholder:"N" help:"Judge for N times the sample, as 1000x."`
	Target     cli.Size     `name:"target-bytes" placeholder:"SIZE" help:"Judge for a container of this size, as 500GiB."`
	Throughput float64      `placeholder:"RU/s" help:"Judge for this many request units a second."`
	Top        int          `default:"3" placeholder:"N" help:"Name the N largest logical partitions of each candidate (${default})."`
	ShowKeys   bool         `help:"Show partition keys as they are, not only their hash."`
	Limit      int64        `placeholder:"N" help:"Read only the first N documents."`
	MaxKeys    int          `default:"500000" placeholder:"N" help:"Count up to N logical partitions of each candidate one by one, in about 150 bytes each; with more of them, numbers are estimates (${default})."`
	JSON       bool         `name:"json" help:"Print one JSON object."`
}

// Help returns the long help text.
func (*adviseCommand) Help() string {
	return `Says which partition key to take for the documents of a sample, and why: it hashes each document's key as Azure Cosmos DB and Cleave do, counts the logical partitions that come of it, spreads them over physical ones, and finds the limit that is met first as the data grows. The candidates stand side by side, the best one first.

No single number decides. A key is good if there are many more values than physical partitions, if no value has a large part of the data (a logical partition is never divided: 20 GiB and 10,000 RU/s are its limits), if nearly every document has a value, and if documents that are read or changed together share one. The last point only you can judge: give the properties by which you read as candidates.

Sizes are those of the JSON text; the service counts its index too, so leave room. The limits are taken to be met by growth in proportion: each logical partition keeps its share.

Documents, sizes, missing values and the spread are exact, whatever the sample. Logical partitions are counted one by one up to --max-keys; with more of them, numbers with ~ are estimates, and the output tells their error. Files are read once, twice if candidates are proposed. A line that is no JSON object ends the command with its file and number.

Examples:
  pinspect advise routes.ndjson.zst
  pinspect advise --key /airline --key /from --key /from,/airline routes.ndjson.zst
  pinspect advise --key /tenant --target-bytes 2TiB --throughput 50000 export-*.ndjson.gz
  pinspect advise --key /country --container cities --show-keys DIR
  pinspect advise --json routes.ndjson | jq -r .advice.take`
}

// growthFactor is how many times something is to grow, as a flag: "1000",
// "1000x", "2.5×".
type growthFactor float64

// UnmarshalText reads a flag.
func (g *growthFactor) UnmarshalText(text []byte) error {
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(string(text)), "×"), "x")
	f, err := strconv.ParseFloat(strings.ReplaceAll(number, "_", ""), 64)
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		return fmt.Errorf("%q is no factor: want something like 1000x", text)
	}
	*g = growthFactor(f)
	return nil
}

// adviseReport is what advise prints as JSON.
type adviseReport struct {
	header
	Inputs   []string `json:"inputs"`
	Proposed bool     `json:"proposed"` // the candidates, as none were given
	*keyadvice.Report

	showKeys bool
}

// Run runs the command.
func (c *adviseCommand) Run(ctx context.Context, env *environment, out *output) error {
	keys, err := c.check()
	if err != nil {
		return err
	}
	options := keyadvice.Options{
		Partitions: c.Partitions, TargetBytes: int64(c.Target), Growth: float64(c.Growth), Throughput: c.Throughput,
		Top: cmp.Or(c.Top, -1), MaxKeys: c.MaxKeys, Proposed: len(keys) == 0,
	}
	s := &inputs{names: c.Inputs, container: c.Container, limit: c.Limit, stdin: cli.Input(ctx, env.stdin), line: env.newLine()}
	defer s.line.Clear()
	report := adviseReport{header: newHeader("advice"), Inputs: c.Inputs, Proposed: options.Proposed, showKeys: c.ShowKeys}
	if report.Proposed {
		survey := keyadvice.NewSurvey(options)
		if err = s.each(ctx, "looking for keys in", survey.Add); err != nil {
			return err
		}
		if survey.Documents() > 0 {
			keys = survey.Propose()
		}
		for _, present := range s.present {
			if !slices.ContainsFunc(keys, func(paths []string) bool { return jsondoc.SamePaths(paths, present) }) {
				keys = append(keys, present)
			}
		}
	}
	study, err := keyadvice.NewStudy(keys, options)
	if err != nil {
		return cli.Usage(fmt.Errorf("--key: %w", err))
	}
	if err := s.each(ctx, "counting", study.Add); err != nil {
		return err
	}
	if study.Documents() == 0 {
		return findingError{fmt.Errorf("%s: no documents to judge by", strings.Join(c.Inputs, ", "))}
	}
	report.Report = study.Report()
	if c.ShowKeys {
		for i := range report.Candidates {
			for j := range report.Candidates[i].Largest {
				l := &report.Candidates[i].Largest[j]
				l.Text = l.Key.String()
			}
		}
	}
	s.line.Clear()
	if c.JSON {
		return out.object(&report)
	}
	report.print(out, s)
	return nil
}

const (
	maxAdvisePartitions = 4096
	maxCandidates       = 32
	maxThroughput       = 1e15
)

// check validates the arguments and returns the candidates.
func (c *adviseCommand) check() ([][]string, error) {
	switch {
	case c.Partitions < 0 || c.Partitions > maxAdvisePartitions:
		return nil, cli.Usagef("--partitions %d: between 1 and %d", c.Partitions, maxAdvisePartitions)
	case c.Growth > 0 && c.Target > 0:
		return nil, cli.Usagef("--growth and --target-bytes say the same thing: give one of them")
	case !(c.Throughput >= 0 && c.Throughput <= maxThroughput): // so NaN is refused
		return nil, cli.Usagef("--throughput %v: between 0 and %g", c.Throughput, maxThroughput)
	case c.Top < 0 || c.Top > maxTop:
		return nil, cli.Usagef("--top %d: between 0 and %d", c.Top, maxTop)
	case c.Limit < 0:
		return nil, cli.Usagef("--limit %d: must not be negative", c.Limit)
	case c.MaxKeys < 1:
		return nil, cli.Usagef("--max-keys %d: at least 1", c.MaxKeys)
	case len(c.Key) > maxCandidates:
		return nil, cli.Usagef("%d candidates: %d at most", len(c.Key), maxCandidates)
	}
	for _, name := range c.Inputs {
		info, err := os.Stat(name)
		pipe := err == nil && !info.Mode().IsRegular() && !info.IsDir()
		if name == "-" {
			name, pipe = stdinName, true
		}
		if pipe && len(c.Key) == 0 {
			return nil, cli.Usagef("%s can be read only once: give the candidates with --key", name)
		}
	}
	var keys [][]string
	for i, text := range c.Key {
		if slices.Contains(c.Key[:i], text) {
			return nil, cli.Usagef("--key %s is given twice", text)
		}
		keys = append(keys, jsondoc.SplitPaths(text))
	}
	if len(keys) == 0 {
		return nil, nil
	}
	if _, err := keyadvice.NewStudy(keys, keyadvice.Options{}); err != nil {
		return nil, cli.Usagef("--key: %w", err)
	}
	return keys, nil
}
