package backup

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/wal"
)

// Verify reads r to its end, checks the backups in it as Restore does, and returns their
// descriptions. The first backup may be an incremental one.
func Verify(ctx context.Context, r io.Reader) (all []Info, err error) {
	err = readAll(ctx, r, passedOver{}, func(i Info) error {
		all = append(all, i)
		return nil
	})
	if err != nil {
		err = fmt.Errorf("verify backup: %w", err)
	}
	return all, err
}

// passedOver keeps nothing of a backup.
type passedOver struct{}

func (passedOver) Begin(*Catalog) error                    { return nil }
func (passedOver) Record(wal.Stream, uint64, []byte) error { return nil }
func (passedOver) File(*File) error                        { return nil }
func (passedOver) Data([]byte) error                       { return nil }

const inputBuffer = 256 << 10

// readAll reads the streams in r, of which there must be one, and hands what is in them
// to h. It calls each after each stream.
func readAll(ctx context.Context, r io.Reader, h Handler, each func(Info) error) error {
	name := "backup"
	if f, ok := r.(interface{ Name() string }); ok {
		name = f.Name()
	}
	d := NewReader(name, bufio.NewReaderSize(r, inputBuffer))
	for n := 0; ; n++ {
		info, err := d.Next(ctx, h)
		switch {
		case err == io.EOF && n == 0:
			return fault.Corrupt(name, 0, "it is empty")
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := each(info); err != nil {
			return err
		}
	}
}
