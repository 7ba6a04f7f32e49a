package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	bolt "go.etcd.io/bbolt"
)

const (
	copies   = 20       // how often the file is copied until no commit came in between
	copyStep = 64 << 20 // an interrupt is seen after each
)

// readBolt reads a bucket. A process that has the file open for writing holds its lock, so
// a copy of the file is read. A writer does not touch the pages of the newest commit before
// it has made the next one: a copy is that commit if the file had the same newest one
// before and after. The library ends its process where it meets a damaged page: here that is
// an error.
func (c *config) readBolt(ctx context.Context, w *printer) (err error) {
	debug.SetPanicOnFault(true) // as for an offset that leads out of the file
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s: the file is damaged: %v", c.source, cause)
		}
	}()
	file, err := os.CreateTemp("", "cleave-migrate")
	if err != nil {
		return err
	}
	// Where the system allows it, the copy loses its name now: a crash leaves nothing.
	if os.Remove(file.Name()) != nil {
		defer os.Remove(file.Name())
	}
	defer file.Close()
	if err = copyBolt(ctx, c.source, file); err != nil {
		return err
	}
	db, err := bolt.Open(file.Name(), 0o600, &bolt.Options{
		ReadOnly: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return file, nil },
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.source, err)
	}
	defer db.Close()
	return db.View(func(tx *bolt.Tx) error {
		// Pages of the commit beyond the end of the file would end the process.
		info, err := file.Stat()
		if err == nil && info.Size() < tx.Size() {
			err = fmt.Errorf("%s: the file is truncated: it has %d bytes, and %d belong to its newest commit", c.source, info.Size(), tx.Size())
		}
		if err != nil {
			return err
		}
		b, err := bucket(tx, c.bucket)
		if err != nil {
			return err
		}
		return b.ForEach(func(k, v []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			at := fmt.Sprintf("bucket %s, key %q", c.bucket, k)
			if v == nil {
				return w.print(at, nil, errors.New("a bucket inside of the bucket: import it by its own path"))
			}
			return c.pair(w, at, k, v)
		})
	})
}

// bucket returns the bucket with a path.
func bucket(tx *bolt.Tx, path string) (*bolt.Bucket, error) {
	if path == "" {
		var names []string
		_ = tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
			names = append(names, string(name))
			return nil
		})
		return nil, fmt.Errorf("name one of the buckets %q with bucket=PATH", names)
	}
	var b *bolt.Bucket
	for i, part := range strings.Split(path, "/") {
		if i == 0 {
			b = tx.Bucket([]byte(part))
		} else {
			b = b.Bucket([]byte(part))
		}
		if b == nil {
			return nil, fmt.Errorf("no bucket %q of the path %s", part, path)
		}
	}
	return b, nil
}

// copyBolt copies a file as of one commit.
func copyBolt(ctx context.Context, from string, to *os.File) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	for range copies {
		before, err := metaPages(in)
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		_, err = in.Seek(0, io.SeekStart)
		_, seekErr := to.Seek(0, io.SeekStart)
		if err = errors.Join(err, seekErr, to.Truncate(0)); err != nil {
			return err
		}
		for err == nil {
			if err = ctx.Err(); err == nil {
				_, err = io.CopyN(to, in, copyStep)
			}
		}
		if err != io.EOF {
			return err
		}
		after, err := metaPages(in)
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		if bytes.Equal(before, after) {
			return nil
		}
	}
	return fmt.Errorf("%s: a commit came during each of %d copies: stop the writer, or have it write a copy with Tx.WriteTo and import that", from, copies)
}

// Layout of the two first pages: a header, then the meta data of a commit.
const (
	pageHeader   = 16
	metaBytes    = 64
	metaMagic    = 0xED0CDAED
	pageSizeAt   = pageHeader + 8
	largestPage  = 64 << 10
	smallestPage = 512
)

// metaPages returns the meta data of the two newest commits.
func metaPages(f io.ReaderAt) ([]byte, error) {
	meta := make([]byte, 2*metaBytes)
	first := make([]byte, pageHeader+metaBytes)
	// The first page tells the size of pages. If it is torn, the sizes that there are
	// are tried.
	sizes := []int64{}
	if _, err := f.ReadAt(first, 0); err != nil {
		return nil, fmt.Errorf("no bbolt file: %w", err)
	}
	if size := int64(binary.NativeEndian.Uint32(first[pageSizeAt:])); size >= smallestPage && size <= largestPage {
		sizes = append(sizes, size)
	}
	for size := int64(smallestPage); size <= largestPage; size *= 2 {
		sizes = append(sizes, size)
	}
	copy(meta, first[pageHeader:])
	for _, size := range sizes {
		if _, err := f.ReadAt(meta[metaBytes:], size+pageHeader); err != nil {
			continue
		}
		if binary.NativeEndian.Uint32(meta[metaBytes:]) == metaMagic {
			return meta, nil
		}
	}
	return nil, errors.New("no bbolt file: its second page is not one")
}
