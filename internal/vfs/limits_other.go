//go:build unix && !linux

package vfs

import "math"

func maxMappings() int { return math.MaxInt }
