package vfs

import (
	"math"
	"os"
	"strconv"
	"strings"
)

func maxMappings() int {
	const usual = 65530
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return usual
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n <= 0 {
		return math.MaxInt
	}
	return n
}
