package transfer

import (
	"encoding/json"
	"io"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/stream"
)

// blockBytes is the size from which a block of items is complete.
const blockBytes = 64 << 10

// Writer writes a partition.
type Writer struct {
	out   *stream.Writer
	block []byte // items that are not written yet
	tail  tail
}

// NewWriter writes the head. Errors are those of w.
func NewWriter(w io.Writer, h *Head) (*Writer, error) {
	out, err := stream.NewWriter(w)
	if err != nil {
		return nil, err
	}
	return &Writer{out: out}, writeJSON(out, HeadBlock, h)
}

func writeJSON(w *stream.Writer, kind byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.Block(kind, text)
}

// Add adds an item, or a claim if the version has that flag.
func (w *Writer) Add(k *item.Key, v *item.Version) error {
	if v.Flags == item.Claim {
		w.tail.Claims++
	} else {
		w.tail.Items++
	}
	w.block = logrecord.AppendCarried(w.block, k, v)
	if len(w.block) < blockBytes {
		return nil
	}
	return w.flush()
}

func (w *Writer) flush() error {
	if len(w.block) == 0 {
		return nil
	}
	err := w.out.Block(ItemsBlock, w.block)
	w.block = w.block[:0]
	return err
}

// Close writes the tail and ends the stream. It does not close what the stream is written
// to.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := writeJSON(w.out, TailBlock, &w.tail); err != nil {
		return err
	}
	return w.out.Close()
}

// Items returns the number of items that were added, without claims.
func (w *Writer) Items() int64 { return w.tail.Items }

// Bytes returns the length of what was written.
func (w *Writer) Bytes() int64 { return w.out.Bytes() }
