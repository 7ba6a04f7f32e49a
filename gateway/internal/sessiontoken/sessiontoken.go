// Package sessiontoken reads the session tokens of the protocol.
package sessiontoken

import (
	"fmt"
	"strconv"
	"strings"
)

// Entry is what a session has seen of a physical partition.
type Entry struct {
	Range string // id of the partition
	LSN   uint64 // sequence of its newest write that was seen
}

// Parse reads a token: a list of range:version#sequence, where #region=sequence may follow once for each region. The older
// form range:sequence is read too. An empty token has no entries.
func Parse(token string) ([]Entry, error) {
	if token == "" {
		return nil, nil
	}
	var entries []Entry
	for part := range strings.SplitSeq(token, ",") {
		id, rest, _ := strings.Cut(part, ":")
		fields := strings.Split(rest, "#")
		lsn, err := strconv.ParseUint(fields[min(1, len(fields)-1)], 10, 64)
		if err == nil && len(fields) > 1 {
			_, err = strconv.ParseInt(fields[0], 10, 64)
		}
		for _, region := range fields[min(2, len(fields)):] {
			name, seen, _ := strings.Cut(region, "=")
			_, errName := strconv.ParseUint(name, 10, 64)
			if _, errSeen := strconv.ParseInt(seen, 10, 64); errName != nil || errSeen != nil {
				err = strconv.ErrSyntax
			}
		}
		if id == "" || err != nil {
			return nil, fmt.Errorf("%.80q is not range:version#sequence", part)
		}
		entries = append(entries, Entry{id, lsn})
	}
	return entries, nil
}

// Text returns a token with these entries, as answers have it.
func Text(entries []Entry) string {
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(e.Range)
		b.WriteString(":-1#")
		b.WriteString(strconv.FormatUint(e.LSN, 10))
	}
	return b.String()
}

// Newest returns the highest sequence of the entries, 0 if there are none.
func Newest(entries []Entry) uint64 {
	most := uint64(0)
	for _, e := range entries {
		most = max(most, e.LSN)
	}
	return most
}
