// Package resourceid makes the resource ids of databases, containers, items and offers.
package resourceid

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// Resource ids, as clients of the protocol expect them, in base64 with - in the place of /:
//
//	database    4 bytes   its number
//	container   8 bytes   that of its database, then its own with the highest bit set
//	item       16 bytes   those of its container, then the number of the item
//	offer       3 bytes   the number of the database or container
//
// The number of an item is written in digits whose order as text is that of the numbers,
// so that items sorted by _rid are in the order in which they were created.
const (
	ridNumberDigits = 9 // 54 bits
	ridPrefixChars  = 11
	// ItemChars is the length of the resource id of an item.
	ItemChars = 24
	// A container's own number has this bit.
	containerBit = 1 << 31
	// MaxNumber bounds the numbers of databases and containers: an offer has three bytes for one.
	MaxNumber = 1<<24 - 1
)

// orderedDigits are the characters of base64, in the order of their bytes.
const orderedDigits = "+-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func ridText(b []byte) string {
	return strings.ReplaceAll(base64.StdEncoding.EncodeToString(b), "/", "-")
}

// Database returns the resource id of a database.
func Database(number uint32) string {
	return ridText(binary.BigEndian.AppendUint32(nil, number))
}

// Container returns the resource id of a container of a database.
func Container(database, number uint32) string {
	b := binary.BigEndian.AppendUint32(nil, database)
	return ridText(binary.BigEndian.AppendUint32(b, number|containerBit))
}

// Offer returns the resource id of the offer of a database or container.
func Offer(number uint32) string {
	return ridText([]byte{byte(number >> 16), byte(number >> 8), byte(number)})
}

// Item returns the resource id of the item with this number in a container.
func Item(container string, number uint64) string {
	b := make([]byte, ItemChars)
	copy(b, container[:ridPrefixChars])
	for i := range ridNumberDigits {
		b[ridPrefixChars+ridNumberDigits-1-i] = orderedDigits[number&63]
		number >>= 6
	}
	copy(b[ridPrefixChars+ridNumberDigits:], "AA==")
	return string(b)
}

// DatabaseRecord returns the id of the record of a database in the catalogue. Names have no slash, but the
// ids of documents must not have one either: a tilde, which names double, stands between them.
func DatabaseRecord(name string) string { return "database~" + strings.ReplaceAll(name, "~", "~~") }

// ContainerRecord returns the id of the record of a container in the catalogue.
func ContainerRecord(database, name string) string {
	return "container~" + strings.ReplaceAll(database, "~", "~~") + "~-" + strings.ReplaceAll(name, "~", "~~")
}
