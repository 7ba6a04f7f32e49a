//go:build !linux && !race

package arena

func advise([]byte) {}

func fence(chunk []byte) { spoil(chunk) }
