package protocol

import (
	"encoding/binary"
	"fmt"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
)

// ChangesRequest asks for a page of the changes in a range of the key space, which a group has.
type ChangesRequest struct {
	Group     uint64
	Strong    bool // every write is there that was acknowledged before the request
	Container string
	Range     partmap.Range
	Position  string // as engine.ParsePosition reads it
	Limit     uint64 // of the changes in the answer
}

// Append appends a request of kind Changes.
func (r *ChangesRequest) Append(dst []byte, number uint64) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, number), r.Group)
	dst = appendText(append(dst, flagOf(r.Strong)), r.Container)
	dst = appendText(appendText(dst, string(r.Range.Min.Bytes())), string(r.Range.Max.Bytes()))
	return binary.AppendUvarint(appendText(dst, r.Position), r.Limit)
}

func (r *ChangesRequest) decode(f *reader) (err error) {
	r.Group, r.Strong, r.Container = f.uvarint(), f.byte() != 0, string(f.bytes())
	if r.Range.Min, err = partmap.EPKFromBytes(f.bytes()); err == nil {
		r.Range.Max, err = partmap.EPKFromBytes(f.bytes())
	}
	if err != nil || r.Range.Empty() {
		return fmt.Errorf("%w: a range of the key space: %v", ErrInvalid, err)
	}
	r.Position, r.Limit = string(f.bytes()), f.uvarint()
	return nil
}

func flagOf(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// ChangesPage is the answer to Changes.
type ChangesPage struct {
	Items    []engine.Item // with their keys and sequences
	Position string        // behind them
	More     bool          // there are more
	Charge   float64       // of the page, in request units
}

// AppendChanges appends the answer to Changes.
func (h *Head) AppendChanges(dst []byte, p *ChangesPage) []byte {
	dst = appendCharge(appendText(append(h.append(dst, 0), flagOf(p.More)), p.Position), p.Charge)
	dst = binary.AppendUvarint(dst, uint64(len(p.Items)))
	for i := range p.Items {
		it := &p.Items[i]
		dst = appendItem(binary.AppendUvarint(appendText(dst, it.Key.String()), it.Seq), it)
	}
	return dst
}

// Changes decodes the answer to Changes. The bodies are part of what was decoded.
func (p *Reply) Changes() (out ChangesPage, err error) {
	r := reader{b: p.rest}
	out.More, out.Position, out.Charge = r.byte() != 0, string(r.bytes()), r.charge()
	for n := r.count(21); n > 0 && !r.bad; n-- {
		key, failed := engine.ParseKey(string(r.bytes()))
		seq := r.uvarint()
		it := r.item()
		it.Key, it.Seq = key, seq
		r.bad = r.bad || failed != nil
		out.Items = append(out.Items, it)
	}
	if r.bad || len(r.b) > 0 {
		return ChangesPage{}, fmt.Errorf("%w: changes", ErrInvalid)
	}
	return out, nil
}
