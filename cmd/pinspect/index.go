package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleavestore/cleave/cmd/pinspect/internal/command"
	"github.com/cleavestore/cleave/cmd/pinspect/internal/layout"
	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/chart"
	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/humanize"
	"github.com/cleavestore/cleave/segment"
)

type indexCommand struct {
	target
	layout.Filter
	Paths      int  `default:"40" placeholder:"N" help:"Show the N paths with the most bytes (${default})."`
	Top        int  `default:"10" placeholder:"N" help:"Show the N terms with the most versions (${default})."`
	ShowValues bool `help:"Show the values of terms, not only their types."`
}

// Help returns the long help text.
func (*indexCommand) Help() string {
	return `Shows the secondary indexes of each container: its policy; how many of its segment files have an index for it; what the indexes take, by path; how their postings are stored (single: one version, short: a list, large: a bitmap); and the terms with the most versions. Versions count that newer ones overwrite. Values are shown with --show-values only, so that the output can be posted.

Examples:
  pinspect index DIR
  pinspect index DIR --container cities --paths 5 --top 20 --show-values
  pinspect index DIR --json | jq 'select(.type=="path") | [.path, .bytes]'`
}

// indexRow is the indexes of a container.
type indexRow struct {
	header
	Container  string   `json:"container"`
	Include    []string `json:"include,omitempty"`
	Exclude    []string `json:"exclude,omitempty"`
	Composite  []string `json:"composite,omitempty"`
	Files      int      `json:"files"`
	Indexed    int      `json:"indexed_files"` // with an index for the policy
	Bytes      int64    `json:"bytes"`         // of these indexes
	RawBytes   uint64   `json:"raw_bytes"`     // of all documents of the files
	Terms      int64    `json:"terms"`
	Postings   int64    `json:"postings"`
	Singles    int64    `json:"single_terms"`
	Shorts     int64    `json:"short_terms"`
	ShortBytes int64    `json:"short_bytes"`
	Larges     int64    `json:"large_terms"`
	LargeBytes int64    `json:"large_bytes"`
	Blocks     int64    `json:"dictionary_bytes"` // single and short postings in it
	Fences     int64    `json:"fence_bytes"`
}

// pathRow is what is indexed at a path.
type pathRow struct {
	header
	Container string `json:"container"`
	Path      string `json:"path"`
	Terms     int64  `json:"terms"`
	Postings  int64  `json:"postings"`
	Bytes     int64  `json:"bytes"` // of terms and postings
}

// termRow is a term of many versions.
type termRow struct {
	header
	Container string `json:"container"`
	Path      string `json:"path"`
	Of        string `json:"value_type"`
	Value     string `json:"value,omitempty"`
	Postings  int64  `json:"postings"`
	File      string `json:"file"`
}

// indexReport collects what is shown of a container.
type indexReport struct {
	indexRow
	paths map[string]*pathRow
	terms []termRow
	least int // of terms the one with the fewest versions
}

// Run runs the command.
func (c *indexCommand) Run(ctx context.Context, env *command.Environment, out *output) error {
	if c.Paths < 0 || c.Top < 0 || c.Top > maxTop {
		return cli.Usagef("--paths %d, --top %d: not negative, and at most %d", c.Paths, c.Top, maxTop)
	}
	return c.Within(ctx, c.Dir, func(f *layout.Files, pick layout.Picker) error { return c.show(ctx, env.Line, f, pick, out) })
}

func (c *indexCommand) show(ctx context.Context, line *cli.Line, f *layout.Files, pick layout.Picker, out *output) error {
	l, err := f.ReadLayout(ctx, layout.Readers, pick)
	if err != nil {
		return err
	}
	defer l.Release()
	defer line.Clear()
	damage := l.Damage()
	for i, view := range l.Containers {
		if c.Container != "" && view.Name != c.Container {
			continue
		}
		r, err := c.container(ctx, line, f, view, &damage)
		if err != nil {
			return err
		}
		if c.JSON {
			err = r.printJSON(out)
		} else {
			if i > 0 {
				out.printf("\n")
			}
			r.print(out, c.Paths)
		}
		if err != nil {
			return err
		}
	}
	return printFindings(out, damage, c.JSON)
}

// container reads the indexes of a container.
func (c *indexCommand) container(ctx context.Context, line *cli.Line, f *layout.Files, view *layout.Container, damage *[]layout.Finding) (*indexReport, error) {
	r := &indexReport{paths: make(map[string]*pathRow)}
	r.header, r.Container = newHeader("index"), view.Name
	policy := definition.IndexPolicy(view.Index)
	r.Include, r.Exclude = policy.Include, policy.Exclude
	for _, paths := range policy.Composite {
		r.Composite = append(r.Composite, "("+index.CompositeText(paths)+")")
	}
	compiled, err := index.Compile(policy)
	if err != nil {
		return nil, err
	}
	seen := make(map[uint64]bool)
	for _, p := range view.Partitions {
		for _, run := range p.Runs {
			for _, s := range run {
				if s.Reader == nil || s.Inode != 0 && seen[s.Inode] {
					continue
				}
				seen[s.Inode] = true
				r.Files++
				r.RawBytes += s.Props.RawBytes
				if err := c.file(ctx, line, r, s, compiled); err != nil {
					if ctx.Err() != nil {
						return nil, ctx.Err()
					}
					*damage = append(*damage, f.FindingOf(s.Name, err))
				}
			}
		}
	}
	slices.SortStableFunc(r.terms, func(a, b termRow) int { return cmp.Compare(b.Postings, a.Postings) })
	r.terms = r.terms[:min(len(r.terms), c.Top)]
	return r, nil
}

// file reads the index of a file, if it has one for the policy.
func (c *indexCommand) file(ctx context.Context, line *cli.Line, r *indexReport, s *layout.Segment, policy *index.Compiled) error {
	section, ok := s.Reader.Index(true)
	if !ok {
		return nil
	}
	x, err := index.Open(section)
	if err != nil {
		return err
	}
	info := x.Info()
	if info.Fingerprint != policy.Fingerprint() {
		return nil
	}
	r.Indexed++
	r.Bytes += info.Bytes
	r.Terms += info.Terms
	r.Postings += info.Postings
	r.Singles += info.Singles
	r.Shorts += info.Shorts
	r.ShortBytes += info.ShortBytes
	r.Larges += info.Larges
	r.LargeBytes += info.LargeBytes
	r.Blocks += info.BlockBytes
	r.Fences += info.FenceBytes
	var last []byte
	at := (*pathRow)(nil)
	var path index.Path
	var composite *index.Composite
	cursor := x.Cursor()
	for n, ok := 0, cursor.Seek(index.Documents().From); ok; n, ok = n+1, cursor.Next() {
		if n%4096 == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			line.Show(time.Now(), func() string { return s.Name + ": " + humanize.Plural(n, "term", "terms") + " read" })
		}
		term, ok := cursor.Term()
		key := cursor.Key()
		var values []index.Value
		cut := term.Cut
		if !ok {
			var x *index.Composite
			x, values, cut, ok = policy.DecodeComposite(key)
			if !ok {
				return section.Corrupt(0, errors.New("index: a term does not decode"))
			}
			if at == nil || x != composite {
				composite, at = x, r.path("("+x.String()+")")
			}
		} else if at == nil || term.Path != path {
			path, at = term.Path, r.path(term.Path.String())
		}
		posting := cursor.Posting()
		own := len(key) - commonPrefix(last, key)
		last = append(last[:0], key...)
		at.Terms++
		at.Postings += int64(posting.Len())
		at.Bytes += int64(own) + 3 + posting.Bytes()
		if c.shows(r, posting.Len()) {
			of, value := term.Value.Type.String(), valueText(&term)
			if values != nil {
				of, value = "composite", valuesText(values, cut)
			}
			c.note(r, s, of, value, at.Path, posting.Len())
		}
	}
	return cursor.Err()
}

func (r *indexReport) path(name string) *pathRow {
	row := r.paths[name]
	if row == nil {
		row = &pathRow{header: newHeader("path"), Container: r.Container, Path: name}
		r.paths[name] = row
	}
	return row
}

// shows says whether a term is one of the largest.
func (c *indexCommand) shows(r *indexReport, postings int) bool {
	return c.Top > 0 && (len(r.terms) < c.Top || int64(postings) > r.terms[r.least].Postings)
}

// note keeps a term that is one of the largest.
func (c *indexCommand) note(r *indexReport, s *layout.Segment, of, value, path string, postings int) {
	row := termRow{header: newHeader("term"), Container: r.Container, Path: path, Of: of, Postings: int64(postings), File: s.Name}
	if c.ShowValues {
		row.Value = value
	}
	if len(r.terms) < c.Top {
		r.terms = append(r.terms, row)
	} else {
		r.terms[r.least] = row
	}
	for i := range r.terms {
		if i == 0 || r.terms[i].Postings < r.terms[r.least].Postings {
			r.least = i
		}
	}
}

func valueText(t *index.Term) string {
	switch t.Value.Type {
	case index.Bool:
		return strconv.FormatBool(t.Value.Bool)
	case index.Number:
		return strconv.FormatFloat(t.Value.Number, 'g', -1, 64)
	case index.String:
		if t.Cut {
			return strconv.Quote(t.Value.Text) + " …"
		}
		return strconv.Quote(t.Value.Text)
	}
	return ""
}

// valuesText returns the values of a term of a composite index.
func valuesText(values []index.Value, cut bool) string {
	parts := make([]string, len(values))
	for i, v := range values {
		t := index.Term{Value: v, Cut: cut && len(v.Text) == index.MaxString}
		switch v.Type {
		case 0:
			parts[i] = "-"
		case index.Null, index.Array, index.Object:
			parts[i] = v.Type.String()
		default:
			parts[i] = valueText(&t)
		}
	}
	return strings.Join(parts, ", ")
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// sorted returns the paths, those with the most bytes first.
func (r *indexReport) sorted() []*pathRow {
	rows := make([]*pathRow, 0, len(r.paths))
	for _, row := range r.paths {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b *pathRow) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), bytes.Compare([]byte(a.Path), []byte(b.Path)))
	})
	return rows
}

func (r *indexReport) printJSON(out *output) error {
	if err := out.object(&r.indexRow); err != nil {
		return err
	}
	for _, row := range r.sorted() {
		if err := out.object(row); err != nil {
			return err
		}
	}
	for i := range r.terms {
		if err := out.object(&r.terms[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *indexReport) print(out *output, paths int) {
	if len(r.Include)+len(r.Composite) == 0 {
		out.printf("%s: not indexed\n", printable(r.Container))
		return
	}
	out.printf("%s:", printable(r.Container))
	if len(r.Include) > 0 {
		out.printf(" include %s", printableList(r.Include))
	}
	if len(r.Exclude) > 0 {
		out.printf(", exclude %s", printableList(r.Exclude))
	}
	if len(r.Composite) > 0 {
		out.printf(" composite %s", printableList(r.Composite))
	}
	out.printf("\n%s of %s indexed, %s, %s of the raw documents; %s, %s\n",
		humanize.Count(r.Indexed), humanize.Plural(r.Files, "file", "files"), humanize.Bytes(r.Bytes), formatRatio(uint64(r.Bytes), r.RawBytes),
		humanize.Plural(r.Terms, "term", "terms"), humanize.Plural(r.Postings, "posting", "postings"))
	if r.Indexed == 0 {
		return
	}
	t := cli.NewTable("<postings", "terms", "bytes", "<")
	t.Row("single", humanize.Count(r.Singles), "", "in the dictionary")
	t.Row("short", humanize.Count(r.Shorts), humanize.Bytes(r.ShortBytes), "in the dictionary")
	t.Row("large", humanize.Count(r.Larges), humanize.Bytes(r.LargeBytes), "bitmaps")
	t.Row("dictionary", humanize.Count(r.Terms), humanize.Bytes(r.Blocks), "")
	t.Row("fences", "", humanize.Bytes(r.Fences), "")
	out.printf("\n")
	t.Print(out.w, "")
	rows := r.sorted()
	var largest int64
	if len(rows) > 0 {
		largest = rows[0].Bytes
	}
	t = cli.NewTable("<path", "terms", "postings", "about bytes", "<")
	for _, row := range rows[:min(len(rows), paths)] {
		t.Row(printable(row.Path), humanize.Count(row.Terms), humanize.Count(row.Postings), humanize.Bytes(row.Bytes), chart.Bar(row.Bytes, largest, 20))
	}
	out.printf("\n")
	t.Print(out.w, "")
	if len(r.terms) == 0 {
		return
	}
	t = cli.NewTable("<largest terms", "<type", "<value", "postings", "<file")
	for _, row := range r.terms {
		t.Row(printable(row.Path), row.Of, row.Value, humanize.Count(row.Postings), row.File)
	}
	out.printf("\n")
	t.Print(out.w, "")
}

func printableList(list []string) string {
	text := ""
	for i, s := range list {
		if i > 0 {
			text += " "
		}
		text += printable(s)
	}
	return text
}

var _ index.Source = segment.IndexBytes{}
