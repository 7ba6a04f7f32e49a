// Package release says which version a program of Cleave is, and which file formats it
// reads and writes.
//
// A release build sets version with the linker (.ci/release does). Any other build takes
// what Go has noted in the binary: the version of the module that `go install` fetched, or
// the commit of the checkout.
package release

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/segment"
	"github.com/cleavestore/cleave/wal"
)

// version is set by the linker: -X github.com/cleavestore/cleave/internal/release.version=v0.1.0
var version string

// Format is a file format.
type Format struct {
	Name   string `json:"name"`
	Writes int    `json:"writes"` // the version that new files have
	Reads  int    `json:"reads"`  // the oldest version that is read; all up to Writes are
}

// Formats lists the file formats. The golden stores of package engine hold the older
// versions that are said to be read here.
func Formats() []Format {
	return []Format{
		{"store manifest", manifest.Format, 1},
		{"partition manifest", manifest.PartitionFormat, 1},
		{"segment", segment.FormatVersion, 1},
		{"index", index.FormatVersion, 1},
		{"log", wal.FormatVersion, 1},
		{"backup", backup.Version, 1},
	}
}

// Build is what a program was built from.
type Build struct {
	Version  string   `json:"version"`          // v0.1.0; (devel) of a build that is no release
	Commit   string   `json:"commit,omitempty"` // 12 digits, with + if the checkout was changed; empty if unknown
	Go       string   `json:"go"`
	Platform string   `json:"platform"` // linux/amd64
	Formats  []Format `json:"formats"`
}

// ThisBuild describes the running program.
func ThisBuild() Build {
	b := Build{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Formats: Formats()}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
		b.Commit = commit(info.Settings)
	}
	b.Version = cmp.Or(version, b.Version, "(devel)")
	return b
}

// commit returns the commit that Go has noted.
func commit(settings []debug.BuildSetting) string {
	var revision, modified string
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				modified = "+"
			}
		}
	}
	if revision == "" {
		return ""
	}
	return revision + modified
}

// Text returns the description for people, as lines. Program is the name to begin with.
func (b Build) Text(program string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s", program, b.Version)
	if b.Commit != "" {
		fmt.Fprintf(&text, " (commit %s)", b.Commit)
	}
	fmt.Fprintf(&text, ", %s, %s\n\n%-19s  writes  reads\n", b.Go, b.Platform, "format")
	for _, f := range b.Formats {
		reads := fmt.Sprint(f.Reads)
		if f.Writes != f.Reads {
			reads = fmt.Sprintf("%d to %d", f.Reads, f.Writes)
		}
		fmt.Fprintf(&text, "%-19s  %6d  %s\n", f.Name, f.Writes, reads)
	}
	return text.String()
}
