package gateway

import (
	"time"
)

var s1970 = time.Unix(0, 0)

func s1970Clock() time.Time { return s1970 }
