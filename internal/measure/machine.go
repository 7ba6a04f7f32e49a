package measure

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Machine is where figures come from.
type Machine struct {
	Revision   string `json:"revision,omitempty"` // of the source, if the build knows it
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	CPU        string `json:"cpu,omitempty"`
	Cores      int    `json:"cores"`
	Procs      int    `json:"procs,omitempty"`       // GOMAXPROCS where it is not one for each core
	FileSystem string `json:"file_system,omitempty"` // of the store's directory
}

// DescribeMachine describes this machine, and the file system of dir.
func DescribeMachine(dir string) Machine {
	m := Machine{
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: cpuName(), Cores: runtime.NumCPU(), FileSystem: fileSystem(dir),
	}
	if n := runtime.GOMAXPROCS(0); n != m.Cores {
		m.Procs = n
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

// String returns the description as a line; a revision that is not known is
// left out.
func (m Machine) String() string {
	revision := ""
	if m.Revision != "" {
		revision = ", revision " + m.Revision
	}
	procs := ""
	if m.Procs != 0 {
		procs = fmt.Sprintf(" (GOMAXPROCS %d)", m.Procs)
	}
	return fmt.Sprintf("%s, %s, %s, %d cores%s, %s%s", m.Go, m.Platform, cmp.Or(m.CPU, "CPU unknown"), m.Cores, procs,
		cmp.Or(m.FileSystem, "file system unknown"), revision)
}
