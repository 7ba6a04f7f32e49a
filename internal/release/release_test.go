package release

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/internal/manifest"
)

func TestCommit(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	for _, test := range []struct {
		settings []debug.BuildSetting
		want     string
	}{
		{nil, ""},
		{[]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}}, ""},
		{[]debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: "false"}}, "0123456789ab"},
		{[]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: revision}}, "0123456789ab+"},
		{[]debug.BuildSetting{{Key: "vcs.revision", Value: "0123"}}, "0123"},
	} {
		if got := commit(test.settings); got != test.want {
			t.Errorf("commit(%v) is %q, want %q", test.settings, got, test.want)
		}
	}
}

func TestThisBuild(t *testing.T) {
	version = "v9.8.7"
	defer func() { version = "" }()
	b := ThisBuild()
	if b.Version != "v9.8.7" {
		t.Errorf("version %q is not the linker's", b.Version)
	}
	text := b.Text("pinspect")
	if !strings.HasPrefix(text, "pinspect v9.8.7") {
		t.Errorf("text begins with %q", text)
	}
	for _, f := range b.Formats {
		if f.Reads < 1 || f.Reads > f.Writes {
			t.Errorf("%s: reads from %d, writes %d", f.Name, f.Reads, f.Writes)
		}
		if !strings.Contains(text, "\n"+f.Name+" ") {
			t.Errorf("%s is not in the text:\n%s", f.Name, text)
		}
	}
}

// TestChangelog: the newest entry of CHANGELOG.md names the formats that this build writes.
func TestChangelog(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	_, newest, found := strings.Cut(string(text), "\n## ")
	if !found {
		t.Fatal("CHANGELOG.md has no entry")
	}
	newest, _, _ = strings.Cut(newest, "\n## ")
	var names []string
	for _, f := range Formats() {
		names = append(names, fmt.Sprintf("%s %d", f.Name, f.Writes))
	}
	if want := "**Formats written**: " + strings.Join(names, ", ") + "."; !strings.Contains(newest, want) {
		t.Errorf("the newest entry lacks %q", want)
	}
}

// TestUpgrade: docs/upgrade.md names the formats that this build writes, and what needs the newest.
func TestUpgrade(t *testing.T) {
	text, err := os.ReadFile("../../docs/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	lowest := manifest.StoreFormat(nil, nil)
	least := map[string]int{"store manifest": lowest, "backup": lowest - 1} // backups go with store manifests
	var names []string
	for _, f := range Formats() {
		if n, ok := least[f.Name]; ok {
			names = append(names, fmt.Sprintf("%s %d to %d", f.Name, n, f.Writes))
		} else {
			names = append(names, fmt.Sprintf("%s %d", f.Name, f.Writes))
		}
	}
	wants := []string{"writes these formats: " + strings.Join(names, ", ") + "."}
	for n := lowest; n <= manifest.Format; n++ {
		wants = append(wants, fmt.Sprintf(" | %d | %d |\n", n, n-1))
	}
	for _, want := range wants {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/upgrade.md lacks %q", want)
		}
	}
}
