package forge

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"strings"
)

// The header of a manifest is a line of words: before the checksum and the length of the
// text those that the checksum covers, which end, where the file may be an edit of another one, with the
// generation, that of its base, and the checksum of that.

// Manifest returns a manifest with another text, or other numbers in its header, and says
// what.
func Manifest(rng *rand.Rand, b []byte) (forged []byte, what string) {
	head, _, text := manifestWords(b)
	if len(head) > 3 && rng.IntN(8) == 0 {
		at := 3 + rng.IntN(len(head)-3)
		n, _ := strconv.ParseUint(head[at], 10, 64)
		head[at] = strconv.FormatUint(number(rng, n), 10)
		return writeManifest(head, text), fmt.Sprintf("word %d of the header is %s", at, head[at])
	}
	text, what = JSON(rng, text)
	return writeManifest(head, text), what
}

// Rebase returns a manifest that is an edit of another one as an edit of what that was changed
// to; false: it is none.
func Rebase(b, from, to []byte) ([]byte, bool) {
	head, _, text := manifestWords(b)
	_, old, _ := manifestWords(from)
	_, sum, _ := manifestWords(to)
	if len(head) != 6 || head[5] != old {
		return b, false
	}
	head[5] = sum
	return writeManifest(head, text), true
}

func manifestWords(b []byte) (head []string, sum string, text []byte) {
	line, text, _ := bytes.Cut(b, []byte("\n"))
	words := strings.Split(string(line), " ")
	n := len(words) - 2
	return words[:n], words[n], text
}

func writeManifest(head []string, text []byte) []byte {
	line := strings.Join(head, " ")
	sum := crc32.Update(checksum([]byte(line)), castagnoli, text)
	return append(fmt.Appendf(nil, "%s %08x %d\n", line, sum, len(text)), text...)
}
