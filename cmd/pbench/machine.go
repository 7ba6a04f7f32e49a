package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// machine is where figures come from.
type machine struct {
	Revision   string `json:"revision,omitempty"` // of the source, if the build knows it
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	CPU        string `json:"cpu,omitempty"`
	Cores      int    `json:"cores"`
	FileSystem string `json:"file_system,omitempty"` // of the store's directory
}

func describeMachine(dir string) machine {
	m := machine{
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: cpuName(), Cores: runtime.GOMAXPROCS(0), FileSystem: fileSystem(dir),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		modified := ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && len(s.Value) >= 12:
				m.Revision = s.Value[:12]
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = "+"
			}
		}
		if m.Revision != "" {
			m.Revision += modified
		}
	}
	return m
}

// print writes the command line and what it ran on, as two lines.
func (m machine) print(w io.Writer, args []string) {
	fmt.Fprintln(w, strings.TrimSpace("$ pbench "+strings.Join(args, " ")))
	revision := ""
	if m.Revision != "" {
		revision = ", revision " + m.Revision
	}
	fmt.Fprintf(w, "%s, %s, %s, %d cores, %s%s\n",
		m.Go, m.Platform, cmp.Or(m.CPU, "CPU unknown"), m.Cores, cmp.Or(m.FileSystem, "file system unknown"), revision)
}
