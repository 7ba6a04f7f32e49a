package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/humanize"
)

type compareCommand struct {
	Old    string             `arg:"" help:"File that pbench run --json wrote, or a directory of --out, or one with several of these."`
	New    string             `arg:"" help:"What is compared with it."`
	FailOn percentage         `placeholder:"PERCENT" help:"Exit with status 1 if a figure is worse by more than so much, such as 5%, and its values do not overlap."`
	JSON   harness.JSONOutput `name:"json" placeholder:"FILE" help:"Write the comparison as JSON; - is standard output, in place of the table."`
}

// Help returns what follows the short help.
func (*compareCommand) Help() string {
	return `
Figures are medians over the repetitions, those of --count and those of several results together; ± is half the distance of the extremes. A difference is seen where the values of one source would differ so much in at most 5 of 100 cases, by the Mann-Whitney U-test. It takes 4 repetitions on each side. With fewer, values that do not overlap are shown as different, "or chance". Of many figures some differ by chance: 1 in 20. Response times of OVERLOADED runs are not compared. A figure that only the old results have is worse, and so are errors where there were none. Results in bench.txt are for benchstat.

Examples:

    pbench compare runs/a runs/b
    pbench compare old.json new.json --fail-on 5%`
}

// percentage is a flag such as "5%" or "5".
type percentage float64

// UnmarshalText reads a flag.
func (p *percentage) UnmarshalText(text []byte) error {
	x, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "%"), 64)
	if err != nil || !(x > 0 && x <= 1e6) {
		return fmt.Errorf("%q is no percentage above 0", text)
	}
	*p = percentage(x)
	return nil
}

// comparison is what compare prints as JSON.
type comparison struct {
	V        int             `json:"v"`
	Old      string          `json:"old"`
	New      string          `json:"new"`
	Settings []settingChange `json:"settings"` // that differ
	Rows     []comparedRow   `json:"rows"`
	// Notes say what else to know of the results.
	Notes []string `json:"notes,omitempty"`
}

type settingChange struct {
	Workload string `json:"workload"`
	Name     string `json:"name"`
	Old      string `json:"old"`
	New      string `json:"new"`
}

// comparedRow is a figure on both sides.
type comparedRow struct {
	Workload  string  `json:"workload"`
	Operation string  `json:"operation"`
	Figure    string  `json:"figure"`
	Old       spread  `json:"old"`
	New       spread  `json:"new"`
	Percent   float64 `json:"change_percent"`
	Verdict   string  `json:"verdict"`
	Chance    float64 `json:"chance"` // that values from one source differ so much
}

// Verdicts on a figure.
const (
	same        = "same"
	better      = "better"
	worse       = "worse"
	notCompared = "not compared" // a response time of an OVERLOADED run
)

// figure is something that is compared.
type figure struct {
	name     string
	higher   bool // is better
	response bool // a response time, in an open loop
	loop     bool // only an open loop has it
	of       func(r *repeat, operation string) float64
}

var figures = func() []figure {
	all := []figure{{name: "ops/s", higher: true, of: func(r *repeat, operation string) float64 {
		f, _ := r.operation(operation)
		return f.OpsPerS
	}}}
	for _, p := range percentiles {
		all = append(all, figure{name: p + " µs", response: true, of: func(r *repeat, operation string) float64 {
			f, _ := r.operation(operation)
			return f.percentile(p)
		}})
	}
	for _, p := range percentiles[:2] {
		all = append(all, figure{name: "service " + p + " µs", loop: true, of: func(r *repeat, operation string) float64 {
			if r.Loop == nil {
				return 0
			}
			f := r.Loop.Service[operation]
			return f.percentile(p)
		}})
	}
	return all
}()

// Run compares.
func (c *compareCommand) Run(env *harness.Environment) error {
	old, err := readRuns(c.Old)
	if err != nil {
		return err
	}
	now, err := readRuns(c.New)
	if err != nil {
		return err
	}
	if err = c.JSON.Open(); err != nil {
		return err
	}
	defer c.JSON.Discard()
	rep, err := compare(old, now)
	if err != nil {
		return err
	}
	if !c.JSON.ReplacesText() {
		rep.print(env.Stdout)
	}
	if err := c.JSON.Write(env, rep); err != nil {
		return err
	}
	if c.FailOn > 0 {
		return rep.failed(float64(c.FailOn))
	}
	return nil
}

// compare compares the workloads that both sets have.
func compare(old, now *runSet) (*comparison, error) {
	c := &comparison{V: 1, Old: old.name, New: now.name, Settings: []settingChange{}}
	for _, workload := range old.workloads() {
		before, after := old.repeats(workload), now.repeats(workload)
		if len(after) == 0 {
			continue
		}
		a, b := old.settings(workload), now.settings(workload)
		names := maps.Clone(a)
		maps.Copy(names, b)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if a[name] != b[name] {
				c.Settings = append(c.Settings, settingChange{workload, name, a[name], b[name]})
			}
		}
		for _, set := range []*runSet{old, now} {
			if n := set.interrupted(workload); n > 0 {
				c.Notes = append(c.Notes, fmt.Sprintf("%s: interrupted in %s: %s", workload, set.name, harness.Plural(n, "run")))
			}
		}
		for _, operation := range before[0].names() {
			if row, ok := compareErrors(operation, before, after); ok {
				row.Workload = workload
				c.Rows = append(c.Rows, row)
			}
			for _, f := range figures {
				if row, ok := f.compare(operation, before, after); ok {
					row.Workload = workload
					c.Rows = append(c.Rows, row)
				}
			}
		}
	}
	if len(c.Rows) == 0 {
		return nil, errors.New("the results have no workload in common: " +
			strings.Join(old.workloads(), ", ") + " and " + strings.Join(now.workloads(), ", "))
	}
	return c, nil
}

// errorsFigure is the name of the figure that counts operations that failed.
const errorsFigure = "errors"

// compareErrors compares the errors of an operation; not ok if there are none on either side.
func compareErrors(operation string, before, after []repeat) (row comparedRow, ok bool) {
	count := func(all []repeat) (s spread, sum float64) {
		var values []float64
		for i := range all {
			f, _ := all[i].operation(operation)
			values = append(values, float64(f.Errors))
			sum += float64(f.Errors)
		}
		return newSpread(values), sum
	}
	row = comparedRow{Operation: operation, Figure: errorsFigure, Verdict: same}
	var a, b float64
	row.Old, a = count(before)
	row.New, b = count(after)
	switch {
	case a == 0 && b == 0:
		return row, false
	case a == 0:
		row.Verdict, row.Percent = worse, 100
	case b == 0:
		row.Verdict, row.Percent = better, -100
	}
	return row, true
}

// compare compares a figure of an operation; not ok if the old side has none, or if the loops of the
// new one have no such figure. One that the new side has lost is worse.
func (f *figure) compare(operation string, before, after []repeat) (row comparedRow, ok bool) {
	overload := false
	values := func(all []repeat) (values []float64) {
		for i := range all {
			if x := f.of(&all[i], operation); x > 0 {
				values = append(values, x)
			}
			overload = overload || all[i].Loop.is(overloaded)
		}
		return values
	}
	a, b := values(before), values(after)
	switch {
	case len(a) == 0:
		return row, false
	case len(b) == 0:
		// A closed loop has no service times apart.
		if f.loop && !slices.ContainsFunc(after, func(r repeat) bool { return r.Loop != nil && r.Loop.Kind == openLoop }) {
			return row, false
		}
		row = comparedRow{Operation: operation, Figure: f.name, Old: newSpread(a), Verdict: worse, Percent: 100}
		if f.higher {
			row.Percent = -100
		}
		return row, true
	}
	row = comparedRow{Operation: operation, Figure: f.name, Old: newSpread(a), New: newSpread(b), Verdict: same}
	row.Percent = harness.Round(100*(row.New.Median/row.Old.Median-1), 2)
	row.Chance = harness.Round(chance(a, b), 4)
	apart := row.New.apart(row.Old)
	if apart == 0 && row.Chance <= unlikely {
		apart = cmp.Compare(row.New.Median, row.Old.Median)
	}
	switch {
	case overload && f.response:
		row.Verdict = notCompared
	case apart == 0:
	case apart > 0 == f.higher:
		row.Verdict = better
	default:
		row.Verdict = worse
	}
	return row, true
}

// unlikely is a chance that is small enough to take a difference for one.
const unlikely = 0.05

// print writes the comparison as a table, and in a line what differs.
func (c *comparison) print(w io.Writer) {
	fmt.Fprintf(w, "old: %s\nnew: %s\n", c.Old, c.New)
	for _, s := range c.Settings {
		fmt.Fprintf(w, "%s: %s differs: %s, then %s\n", s.Workload, s.Name, cmp.Or(s.Old, "unknown"), cmp.Or(s.New, "unknown"))
	}
	for _, note := range c.Notes {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintln(w)
	t := cli.NewTable("<workload", "<operation", "<figure", "old", "±", "new", "±", "runs", "<")
	few := false
	var last comparedRow
	for _, r := range c.Rows {
		note, unsure := r.note()
		few = few || unsure
		workload, operation := r.Workload, displayName(r.Operation)
		if r.Workload == last.Workload {
			workload = ""
			if r.Operation == last.Operation {
				operation = ""
			}
		}
		last = r
		t.Row(workload, operation, r.Figure, formatFigure(r.Old.Median), formatSpread(r.Old), formatFigure(r.New.Median), formatSpread(r.New),
			fmt.Sprintf("%d, %d", r.Old.N, r.New.N), note)
	}
	t.Print(w, "")
	fmt.Fprintf(w, "\n%s\n", c.summary())
	if few {
		fmt.Fprintln(w, "so few runs lie apart by chance too: repeat them with --count 5")
	}
}

// note says what is seen in a row, and whether that may be chance for want of values.
func (r *comparedRow) note() (note string, few bool) {
	switch r.Verdict {
	case same:
		return "no difference seen", false
	case notCompared:
		return "not compared: " + overloaded, false
	}
	switch {
	case r.Figure == errorsFigure:
		return r.Verdict, false
	case r.New.N == 0:
		return "lost  " + r.Verdict, false
	}
	note = fmt.Sprintf("%+.1f %%  %s", r.Percent, r.Verdict)
	if r.Chance > unlikely {
		return note + ", or chance", true
	}
	return note, false
}

// summary counts the verdicts.
func (c *comparison) summary() string {
	counts := make(map[string]int)
	for _, r := range c.Rows {
		counts[r.Verdict]++
	}
	text := fmt.Sprintf("of %s %d better, %d worse, %d without a difference that can be seen", harness.Plural(len(c.Rows), "figure"), counts[better], counts[worse], counts[same])
	if n := counts[notCompared]; n > 0 {
		text += fmt.Sprintf(", %d not compared", n)
	}
	return text
}

func formatFigure(x float64) string {
	if x >= 1000 {
		return humanize.Count(int64(x + 0.5))
	}
	return humanize.Number(x)
}

func formatSpread(s spread) string {
	if s.N < 2 {
		return "?"
	}
	return fmt.Sprintf("%.1f %%", 100*s.half())
}

// failed returns an error if a figure is worse by more than percent.
func (c *comparison) failed(percent float64) error {
	var failed []string
	for _, r := range c.Rows {
		loss := r.Percent // of a figure that is better when lower
		if r.Figure == figures[0].name {
			loss = -loss
		}
		switch {
		case r.Verdict != worse:
		case r.Figure == errorsFigure:
			failed = append(failed, fmt.Sprintf("%s %s errors", r.Workload, r.Operation))
		case r.New.N == 0:
			failed = append(failed, fmt.Sprintf("%s %s %s lost", r.Workload, r.Operation, r.Figure))
		case loss > percent:
			failed = append(failed, fmt.Sprintf("%s %s %s %+.1f %%", r.Workload, r.Operation, r.Figure, r.Percent))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("worse by over %s %%: %s", formatNumber(percent), strings.Join(failed, ", "))
}

func formatNumber(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
