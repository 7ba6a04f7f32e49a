package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/cleavestore/cleave/internal/fault"
)

// LinkOrCopy gives a file that nobody writes to any more a second name. Where
// the file system makes no link of it, since the inode has all the names that
// it can have, the directories lie on different devices, or links are not
// permitted or not known, the file is copied and the copy synced. It returns
// how many bytes were copied. The new name is not durable before SyncDir; after
// an error there is none.
func LinkOrCopy(fsys FS, from, to string) (copied int64, err error) {
	err = fsys.Link(from, to)
	if err == nil || !linkRefused(err) {
		return 0, err
	}
	return copyOrRemove(fsys, from, fsys, to)
}

// LinkTo gives a file that nobody writes to any more a second name in another file system.
// Only files of OS are linked. It returns false where the file must be copied.
func LinkTo(src FS, from string, dst FS, to string) (linked bool, err error) {
	a, ok := bare(src).(*osFS)
	b, same := bare(dst).(*osFS)
	if !ok || !same {
		return false, nil
	}
	link := func() error { return a.linkTo(from, b, to) }
	if s, ok := src.(*sparing); ok {
		err = s.try(link)
	} else {
		err = link()
	}
	if err != nil && linkRefused(err) {
		return false, nil
	}
	return err == nil, err
}

// linkTo is Link into another root. Both names go by open directories: a root may have been moved, and another one may
// be in its place.
func (o *osFS) linkTo(from string, into *osFS, to string) error {
	if _, err := o.regular(from); err != nil {
		return o.err("link", from, err)
	}
	source, err := o.openDir(path.Dir(from))
	if err != nil {
		return err
	}
	defer source.file.Close()
	target, err := into.openDir(path.Dir(to))
	if err != nil {
		return err
	}
	defer target.file.Close()
	return into.err("link", to, linkAt(source.file, path.Base(from), target.file, path.Base(to)))
}

// LinkOrCopyTo is LinkOrCopy into another file system.
func LinkOrCopyTo(src FS, from string, dst FS, to string) (copied int64, err error) {
	if linked, err := LinkTo(src, from, dst, to); linked || err != nil {
		return 0, err
	}
	return copyOrRemove(src, from, dst, to)
}

// copyOrRemove copies a file; after an error the copy is gone.
func copyOrRemove(src FS, from string, dst FS, to string) (copied int64, err error) {
	copied, err = copySynced(src, from, dst, to)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		_ = dst.Remove(to) // an orphan at worst
	}
	return copied, err
}

// linkRefused reports whether a link cannot be made where a copy can.
func linkRefused(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) ||
		slices.ContainsFunc(linkRefusals, func(refusal error) bool { return errors.Is(err, refusal) })
}

const copyBytes = 1 << 20

func copySynced(src FS, from string, dst FS, to string) (copied int64, err error) {
	in, err := src.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return 0, err
	}
	out, err := dst.Create(to)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, min(copyBytes, info.Size))
	for err == nil && copied < info.Size {
		b := buf[:min(int64(len(buf)), info.Size-copied)]
		var n int
		if n, err = in.ReadAt(b, copied); n < len(b) {
			if err == nil || err == io.EOF {
				err = fmt.Errorf("ends before its length of %d: %w", info.Size, io.ErrUnexpectedEOF)
			}
			err = fault.IO("read", in.Name(), copied+int64(n), err)
			break
		}
		_, err = out.WriteAt(b, copied)
		copied += int64(len(b))
	}
	if err == nil {
		err = out.Sync()
	}
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	return copied, err
}
