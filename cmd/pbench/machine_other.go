//go:build !linux

package main

func cpuName() string { return "" }

func fileSystem(string) string { return "" }
