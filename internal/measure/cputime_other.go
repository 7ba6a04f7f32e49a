//go:build !unix

package measure

import "time"

// CPUTime has no source on this system.
func CPUTime() time.Duration { return 0 }
