//go:build lmdb || wiredtiger

package main

import "C"

import "iter"

// putPacked hands documents to put in groups of about batchBytes: their keys and bodies one
// behind the other, and the lengths of both. The memory is valid until put returns.
func putPacked(docs iter.Seq[document], put func(memory []byte, lengths []C.size_t) error) error {
	memory := make([]byte, 0, batchBytes+batchBytes/4)
	var lengths []C.size_t
	for doc := range docs {
		before := len(memory)
		memory = appendKey(memory, doc.key, doc.id)
		lengths = append(lengths, C.size_t(len(memory)-before), C.size_t(len(doc.body)))
		memory = append(memory, doc.body...)
		if len(memory) >= batchBytes {
			if err := put(memory, lengths); err != nil {
				return err
			}
			memory, lengths = memory[:0], lengths[:0]
		}
	}
	if len(lengths) == 0 {
		return nil
	}
	return put(memory, lengths)
}
