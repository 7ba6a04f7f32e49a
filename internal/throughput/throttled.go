package throughput

import (
	"errors"
	"fmt"
	"time"

	"github.com/cleavestore/cleave/partmap"
)

// ErrThrottled is what a *ThrottledError matches.
var ErrThrottled = errors.New("throttled: request rate is too large")

// ThrottledError says that a physical partition or, if Key is valid, the logical partition
// Key has consumed more than its share.
type ThrottledError struct {
	Partition  partmap.PartitionID
	Key        partmap.Key
	RetryAfter time.Duration // until it admits the next operation, unless others come first
}

// Error implements error.
func (e *ThrottledError) Error() string {
	if e.Key.Valid() {
		return fmt.Sprintf("logical partition %s: %v; retry after %v", e.Key, ErrThrottled, e.RetryAfter)
	}
	return fmt.Sprintf("physical partition %d: %v; retry after %v", e.Partition, ErrThrottled, e.RetryAfter)
}

// Is matches ErrThrottled.
func (e *ThrottledError) Is(target error) bool { return target == ErrThrottled }
