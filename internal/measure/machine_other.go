//go:build !linux

package measure

func cpuName() string { return "" }

func fileSystem(string) string { return "" }
