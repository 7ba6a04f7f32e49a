package main

import "github.com/cleavestore/cleave/internal/release"

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help returns the long help text.
func (*versionCommand) Help() string {
	return `Says which version of Cleave this program is of, and which versions of each file format it writes and reads. A store or backup of a newer format is refused with "too new".`
}

// versionReport is what version prints.
type versionReport struct {
	header
	release.Build
}

// Run prints the version.
func (c *versionCommand) Run(out *output) error {
	build := release.ThisBuild()
	if c.JSON {
		return out.object(versionReport{newHeader("version"), build})
	}
	out.printf("%s", build.Text("pinspect"))
	return nil
}
