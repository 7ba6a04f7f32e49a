//go:build race && !amd64 && !arm64

package lockorder

import (
	"runtime"
	"strconv"
	"strings"
)

// goroutine returns what tells the running goroutine from the others that there
// are: its number, from the first line of its stack trace.
func goroutine() uintptr {
	var buf [64]byte
	words := strings.Fields(string(buf[:runtime.Stack(buf[:], false)]))
	n, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		panic(err)
	}
	return uintptr(n)
}
