//go:build race && (amd64 || arm64)

package lockorder

// goroutine returns what tells the running goroutine from the others that there
// are: the address of its descriptor.
func goroutine() uintptr
