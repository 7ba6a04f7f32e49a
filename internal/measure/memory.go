package measure

import (
	"strconv"
	"strings"
)

// Memory is what the process occupies, in bytes. Resident counts mapped files
// too, which the system takes back when it needs room; anonymous does not.
type Memory struct {
	Resident      int64 `json:"resident_bytes"`
	PeakResident  int64 `json:"peak_resident_bytes"` // of the samples
	Anonymous     int64 `json:"anonymous_bytes"`
	PeakAnonymous int64 `json:"peak_anonymous_bytes"` // of the samples
}

// Sample takes what the process occupies now, and keeps the peaks. It does
// nothing on systems that do not tell.
func (m *Memory) Sample() {
	now, ok := readMemory()
	if !ok {
		return
	}
	m.Resident, m.Anonymous = now.Resident, now.Anonymous
	m.PeakResident = max(m.PeakResident, now.Resident)
	m.PeakAnonymous = max(m.PeakAnonymous, now.Anonymous)
}

// parseMemory reads the form of /proc/PID/status: lines "Name:  1234 kB".
func parseMemory(text string) (m Memory, ok bool) {
	found := 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		var field *int64
		switch name {
		case "VmHWM":
			field = &m.PeakResident
		case "VmRSS":
			field = &m.Resident
		case "RssAnon":
			field = &m.Anonymous
		default:
			continue
		}
		number, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		kib, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return Memory{}, false
		}
		*field = kib << 10
		found++
	}
	m.PeakAnonymous = m.Anonymous
	return m, found == 3
}
