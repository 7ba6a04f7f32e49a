package doctest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// A Page is a Markdown file taken apart.
type Page struct {
	Name    string // from the root of the repository, with slashes
	Blocks  []Block
	Links   []Mention // targets, as they are written
	Codes   []Mention // texts between backticks
	anchors map[string]bool
}

// A Mention is a text with its place.
type Mention struct {
	Text string
	Line int
}

// A Block is a fenced block.
type Block struct {
	Line  int    // of the fence, from 1
	Lang  string // the first word behind the fence
	Text  string // without the fences, ends with a line break
	Notes map[string]string
}

// The markers that a comment may have.
var noteKeys = map[string]bool{
	"not run": true, "run by": true, "exit": true, "figures": true, "file": true, "setup": true, "go": true,
}

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	inlineLink = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()\s]*\))?)\)`)
	noteStart  = regexp.MustCompile(`^([a-z][a-z ]*):\s*`)
	notSlug    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Read reads the page name, a path with slashes below root.
func Read(root, name string) (*Page, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	return Parse(name, string(text))
}

// Parse takes a page apart.
func Parse(name, text string) (*Page, error) {
	p := &Page{Name: name, anchors: make(map[string]bool)}
	var notes map[string]string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "<!--"):
			at := i
			comment := strings.TrimPrefix(line, "<!--")
			for !strings.Contains(comment, "-->") {
				if i++; i == len(lines) {
					return nil, fmt.Errorf("%s:%d: the comment does not end", name, at+1)
				}
				comment += "\n" + lines[i]
			}
			comment = strings.TrimSpace(comment[:strings.Index(comment, "-->")])
			key := noteStart.FindStringSubmatch(comment)
			if key == nil {
				continue // a comment for people
			}
			if !noteKeys[key[1]] {
				if i+1 == len(lines) || !strings.HasPrefix(lines[i+1], "```") {
					continue // a comment of another tool
				}
				return nil, fmt.Errorf("%s:%d: no marker is called %q", name, at+1, key[1])
			}
			if notes == nil {
				notes = make(map[string]string)
			}
			notes[key[1]] += comment[len(key[0]):] + "\n"
		case strings.HasPrefix(line, "```"):
			b := Block{Line: i + 1, Notes: notes}
			notes = nil
			if words := strings.Fields(line[3:]); len(words) > 0 {
				b.Lang = words[0]
			}
			var body strings.Builder
			for i++; i < len(lines) && !strings.HasPrefix(lines[i], "```"); i++ {
				body.WriteString(lines[i] + "\n")
			}
			if i == len(lines) {
				return nil, fmt.Errorf("%s:%d: the block does not end", name, b.Line)
			}
			b.Text = body.String()
			p.Blocks = append(p.Blocks, b)
		case strings.TrimSpace(line) == "":
		default:
			if notes != nil && notes["go"] == "" {
				return nil, fmt.Errorf("%s:%d: no block follows the marker", name, i+1)
			}
			p.prose(line, i+1)
		}
	}
	return p, nil
}

// prose takes a line outside of blocks.
func (p *Page) prose(line string, number int) {
	if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
		p.addAnchor(title)
	}
	for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
		p.Codes = append(p.Codes, Mention{m[1], number})
	}
	for _, m := range inlineLink.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, "code"), -1) {
		p.Links = append(p.Links, Mention{m[1], number})
	}
}

// addAnchor notes the anchor that a heading has on the usual hosts: letters in lower case,
// blanks as hyphens, no punctuation, and a number where it is there already.
func (p *Page) addAnchor(title string) {
	slug := strings.ToLower(strings.TrimSpace(title))
	slug = strings.ReplaceAll(notSlug.ReplaceAllString(slug, ""), " ", "-")
	own := slug
	for n := 1; p.anchors[own]; n++ {
		own = fmt.Sprintf("%s-%d", slug, n)
	}
	p.anchors[own] = true
}

// BrokenLinks tells which links lead nowhere: relative ones to files that root does not
// have, and to headings that the pages do not have. pages has the pages by their names.
// Links to other hosts are not followed.
func (p *Page) BrokenLinks(root string, pages map[string]*Page) []error {
	var broken []error
	for _, link := range p.Links {
		if strings.Contains(link.Text, "://") || strings.HasPrefix(link.Text, "mailto:") {
			continue
		}
		target, anchor, _ := strings.Cut(link.Text, "#")
		name := p.Name
		if target != "" {
			name = path.Join(path.Dir(p.Name), target)
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				broken = append(broken, fmt.Errorf("%s:%d: there is no %s", p.Name, link.Line, link.Text))
				continue
			}
		}
		if page := pages[name]; anchor != "" && page != nil && !page.anchors[anchor] {
			broken = append(broken, fmt.Errorf("%s:%d: %s has no heading #%s", p.Name, link.Line, name, anchor))
		}
	}
	return broken
}
