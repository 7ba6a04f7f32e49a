// Package cli is what the commands of this module have in common: a command
// line is parsed and run, its error is printed and becomes an exit status; sizes
// are read; tables are printed; a line of the terminal shows how far a command came.
package cli
