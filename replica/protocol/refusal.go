package protocol

import (
	"encoding/binary"
	"errors"

	"github.com/cleavestore/cleave/engine"
)

// uniqueKey is the code of engine.ErrUniqueKey.
const uniqueKey = 11

// appendRefusal appends why a batch was refused.
func appendRefusal(dst []byte, err error) []byte {
	code := codeOf(err)
	dst = appendText(append(dst, code), err.Error())
	if code != uniqueKey {
		return dst
	}
	of := new(engine.UniqueKeyError)
	errors.As(err, &of)
	dst = binary.AppendUvarint(appendText(appendText(dst, of.ID), of.Holder), uint64(len(of.Paths)))
	for _, path := range of.Paths {
		dst = appendText(dst, path)
	}
	return dst
}

// refusal reads what appendRefusal has written behind the code.
func (r *reader) refusal(code byte) error {
	text := string(r.bytes())
	if code != uniqueKey {
		return errorOf(code, text)
	}
	of := &engine.UniqueKeyError{ID: string(r.bytes()), Holder: string(r.bytes())}
	for n := r.count(1); n > 0 && !r.bad; n-- {
		of.Paths = append(of.Paths, string(r.bytes()))
	}
	return &remote{text, of}
}
