package workload

// appendHex appends the low 4*digits bits of x.
func appendHex(dst []byte, x uint64, digits int) []byte {
	const hex = "0123456789abcdef"
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, hex[x>>shift&15])
	}
	return dst
}

// appendDigits appends x in decimal, at least with so many digits, at most 20.
func appendDigits(dst []byte, x uint64, digits int) []byte {
	var text [20]byte
	at := len(text)
	for x > 0 || len(text)-at < digits {
		at--
		text[at] = '0' + byte(x%10)
		x /= 10
	}
	return append(dst, text[at:]...)
}

// appendFixed appends x / 10^decimals, x >= 0, as a JSON number.
func appendFixed(dst []byte, x, decimals int) []byte {
	var text [24]byte
	at := len(text)
	for n := uint64(x); n > 0 || len(text)-at <= decimals; n /= 10 {
		if decimals > 0 && len(text)-at == decimals {
			at--
			text[at] = '.'
			decimals = -1
		}
		at--
		text[at] = '0' + byte(n%10)
	}
	return append(dst, text[at:]...)
}
