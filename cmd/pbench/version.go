package main

import (
	"fmt"

	"github.com/cleavestore/cleave/internal/harness"
	"github.com/cleavestore/cleave/internal/release"
)

type versionCommand struct{}

// Help returns the long help text.
func (*versionCommand) Help() string {
	return `Says which version of Cleave this program is of, and which versions of each file format it writes and reads. For programs: pinspect version --json.`
}

// Run prints the version.
func (*versionCommand) Run(env *harness.Environment) error {
	_, err := fmt.Fprint(env.Stdout, release.ThisBuild().Text("pbench"))
	return err
}
