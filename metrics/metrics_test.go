package metrics_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/metrics"
)

var rewrite = flag.Bool("rewrite", false, "write the tables of docs/metrics.md")

const (
	page   = "../docs/metrics.md"
	begins = "<!-- metrics: written by go test ./metrics -rewrite -->\n"
	ends   = "<!-- end of metrics -->\n"
)

// tables returns the tables of docs/metrics.md.
func tables() string {
	var b strings.Builder
	group := ""
	for _, d := range metrics.Catalogue() {
		if d.Group != group {
			group = d.Group
			fmt.Fprintf(&b, "\n### %s\n\n| metric | kind, unit | meaning | what to do |\n|---|---|---|---|\n", group)
		}
		labels := ""
		if len(d.Labels) > 0 {
			labels = "{" + strings.Join(d.Labels, ", ") + "}"
		}
		fmt.Fprintf(&b, "| `%s%s` | %s, %s | %s | %s |\n", d.Name, labels, d.Kind, d.Unit, d.Help, d.Advice)
	}
	return b.String() + "\n"
}

// TestPage: docs/metrics.md has the catalogue.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begins)
	old, tail, closed := strings.Cut(rest, ends)
	if !ok || !closed {
		t.Fatalf("%s has no place for the tables", page)
	}
	if *rewrite {
		if err := os.WriteFile(page, []byte(head+begins+tables()+ends+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != tables() {
		t.Errorf("the tables of %s are not those of the catalogue: go test ./metrics -rewrite", page)
	}
}

// TestCatalogue judges names, units, labels and texts.
func TestCatalogue(t *testing.T) {
	name := regexp.MustCompile(`^cleave_[a-z]+(_[a-z]+)*$`)
	seen := make(map[string]bool)
	var groups []string
	for _, d := range metrics.Catalogue() {
		if !name.MatchString(d.Name) || seen[d.Name] || metrics.Find(d.Name) != d {
			t.Errorf("name %q", d.Name)
		}
		seen[d.Name] = true
		if (d.Kind == metrics.Counter) != strings.HasSuffix(d.Name, "_total") {
			t.Errorf("%s: a counter ends with _total, and nothing else does", d.Name)
		}
		base := strings.TrimSuffix(d.Name, "_total")
		for _, unit := range []metrics.Unit{metrics.Seconds, metrics.Bytes, metrics.Ratio} {
			if (d.Unit == unit) != strings.HasSuffix(base, "_"+string(unit)) {
				t.Errorf("%s: its unit is %q", d.Name, d.Unit)
			}
		}
		if d.Help == "" || strings.HasSuffix(d.Help, ".") || d.Unit == "" || strings.Contains(d.Help+d.Advice, "|") {
			t.Errorf("%s: help %q, unit %q", d.Name, d.Help, d.Unit)
		}
		for _, label := range d.Labels {
			if !slices.Contains([]string{"container", "partition", "call", "kind", "result", "what"}, label) {
				t.Errorf("%s: label %q, whose values may have no bound", d.Name, label)
			}
		}
		if len(groups) == 0 || groups[len(groups)-1] != d.Group {
			if slices.Contains(groups, d.Group) {
				t.Errorf("%s: group %q is in two places", d.Name, d.Group)
			}
			groups = append(groups, d.Group)
		}
	}
}

// TestDashboard: every expression of the dashboard names metrics of the catalogue, and the
// dashboard looks at every group of it.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("grafana/cleave.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title, Type string
			ID          int
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	groups := make(map[string]bool)
	ids := make(map[int]bool)
	expressions := 0
	for _, p := range board.Panels {
		if ids[p.ID] || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d, %q", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			expressions++
			names := regexp.MustCompile(`cleave_[a-z_]+`).FindAllString(target.Expr, -1)
			if len(names) == 0 || target.LegendFormat == "" {
				t.Errorf("%s: %s", p.Title, target.Expr)
			}
			for _, name := range names {
				d := metrics.Find(name)
				if base, ok := strings.CutSuffix(name, "_bucket"); ok && d == nil {
					if d = metrics.Find(base); d != nil && d.Kind != metrics.Distribution {
						d = nil
					}
				}
				if d == nil {
					t.Errorf("%s: there is no metric %s", p.Title, name)
					continue
				}
				groups[d.Group] = true
			}
		}
	}
	for _, d := range metrics.Catalogue() {
		if !groups[d.Group] {
			t.Errorf("no panel shows anything of %s", d.Group)
			groups[d.Group] = true
		}
	}
	if expressions < 30 {
		t.Errorf("%d expressions", expressions)
	}
}

// TestAlerts: every alert has a section in docs/metrics.md.
func TestAlerts(t *testing.T) {
	rules, err := os.ReadFile("prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	if len(alerts) < 10 {
		t.Fatalf("%d alerts", len(alerts))
	}
	for _, alert := range alerts {
		if !strings.Contains(string(text), "\n### "+alert[1]+"\n") {
			t.Errorf("%s has no section about %s", page, alert[1])
		}
		if !strings.Contains(string(rules), "runbook: docs/metrics.md#"+strings.ToLower(alert[1])+"\n") {
			t.Errorf("%s does not name its section", alert[1])
		}
	}
}
