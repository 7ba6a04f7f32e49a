package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
)

// ExportChunk is how many bytes an answer to Export has at most.
const ExportChunk = 1 << 20

// StillExporting is the offset with which a client asks again that was told that the node is still at it.
const StillExporting = math.MaxUint64

// AppendExport appends a request for the content of a group's partition from an offset on. At offset
// 0 the node exports it anew; it keeps one export for each connection. With alone it exports what it has, and asks no leader.
func AppendExport(dst []byte, number, group, offset uint64, alone bool) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(dst, number), group), offset)
	if alone {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// AppendExport appends the answer to Export. Size 0: the node is still at it.
func (h *Head) AppendExport(dst []byte, size, index uint64, chunk []byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(h.append(dst, 0), size), index), chunk...)
}

// Export decodes the answer to Export. The chunk is part of what was decoded.
func (p *Reply) Export() (size, index uint64, chunk []byte, err error) {
	r := reader{b: p.rest}
	size, index = r.uvarint(), r.uvarint()
	if r.bad || len(r.b) > ExportChunk {
		return 0, 0, nil, fmt.Errorf("%w: export", ErrInvalid)
	}
	return size, index, r.b, nil
}
