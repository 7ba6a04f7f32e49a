//go:build !linux && !race

package arena

func advise([]byte) {}
