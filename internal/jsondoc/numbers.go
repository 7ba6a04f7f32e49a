package jsondoc

import (
	"strconv"
	"unsafe"
)

// digits returns the offset of the first byte at or after i that is no digit.
func digits(doc []byte, i int) int {
	for {
		if m := notDigit(load(doc, i)); m != 0 {
			return i + firstByte(m)
		}
		i += 8
	}
}

// number scans the number at i, which is a digit or a minus sign, and returns
// the offset after it. With a flaw it returns that one's offset.
func number(doc []byte, i int) (int, *flaw) {
	if doc[i] == '-' {
		i++
	}
	if j := shortNumber(doc, i); j != 0 {
		return j, nil
	}
	j := digits(doc, i)
	if j == i {
		return missingDigit(doc, i)
	}
	if doc[i] == '0' && j > i+1 {
		return i, flawZero
	}
	if j < len(doc) && doc[j] == '.' {
		i = j + 1
		if j = digits(doc, i); j == i {
			return missingDigit(doc, i)
		}
	}
	if j < len(doc) && doc[j]|0x20 == 'e' {
		i = j + 1
		if i < len(doc) && (doc[i] == '+' || doc[i] == '-') {
			i++
		}
		if j = digits(doc, i); j == i {
			return missingDigit(doc, i)
		}
	}
	return j, nil
}

// shortNumber returns the offset after digits with or without a fraction, if
// these and the byte after them are within 8 bytes from i and there is no
// exponent; else 0.
func shortNumber(doc []byte, i int) int {
	if i > len(doc)-8 {
		return 0
	}
	w := loadFast(doc, i)
	m := notDigit(w)
	if m == 0 {
		return 0
	}
	k := firstByte(m)
	if k == 0 || k > 1 && w&0xFF == '0' {
		return 0
	}
	if doc[i+k] == '.' {
		point := k
		if m &= m - 1; m == 0 {
			return 0
		}
		if k = firstByte(m); k == point+1 {
			return 0
		}
	}
	if doc[i+k]|0x20 == 'e' {
		return 0
	}
	return i + k
}

// notDigit marks, by their high bits, the bytes of w that are no digits; 0 if all
// are. Marks may be wrong above one of a byte that is not ASCII.
//
// A digit is 0 to 9 after the XOR; adding 76 makes all else 80 or more.
func notDigit(w uint64) uint64 {
	w ^= '0' * ones
	return ((w + 0x76*ones) | w) & highs
}

func missingDigit(doc []byte, i int) (int, *flaw) {
	if i >= len(doc) {
		return i, flawEnd
	}
	return i, flawDigit
}

// double returns the double nearest to a JSON number; beyond the range of doubles
// it is infinite. Of anything else it returns some value.
func double(text []byte) float64 {
	// Digits that fit 53 bits, divided by a power of ten that is exact, give the
	// nearest double.
	var digits uint64
	i, scale, point := 0, 0, false
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		i = 1
	}
	for ; i < len(text); i++ {
		c := text[i]
		if c-'0' < 10 && digits < 1<<49 {
			digits = digits*10 + uint64(c-'0')
			if point {
				scale++
			}
			continue
		}
		if c != '.' || point {
			break
		}
		point = true
	}
	if i < len(text) || digits >= 1<<53 || scale >= len(powersOfTen) {
		f, _ := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 64)
		return f
	}
	f := float64(digits) / powersOfTen[scale]
	if negative {
		return -f
	}
	return f
}

var powersOfTen = [...]float64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}
