package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed list.txt
var list string

// A mutant is one change to the source that the tests must notice.
type mutant struct {
	name     string
	why      string
	file     string // below the root of the repository, with slashes
	original string
	replaced string
	tests    []target
}

// A target is tests of one package.
type target struct {
	pkg string // as the go command takes it
	run string // the argument of -run
}

func (t target) String() string { return t.pkg + " " + t.run }

// parse reads the list.
func parse(text string) ([]mutant, error) {
	var all []mutant
	var m *mutant
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "== "); ok {
			all = append(all, mutant{name: strings.TrimSpace(name)})
			m = &all[len(all)-1]
			continue
		}
		if m == nil {
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			return nil, fmt.Errorf("line %d: %q stands before the first mutant", n, line)
		}
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
		case line[0] == '-':
			m.original += line[1:] + "\n"
		case line[0] == '+':
			m.replaced += line[1:] + "\n"
		case key == "why":
			m.why = value
		case key == "file":
			m.file = value
		case key == "caught by":
			words := strings.Fields(value)
			if len(words)%2 != 0 {
				return nil, fmt.Errorf("line %d: %q is not a list of packages, each with its tests", n, value)
			}
			for i := 0; i < len(words); i += 2 {
				m.tests = append(m.tests, target{words[i], words[i+1]})
			}
		default:
			return nil, fmt.Errorf("line %d: %q is no line of a mutant", n, line)
		}
	}
	for _, m := range all {
		if m.why == "" || m.file == "" || m.original == "" || len(m.tests) == 0 {
			return nil, fmt.Errorf("mutant %q needs a reason, a file, an original and tests", m.name)
		}
	}
	return all, lines.Err()
}

// apply returns the text of the mutant's file with the mutation in it.
func (m *mutant) apply(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(source), m.original); n != 1 {
		return nil, fmt.Errorf("%s: the original of mutant %q occurs %d times, not once; bring list.txt up to date", m.file, m.name, n)
	}
	return []byte(strings.Replace(string(source), m.original, m.replaced, 1)), nil
}
