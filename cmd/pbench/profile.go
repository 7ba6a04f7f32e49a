package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/cleavestore/cleave/internal/cli"
	"github.com/cleavestore/cleave/internal/humanize"
)

// profileKinds is a list of profiles as a flag.
type profileKinds []string

// allProfiles are the kinds there are, with the value that is ranked.
var allProfiles = map[string]string{"cpu": "cpu", "heap": "inuse_space", "mutex": "delay"}

// UnmarshalText reads "cpu,heap,mutex".
func (k *profileKinds) UnmarshalText(text []byte) error {
	*k = nil
	for kind := range strings.SplitSeq(string(text), ",") {
		if allProfiles[kind] == "" {
			return fmt.Errorf("unknown profile %q: want a list of cpu, heap, mutex", kind)
		}
		if !slices.Contains(*k, kind) {
			*k = append(*k, kind)
		}
	}
	return nil
}

// mutexFraction: one in so many contentions is sampled.
const mutexFraction = 10

// profiler takes profiles between start and stop.
type profiler struct {
	kinds   profileKinds
	cpu     bytes.Buffer
	restore int // mutex fraction before
}

// capture is a profile that was taken.
type capture struct {
	kind string
	raw  []byte // as go tool pprof reads it
	prof *profile.Profile
}

func (p *profiler) start() error {
	if slices.Contains(p.kinds, "mutex") {
		p.restore = runtime.SetMutexProfileFraction(mutexFraction)
	}
	if slices.Contains(p.kinds, "cpu") {
		return pprof.StartCPUProfile(&p.cpu)
	}
	return nil
}

func (p *profiler) stop() ([]capture, error) {
	var captures []capture
	for _, kind := range p.kinds {
		c := capture{kind: kind}
		switch kind {
		case "cpu":
			pprof.StopCPUProfile()
			c.raw = p.cpu.Bytes()
		default:
			if kind == "heap" {
				runtime.GC() // the heap profile is as of the last collection
			}
			var b bytes.Buffer
			if err := pprof.Lookup(kind).WriteTo(&b, 0); err != nil {
				return nil, fmt.Errorf("profile %s: %w", kind, err)
			}
			c.raw = b.Bytes()
		}
		if kind == "mutex" {
			runtime.SetMutexProfileFraction(p.restore)
		}
		var err error
		if c.prof, err = profile.ParseData(c.raw); err != nil {
			return nil, fmt.Errorf("profile %s: %w", kind, err)
		}
		captures = append(captures, c)
	}
	return captures, nil
}

// save writes the profile to dir as KIND.pprof.
func (c *capture) save(dir string) error {
	return os.WriteFile(filepath.Join(dir, c.kind+".pprof"), c.raw, 0o600)
}

// ranked is a function with its share of a profile.
type ranked struct {
	name      string
	flat, cum int64 // in the function itself; with what it called
}

// rank returns the functions of a profile by what they hold themselves, and
// the sum, for the named sample type.
func rank(p *profile.Profile, sampleType string) (functions []ranked, total int64, unit string, err error) {
	column := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == sampleType })
	if column < 0 {
		return nil, 0, "", fmt.Errorf("the profile has no %s", sampleType)
	}
	byName := make(map[string]*ranked)
	for _, s := range p.Sample {
		value := s.Value[column]
		total += value
		leaf := true // until the function is found that the value belongs to
		seen := make(map[string]bool)
		for _, location := range s.Location {
			for _, line := range location.Line {
				if line.Function == nil {
					continue
				}
				name := line.Function.Name
				r := byName[name]
				if r == nil {
					r = &ranked{name: name}
					byName[name] = r
				}
				if leaf && !(sampleType == "delay" && isLock(name)) {
					r.flat += value
					leaf = false
				}
				if !seen[name] {
					seen[name] = true
					r.cum += value
				}
			}
		}
	}
	for _, r := range byName {
		functions = append(functions, *r)
	}
	slices.SortFunc(functions, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.flat, a.flat), cmp.Compare(b.cum, a.cum), cmp.Compare(a.name, b.name))
	})
	return functions, total, p.SampleType[column].Unit, nil
}

// isLock reports whether a function is one of those that lock: of a mutex
// profile their callers are of interest.
func isLock(name string) bool {
	return strings.HasPrefix(name, "sync.") || strings.HasPrefix(name, "internal/sync.") || strings.HasPrefix(name, "runtime.")
}

// printTop writes the first n functions of a profile as a table.
func (c *capture) printTop(w io.Writer, n int) error {
	functions, total, unit, err := rank(c.prof, allProfiles[c.kind])
	if err != nil {
		return fmt.Errorf("profile %s: %w", c.kind, err)
	}
	fmt.Fprintf(w, "\n%s profile, %s\n", c.kind, formatUnit(total, unit))
	t := cli.NewTable("<", "self", "", "with calls", "", "<function")
	for _, f := range functions[:min(n, len(functions))] {
		if f.flat == 0 {
			break
		}
		t.Row("", formatUnit(f.flat, unit), formatShare(f.flat, total), formatUnit(f.cum, unit), formatShare(f.cum, total), f.name)
	}
	t.Print(w, "")
	return nil
}

func formatShare(part, total int64) string {
	if total == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(total))
}

func formatUnit(n int64, unit string) string {
	switch unit {
	case "nanoseconds":
		return humanize.Number(float64(n)/1e9) + " s"
	case "bytes":
		return humanize.Bytes(n)
	}
	return humanize.Count(n) + " " + unit
}
