// Package migrate has no code: the program of this module is cleave-migrate, which copies the
// data of other stores into Cleave. With a second package beside the program, go build ./...
// builds the module and writes no file; alone, the program would be written over its directory.
package migrate
