package doctest

import (
	"regexp"
	"strings"
)

// figure is a number with a unit, or without one.
const figure = `[0-9][0-9.,]*(?: ?(?:B|KB|KiB|MB|MiB|GB|GiB|TiB|ns|µs|ms|s|h|K|M)\b)?`

var figures = regexp.MustCompile(figure)

// Match tells whether got is the output that a page shows: want, with … for what may be
// anything. With vary each number of want stands for any number.
func Match(want, got string, vary bool) bool {
	return matchLines(lines(want), lines(got), vary)
}

// lines gives the lines of a text with single blanks, without empty lines at the end.
func lines(text string) []string {
	all := strings.Split(strings.TrimRight(text, " \t\n"), "\n")
	for i, line := range all {
		all[i] = strings.Join(strings.Fields(line), " ")
	}
	return all
}

func matchLines(want, got []string, vary bool) bool {
	for len(want) > 0 {
		if want[0] == "…" {
			for skip := 0; skip <= len(got); skip++ {
				if matchLines(want[1:], got[skip:], vary) {
					return true
				}
			}
			return false
		}
		if len(got) == 0 || !matchLine(want[0], got[0], vary) {
			return false
		}
		want, got = want[1:], got[1:]
	}
	return len(got) == 0
}

func matchLine(want, got string, vary bool) bool {
	if want == got {
		return true
	}
	var expr strings.Builder
	for i, part := range strings.Split(want, "…") {
		if i > 0 {
			expr.WriteString(`.*`)
		}
		for vary {
			at := figures.FindStringIndex(part)
			if at == nil {
				break
			}
			expr.WriteString(regexp.QuoteMeta(part[:at[0]]) + figure)
			part = part[at[1]:]
		}
		expr.WriteString(regexp.QuoteMeta(part))
	}
	return regexp.MustCompile(`^` + expr.String() + `$`).MatchString(got)
}
