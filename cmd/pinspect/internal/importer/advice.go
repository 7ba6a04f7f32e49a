package importer

import (
	"context"
	"fmt"
	"slices"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/keyadvice"
)

// judge judges the partition key of a dry run, beside those that the documents propose.
// The documents lie in the temporary store, so the source is read once.
func (w *writing) judge(ctx context.Context, container *engine.Container) error {
	if w.survey.Documents() == 0 {
		return nil
	}
	keys := w.survey.Propose()
	given := w.paths()
	if len(given) > 0 && !slices.ContainsFunc(keys, func(paths []string) bool { return jsondoc.SamePaths(paths, given) }) {
		keys = append(keys, given)
	}
	study, err := keyadvice.NewStudy(keys, keyadvice.Options{})
	if err != nil {
		return err
	}
	for item, err := range container.ScanAll(ctx, nil) {
		if err == nil {
			err = study.Add(item.Body)
		}
		if err != nil {
			return err
		}
	}
	w.done.Advice = study.Report()
	return nil
}

// printAdvice prints the candidates side by side, and what speaks for the key that was
// given or, if there is none, the best one.
func (w *writing) printAdvice(r *keyadvice.Report) error {
	t := cli.NewTable("<key", "<verdict", "logical partitions", "largest has", "no value")
	for i := range r.Candidates {
		c := &r.Candidates[i]
		about := ""
		if c.Estimate {
			about = "~"
		}
		t.Row(command.Printable(c.Key), c.Verdict.String(), about+humanize.Count(c.Logical), keyadvice.Percent(c.LargestShare), keyadvice.Percent(c.UndefinedShare+c.NullShare))
	}
	if err := w.env.Printf("\n"); err != nil {
		return err
	}
	t.Print(w.env.Stdout, "")
	judged := &r.Candidates[0]
	for i := range r.Candidates {
		if jsondoc.SamePaths(r.Candidates[i].Paths, w.paths()) {
			judged = &r.Candidates[i]
		}
	}
	text := fmt.Sprintf("\n%s is %s:\n", command.Printable(judged.Key), judged.Verdict)
	for _, why := range judged.Reasons {
		mark := "+"
		if why.Verdict > keyadvice.Good {
			mark = "-"
		}
		text += "  " + mark + " " + cli.Printable(why.Text) + "\n"
	}
	if best := &r.Candidates[0]; best != judged && best.Verdict < judged.Verdict {
		text += fmt.Sprintf("%s is better: it is %s.\n", command.Printable(best.Key), best.Verdict)
	}
	return w.env.Printf("%sA key serves best when most reads name its value. pinspect advise tells more of each key.\n", text)
}
