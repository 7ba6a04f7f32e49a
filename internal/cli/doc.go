// Package cli is the common part of the commands of this module. It parses and runs a command
// line, prints its error and turns the error into an exit status. It also reads sizes, prints
// tables, and shows the progress of a command on a line of the terminal.
package cli
