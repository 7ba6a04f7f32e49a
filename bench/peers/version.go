package main

import (
	"fmt"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
)

// moduleVersion returns a module that this program is built from, with its
// version.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return path + " " + m.Version
			}
		}
	}
	return path
}

// tagsOfBuild returns the flag that builds this program again with its build tags, and a
// blank; "" without tags.
func tagsOfBuild() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" && s.Value != "" {
				return "-tags " + s.Value + " "
			}
		}
	}
	return ""
}

// revision returns the commit of the working directory, with a plus if it was
// changed since; "unknown" without git.
var revision = sync.OnceValue(func() string {
	text, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	commit := strings.TrimSpace(string(text))
	if text, err = exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output(); err == nil && len(text) > 0 {
		commit += "+"
	}
	return commit
})

// findCandidate returns a store by name.
func findCandidate(name string) (candidate, error) {
	var names []string
	for _, c := range candidates() {
		if c.name == name {
			return c, nil
		}
		names = append(names, c.name)
	}
	return candidate{}, fmt.Errorf("unknown store %q: this build has %s", name, strings.Join(names, ", "))
}
