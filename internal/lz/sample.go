package lz

import "slices"

// Sample makes the content of a dictionary of at most so many bytes from documents that it takes at even
// distances. It returns nil if they have fewer than least bytes. It takes only the beginning of a document
// that is far larger than most of the others: it would leave no room for these.
func Sample(samples [][]byte, least, most int) []byte {
	part := most / 16
	if n := len(samples); n > 0 {
		lengths := make([]int, n)
		for i, s := range samples {
			lengths[i] = len(s)
		}
		slices.Sort(lengths)
		part = max(part, 2*lengths[n/2])
	}
	total := 0
	for _, s := range samples {
		total += min(len(s), part)
	}
	if total < least || most < least {
		return nil
	}
	// Take each sample at which the running sum of lengths, scaled to most,
	// passes what was taken.
	out := make([]byte, 0, min(most, total))
	seen := 0
	for _, s := range samples {
		s = s[:min(len(s), part)]
		seen += len(s)
		if total > most && len(out) > int(int64(seen)*int64(most)/int64(total)) {
			continue
		}
		out = append(out, s[:min(len(s), most-len(out))]...)
		if len(out) == most {
			break
		}
	}
	return out
}
