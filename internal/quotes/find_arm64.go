package quotes

// Available says that the processor has the instructions that a Finder needs.
const Available = true

// find does what find_amd64.go says.
//
//go:noescape
func find(f *Finder, doc *byte, from, to int) bool
