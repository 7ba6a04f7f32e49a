package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/pairs"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/internal/keyadvice"
	"github.com/cleavestore/cleave/partmap"
)

// textColumns is how wide sentences are printed.
const textColumns = 100

// print writes the report for people: what was read, the candidates side by
// side, what to take and why, what the figures do not tell.
func (r *adviseReport) print(out *output, s *inputs) {
	var p pairs.List
	p.Add("sample", fmt.Sprintf("%s: %s, %s of JSON", strings.Join(s.about, ", "),
		humanize.Plural(r.Documents, "document", "documents"), humanize.Bytes(r.Bytes)))
	if s.limit > 0 && r.Documents >= s.limit {
		p.Add("", "only the first "+humanize.Plural(s.limit, "document", "documents")+": others may differ, mostly if the input is sorted")
	}
	p.Add("judged for", r.purpose())
	if r.Proposed {
		p.Add("candidates", "proposed from the properties that most documents have; name others with --key")
	}
	p.Print(out.w)
	out.printf("\n")
	r.printTable(out)
	out.printf("\n")
	r.printGrowth(out)
	r.printLargest(out)
	r.printAdvice(out)
	if len(r.Notes) > 0 {
		out.printf("\n")
		for _, note := range r.Notes {
			paragraph(out, "Note: ", note)
		}
	}
	out.printf("\n")
	paragraph(out, "", "These figures do not know your queries. A key serves best when most reads and all transactions name its value; a query that does not name it asks every physical partition. A document's key cannot be changed later.")
}

// purpose says for which future the keys are judged.
func (r *adviseReport) purpose() string {
	text := humanize.Plural(r.Partitions, "physical partition", "physical partitions")
	if r.TargetBytes > 0 {
		text += ", " + humanize.Bytes(r.TargetBytes) + " of data"
		if r.Bytes > 0 {
			text += fmt.Sprintf(" (%s times the sample)", formatFactor(float64(r.TargetBytes)/float64(r.Bytes)))
		}
	} else {
		text += ", no size in particular (give one with --target-bytes or --growth)"
	}
	if r.Throughput > 0 {
		text += fmt.Sprintf(", %s RU/s", humanize.Count(int64(r.Throughput)))
	}
	return text
}

func formatFactor(x float64) string {
	if x >= 100 {
		return humanize.Count(int64(math.Round(x)))
	}
	return humanize.Number(x)
}

// printTable prints the candidates side by side.
func (r *adviseReport) printTable(out *output) {
	t := cli.NewTable("<", "<", "logical", "documents", "documents", "largest", "no", "<spread", "fullest")
	t.Row("key", "verdict", "partitions", "(median)", "(most)", "has", "value", fmt.Sprintf("over %d", r.Partitions), "has")
	for i := range r.Candidates {
		c := &r.Candidates[i]
		about := ""
		if c.Estimate {
			about = "~"
		}
		t.Row(printable(c.Key), c.Verdict.String(), about+humanize.Count(c.Logical),
			about+humanize.Count(c.Median), about+humanize.Count(c.Max), keyadvice.Percent(c.LargestShare),
			keyadvice.Percent(c.UndefinedShare+c.NullShare), skyline(c.Physical, spreadCells), keyadvice.Percent(c.FullestShare))
	}
	t.Print(out.w, "")
	out.printf("\n")
	paragraph(out, "", "A logical partition is all documents with one key: it is never divided. A physical partition holds many of them, gets an even part of the throughput, and splits when it is full.")
	out.printf("\n")
	var p pairs.List
	p.Add("  documents", "how many a logical partition has: half of them at most (median), the largest one (most)")
	p.Add("  largest has", "the share of all bytes that is in the largest logical partition")
	p.Add("  no value", "documents in which the property is missing or null")
	p.Add("  spread", fmt.Sprintf("the bytes in each of %d physical partitions; the fullest should have little more than %s", r.Partitions, keyadvice.Percent(1/float64(r.Partitions))))
	p.Print(out.w)
}

const spreadCells = 32

// skyline draws partitions side by side, each as high as its part of the
// fullest; where there are more than cells, some together.
func skyline(parts []keyadvice.PhysicalPartition, cells int) string {
	n := min(len(parts), cells)
	heights := make([]float64, n)
	for i, p := range parts {
		heights[i*n/len(parts)] = max(heights[i*n/len(parts)], p.Share)
	}
	top := 0.0
	for _, h := range heights {
		top = max(top, h)
	}
	blocks := []rune("▁▂▃▄▅▆▇█")
	text := make([]rune, n)
	for i, h := range heights {
		switch {
		case h == 0:
			text[i] = '·'
		default:
			text[i] = blocks[min(int(h/top*8), 7)]
		}
	}
	return string(text)
}

// printGrowth prints when each candidate meets the limits of the model.
func (r *adviseReport) printGrowth(out *output) {
	paragraph(out, "", "As the container grows, and each logical partition keeps its share; sizes and request units a second (RU/s) are those of the whole container:")
	out.printf("\n")
	t := cli.NewTable("<", "the fullest physical", "the largest logical", "the largest logical", "longest string")
	t.Row("key", fmt.Sprintf("splits (%s) at", humanize.Bytes(int64(keyadvice.PhysicalBytes))), fmt.Sprintf("is full (%s) at", humanize.Bytes(int64(keyadvice.LogicalBytes))),
		fmt.Sprintf("is throttled (%s RU/s) at", humanize.Count(keyadvice.PartitionUnits)), fmt.Sprintf("of %s bytes", humanize.Count(partmap.MaxString)))
	met := false
	mark := func(text string, is bool) string {
		met = met || is
		if is {
			return "! " + text
		}
		return text
	}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		full, throttled, split := "never", "never", "never"
		if c.SplitBytes > 0 {
			split = humanize.Bytes(c.SplitBytes)
		}
		if c.LimitBytes > 0 {
			full = mark(humanize.Bytes(c.LimitBytes), c.LimitBytes <= r.TargetBytes)
			throttled = mark(humanize.Count(int64(c.LimitUnits))+" RU/s", r.Throughput > 0 && c.LimitUnits < r.Throughput)
		}
		longest := "-"
		if c.LongestString > 0 {
			longest = mark(humanize.Count(c.LongestString), c.TooLong > 0)
		}
		t.Row(printable(c.Key), split, full, throttled, longest)
	}
	t.Print(out.w, "")
	if met {
		out.printf("! this limit is met: requests are refused at it\n")
	}
	out.printf("\n")
}

// printLargest names the largest logical partitions of each candidate.
func (r *adviseReport) printLargest(out *output) {
	how := ""
	if !r.showKeys {
		how = "by the first digits of their hash; --show-keys names them"
	}
	t := cli.NewTable("<largest logical partitions", "<"+how)
	shown := 0
	for i := range r.Candidates {
		c := &r.Candidates[i]
		var list []string
		for _, l := range c.Largest {
			name := shortText(l.Text)
			if name == "" {
				name = shortLevels(l.EPK)
			}
			most := ""
			if l.Error > 0 {
				most = "≤ "
			}
			list = append(list, name+" "+most+keyadvice.Percent(l.Share))
		}
		if len(list) > 0 {
			t.Row(printable(c.Key), strings.Join(list, "   "))
			shown++
		}
	}
	if shown > 0 {
		t.Print(out.w, "")
		out.printf("\n")
	}
}

// shortText cuts off a long text.
func shortText(text string) string {
	const most = 36
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// shortLevels returns the first digits of each level of an EPK.
func shortLevels(epk string) string {
	const digits, level = 8, 32
	var list []string
	for ; len(epk) >= level; epk = epk[level:] {
		list = append(list, epk[:digits])
	}
	return strings.Join(list, ",")
}

// printAdvice says what to take.
func (r *adviseReport) printAdvice(out *output) {
	a := &r.Advice
	switch {
	case a.Verdict == keyadvice.Poor && len(r.Candidates) == 1:
		out.printf("Do not take %s.\n", printable(a.Take))
	case a.Verdict == keyadvice.Poor:
		out.printf("Take none of these. The least bad is %s.\n", printable(a.Take))
	case len(r.Candidates) == 1:
		out.printf("%s is %s.\n", printable(a.Take), map[keyadvice.Verdict]string{keyadvice.Good: "a good key", keyadvice.Usable: "usable, with care"}[a.Verdict])
	default:
		out.printf("Take %s.\n", printable(a.Take))
	}
	if a.Verdict == keyadvice.Poor {
		slices.Reverse(a.Why)
	}
	for _, why := range a.Why {
		mark := "  + "
		if why.Verdict > keyadvice.Good {
			mark = "  - "
		}
		paragraph(out, mark, why.Text)
	}
	if a.Later != "" {
		paragraph(out, "  > ", a.Later)
	}
	if a.Verdict == keyadvice.Poor && !r.Proposed {
		paragraph(out, "  > ", "Without --key, candidates are proposed.")
	}
	if len(a.Instead) > 0 {
		out.printf("\nThe others:\n")
		for _, o := range a.Instead {
			paragraph(out, "  "+printable(o.Key)+": ", o.Why)
		}
	}
}

// paragraph prints a text in lines of textColumns. Those after the first are
// indented as far as the lead, but not more than four columns.
func paragraph(out *output, lead, text string) {
	indent := strings.Repeat(" ", min(utf8.RuneCountInString(lead), 4))
	line, width := lead, utf8.RuneCountInString(lead)
	first := true
	for _, word := range strings.Fields(cli.Printable(text)) { // it may name members of documents
		n := utf8.RuneCountInString(word)
		if !first && width+1+n > textColumns {
			out.printf("%s\n", strings.TrimRight(line, " "))
			line, width, first = indent, len(indent), true
		}
		if !first {
			line += " "
			width++
		}
		line += word
		width += n
		first = false
	}
	out.printf("%s\n", line)
}
