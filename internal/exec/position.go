package exec

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/murmur"
	"github.com/cleavestore/cleave/internal/query"
	"github.com/cleavestore/cleave/partmap"
)

// Position is a place in the results of a query: the item with this order key, key and
// id, or the group with this order key. It holds values of documents only, and no
// sequences or partition ids, so that it survives splits and restarts.
type Position struct {
	Order []byte      // order key of an item, or key of a group
	Key   partmap.Key // the zero key for groups
	ID    string
	short *shortened // what a short continuation leaves out; nil: nothing
}

var (
	ErrNeedsScan       = errors.New("query needs a scan")
	ErrBadContinuation = errors.New("bad continuation")
)

// A continuation is, in URL-safe base64,
//
//	format u8 = 1, or 2 if it is a short one with hashes
//	query  u64        hash of the query and its scope
//	what   u8         of format 2: 1: order is a hash; 2: the item is one
//	order  uvarint length, bytes
//	key    uvarint length, encoded partition key; none for groups
//	       as a hash: the length 16 and the hash; uvarint length, EPK
//	id     the rest; with a hash of the item, the beginning of it
//	crc    u32        Castagnoli, of everything before
const (
	continuationFormat = 1
	shortFormat        = 2
	orderIsHash        = 1
	itemIsHash         = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Text returns the continuation after a position. short says that it may have hashes: it is
// then at most MaxShort long.
func (p *Position) Text(hash uint64, short bool) string {
	b := binary.LittleEndian.AppendUint64([]byte{continuationFormat}, hash)
	order, pk, id := p.Order, p.Key.Encoded(), p.ID
	var epk []byte
	if s := p.shorten(); short && s != nil {
		what := byte(0)
		if s.order {
			what, order = what|orderIsHash, s.orderSum[:]
		}
		if s.item {
			what, pk, epk, id = what|itemIsHash, s.itemSum[:], s.epk, s.id
		}
		b[0], b = shortFormat, append(b, what)
	}
	b = append(binary.AppendUvarint(b, uint64(len(order))), order...)
	b = append(binary.AppendUvarint(b, uint64(len(pk))), pk...)
	if epk != nil {
		b = append(binary.AppendUvarint(b, uint64(len(epk))), epk...)
	}
	b = append(b, id...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParsePosition reads a continuation of the query with this hash. Of a short one, what is a
// hash is not yet found.
func ParsePosition(text string, hash uint64) (*Position, error) {
	bad := func(why string) (*Position, error) { return nil, fmt.Errorf("%w: %s", ErrBadContinuation, why) }
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 1+8+1+1+4 {
		return bad("not what Continue gave")
	}
	b, sum := b[:len(b)-4], b[len(b)-4:]
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(sum) {
		return bad("not what Continue gave")
	}
	format := b[0]
	if format != continuationFormat && format != shortFormat {
		return bad("of another version")
	}
	if binary.LittleEndian.Uint64(b[1:]) != hash {
		return bad("of another query or scope")
	}
	b = b[9:]
	p := &Position{}
	if format == shortFormat {
		if len(b) == 0 || b[0] == 0 || b[0] > orderIsHash|itemIsHash {
			return bad("not what Continue gave")
		}
		p.short = &shortened{order: b[0]&orderIsHash != 0, item: b[0]&itemIsHash != 0}
		b = b[1:]
	}
	take := func() []byte {
		n, at := binary.Uvarint(b)
		if at <= 0 || n > uint64(len(b)-at) {
			return nil
		}
		part := b[at : at+int(n) : at+int(n)]
		b = b[at+int(n):]
		return part
	}
	p.Order = take()
	if p.Order == nil {
		return bad("not what Continue gave")
	}
	pk := take()
	if p.short != nil {
		if p.short.order && copy(p.short.orderSum[:], p.Order) != len(p.Order) || p.short.item && copy(p.short.itemSum[:], pk) != len(pk) {
			return bad("not what Continue gave")
		}
		if p.short.order {
			p.Order = nil
		}
		if p.short.item {
			p.short.epk = take()
			p.short.id = string(b)
			return p, nil
		}
	}
	if len(pk) > 0 {
		if p.Key, err = partmap.FromEncoded(pk); err != nil || len(b) == 0 || len(b) > item.MaxID {
			return bad("not what Continue gave")
		}
	}
	p.ID = string(b)
	return p, nil
}

// Hash tells queries and their scopes apart.
func Hash(container uint32, scope string, s *query.Select) uint64 {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n%s\n%s\n%v %v\n", container, scope, s.Where, s.Value, s.Distinct)
	for _, col := range s.Columns {
		fmt.Fprintf(&b, "column %d %q %q\n", col.Func, col.Path, col.Name)
	}
	for _, p := range s.GroupBy {
		fmt.Fprintf(&b, "group %q\n", p)
	}
	for _, o := range s.OrderBy {
		fmt.Fprintf(&b, "order %q %v\n", o.Path, o.Falling)
	}
	h, _ := murmur.Sum128([]byte(b.String()))
	return h
}
