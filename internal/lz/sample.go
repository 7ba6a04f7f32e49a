package lz

// Sample makes the content of a dictionary of at most so many bytes from documents that it takes at even
// distances. It returns nil if they have fewer than least bytes.
func Sample(samples [][]byte, least, most int) []byte {
	total := 0
	for _, s := range samples {
		total += len(s)
	}
	if total < least || most < least {
		return nil
	}
	// Take each sample at which the running sum of lengths, scaled to most,
	// passes what was taken.
	out := make([]byte, 0, min(most, total))
	seen := 0
	for _, s := range samples {
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
