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
	FailOn percentage         `placeholder:"PERCENT" help:"Exit with status 1 if a figure is worse by more than so much, such as 5%, and a difference is seen."`
	JSON   harness.JSONOutput `name:"json" placeholder:"FILE" help:"Write the comparison as JSON; - is standard output, in place of the table."`
}

// Help returns what follows the short help.
func (*compareCommand) Help() string {
	return `
Figures are medians over the repetitions, those of --count and those of several results together; ± is half the distance of the extremes. A difference is seen where the values of one source would differ so much in at most 5 of 100 cases, by the Mann-Whitney U-test. It takes 4 repetitions on each side. With fewer, values that do not overlap are shown as different, "or chance". Of many figures some differ by chance: 1 in 20. Response times of OVERLOADED runs are not compared, nor those of an open loop with those of a closed one, whose service times are compared instead. A figure or a workload that only the old results have is worse, and so are errors where there were none. Results in bench.txt are for benchstat.

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
	Reason    string  `json:"reason,omitempty"` // why it is not compared
	Chance    float64 `json:"chance"`           // that values from one source differ so much
}

// Verdicts on a figure.
const (
	same        = "same"
	better      = "better"
	worse       = "worse"
	notCompared = "not compared" // a response time of an OVERLOADED run, or of another kind of loop
)

// figure is something that is compared.
type figure struct {
	name     string
	higher   bool // is better
	response bool // a response time, in an open loop
	loop     bool // of interest only where a loop is open
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
			if r.Loop.isOpen() {
				f := r.Loop.Service[operation]
				return f.percentile(p)
			}
			f, _ := r.operation(operation) // latencies of a closed loop are service times
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

// compare compares the workloads that both sets have. One that the new set lacks is lost.
func compare(old, now *runSet) (*comparison, error) {
	c := &comparison{V: 1, Old: old.name, New: now.name, Settings: []settingChange{}}
	common := false
	for _, workload := range old.workloads() {
		before, after := old.repeats(workload), now.repeats(workload)
		if len(after) == 0 {
			if row, ok := figures[0].compare(allName, before, after); ok {
				row.Workload = workload
				c.Rows = append(c.Rows, row)
			}
			continue
		}
		common = true
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
		for _, operation := range namesOf(slices.Concat(before, after)) {
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
	for _, workload := range now.workloads() {
		if len(old.repeats(workload)) == 0 {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: only in %s", workload, now.name))
		}
	}
	if !common {
		return nil, errors.New("the results have no workload in common: " +
			strings.Join(old.workloads(), ", ") + " and " + strings.Join(now.workloads(), ", "))
	}
	return c, nil
}

// namesOf lists the operations that one of the repetitions has, in the order of tables.
func namesOf(all []repeat) []string {
	union := results{Ops: make(map[string]operationFigures)}
	for i := range all {
		for name, f := range all[i].Ops {
			if f != (operationFigures{}) {
				union.Ops[name] = f
			}
		}
	}
	return union.names()
}

// errorsFigure is the name of the figure that tells how many operations of a hundred failed.
const errorsFigure = "errors %"

// compareErrors compares the share of an operation that failed; not ok if none did on either side.
// Errors where there were none are worse, however few.
func compareErrors(operation string, before, after []repeat) (row comparedRow, ok bool) {
	values := func(all []repeat) (values []float64) {
		for i := range all {
			f, _ := all[i].operation(operation)
			values = append(values, 100*float64(f.Errors)/float64(max(1, f.Ops+f.Errors)))
		}
		return values
	}
	row = newComparedRow(operation, errorsFigure, false, values(before), values(after))
	if row.Old.Max == 0 && row.New.Max > 0 {
		row.Verdict, row.Percent = worse, 100
	}
	return row, row.Old.Max > 0 || row.New.Max > 0
}

// compare compares a figure of an operation; not ok if the old side has none. One that the new side
// has lost is worse. A repetition without the operation has a rate, 0, and no latencies.
func (f *figure) compare(operation string, before, after []repeat) (row comparedRow, ok bool) {
	overload, open, closed := false, false, false
	values := func(all []repeat) (values []float64) {
		some := false
		for i := range all {
			x := f.of(&all[i], operation)
			if x > 0 || f.higher {
				values = append(values, x)
			}
			some = some || x > 0
			overload = overload || all[i].Loop.is(overloaded)
			open = open || all[i].Loop.isOpen()
			closed = closed || !all[i].Loop.isOpen()
		}
		if !some {
			return nil
		}
		return values
	}
	a, b := values(before), values(after)
	switch {
	case len(a) == 0 || f.loop && !open:
		return row, false
	case len(b) == 0:
		row = comparedRow{Operation: operation, Figure: f.name, Old: newSpread(a), Verdict: worse, Percent: 100}
		if f.higher {
			row.Percent = -100
		}
		return row, true
	}
	row = newComparedRow(operation, f.name, f.higher, a, b)
	switch {
	case !f.response:
	case open && closed:
		row.Verdict, row.Reason = notCompared, "open and closed loop"
	case overload:
		row.Verdict, row.Reason = notCompared, overloaded
	}
	return row, true
}

// newComparedRow compares the values that both sides have for a figure.
func newComparedRow(operation, name string, higher bool, a, b []float64) comparedRow {
	row := comparedRow{Operation: operation, Figure: name, Old: newSpread(a), New: newSpread(b), Verdict: same}
	switch {
	case row.Old.Median > 0:
		row.Percent = harness.Round(100*(row.New.Median/row.Old.Median-1), 2)
	case row.New.Median > 0:
		row.Percent = 100
	}
	row.Chance = harness.Round(chance(a, b), 4)
	apart := row.New.apart(row.Old)
	if apart == 0 && row.Chance <= unlikely {
		apart = cmp.Compare(row.New.Median, row.Old.Median)
	}
	switch {
	case apart == 0:
	case apart > 0 == higher:
		row.Verdict = better
	default:
		row.Verdict = worse
	}
	return row
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
		return "not compared: " + r.Reason, false
	}
	if r.New.N == 0 {
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
	if s.Median == 0 && s.Max > 0 {
		return "over 100 %"
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
		case r.Figure == errorsFigure && r.Old.Median == 0:
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
