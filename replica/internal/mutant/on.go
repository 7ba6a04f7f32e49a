//go:build mutants

package mutant

var planted Fault

// Plant plants one fault; "" removes it. No replica may be running meanwhile.
func Plant(f Fault) { planted = f }

// On reports whether a fault is planted.
func On(f Fault) bool { return planted == f }
