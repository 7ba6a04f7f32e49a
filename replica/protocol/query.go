package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cleavestore/cleave/partmap"
)

// Search is a query of one group. The key of its ReadRequest is that of a logical partition, or the first levels of the keys of several;
// the zero key stands for all.
type Search struct {
	Range      partmap.Range // within that of the group; keys outside are left out
	Text       string        // SQL
	Parameters string        // JSON object, empty: there are none
	Continue   string        // of the page before; empty: from the beginning
}

// Row is a result of a query. ETag is that of the item of which it is a part, 0: it is of several.
type Row struct {
	ETag uint64
	Body []byte
}

// Page is the answer to a query.
type Page struct {
	// Done says that there are no more results in the range.
	Done bool
	Rows []Row
	// Continue goes on after the last row, or from the beginning if there is none. Short does so in at most 1,024
	// characters; empty: Continue is short enough.
	Continue, Short string
	// Documents were read for the page, which have Bytes.
	Documents, Bytes uint64
	Charge           float64 // of the page, in request units
}

// MaxResults is how many results an answer to a query has at most.
const MaxResults = 1000

func (r *ReadRequest) appendQuery(dst []byte) []byte {
	key := ""
	if r.Key.Valid() {
		key = r.Key.String()
	}
	q := &r.Query
	dst = appendText(appendText(dst, r.Container), key)
	dst = appendText(appendText(dst, q.Range.Min.String()), q.Range.Max.String())
	dst = appendText(appendText(dst, q.Text), q.Parameters)
	return appendText(binary.AppendUvarint(dst, r.Limit), q.Continue)
}

func (r *ReadRequest) decodeQuery(f *reader) (err error) {
	from, to := string(f.bytes()), string(f.bytes())
	r.Query.Text, r.Query.Parameters = string(f.bytes()), string(f.bytes())
	r.Limit, r.Query.Continue = f.uvarint(), string(f.bytes())
	if f.bad {
		return nil
	}
	if r.Query.Range.Min, err = partmap.ParseEPK(from); err == nil {
		r.Query.Range.Max, err = partmap.ParseEPK(to)
	}
	if err == nil && r.Query.Range.Empty() {
		err = errors.New("it is empty")
	}
	return err
}

// AppendPage appends the answer to Query.
func (h *Head) AppendPage(dst []byte, p *Page) []byte {
	dst = binary.AppendUvarint(append(h.append(dst, 0), flagOf(p.Done)), uint64(len(p.Rows)))
	for i := range p.Rows {
		dst = binary.LittleEndian.AppendUint64(dst, p.Rows[i].ETag)
		dst = append(binary.AppendUvarint(dst, uint64(len(p.Rows[i].Body))), p.Rows[i].Body...)
	}
	dst = appendText(appendText(dst, p.Continue), p.Short)
	return appendCharge(binary.AppendUvarint(binary.AppendUvarint(dst, p.Documents), p.Bytes), p.Charge)
}

// Page decodes the answer to Query. The rows are part of what was decoded.
func (p *Reply) Page() (out Page, err error) {
	r := reader{b: p.rest}
	out.Done = r.byte() != 0
	for n := r.count(9); n > 0 && !r.bad; n-- {
		out.Rows = append(out.Rows, Row{r.fixed(), r.bytes()})
	}
	out.Continue, out.Short = string(r.bytes()), string(r.bytes())
	out.Documents, out.Bytes, out.Charge = r.uvarint(), r.uvarint(), r.charge()
	if r.bad || len(r.b) > 0 {
		return Page{}, fmt.Errorf("%w: page of a query", ErrInvalid)
	}
	return out, nil
}
