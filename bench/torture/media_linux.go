package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// image is a file system in a file, mounted through a loop device.
type image struct {
	root, kind string
	options    string
	mounted    bool
}

// kinds are the file systems that can be cut, with what makes and mounts them.
var kinds = map[string]struct{ make, options string }{
	"ext4":         {"mkfs.ext4 -qF", "loop"},
	"ext4-journal": {"mkfs.ext4 -qF", "loop,data=journal"},
	"xfs":          {"mkfs.xfs -qf", "loop"},
}

func newImage(kind string, mebibytes int) (medium, error) {
	k, ok := kinds[kind]
	if !ok {
		return nil, fmt.Errorf("file system %q: ext4, ext4-journal and xfs can be cut", kind)
	}
	root, err := os.MkdirTemp("", "torture-"+kind+"-")
	if err != nil {
		return nil, err
	}
	i := &image{root: root, kind: kind, options: k.options}
	file, err := os.Create(i.file())
	if err == nil {
		err = file.Truncate(int64(mebibytes) << 20)
		file.Close()
	}
	if err == nil {
		err = os.Mkdir(i.mount(), 0o700)
	}
	if err == nil {
		err = command(append(strings.Fields(k.make), i.file())...)
	}
	if err == nil {
		err = i.again()
	}
	if err != nil {
		i.remove()
		return nil, err
	}
	return i, nil
}

func (i *image) name() string  { return i.kind }
func (i *image) file() string  { return filepath.Join(i.root, "image") }
func (i *image) mount() string { return filepath.Join(i.root, "mount") }
func (i *image) dir() string   { return filepath.Join(i.mount(), "store") }

// The ioctl that ends all writing to a file system, and its argument that has
// the journal not flushed. ext4 and XFS have the same.
const (
	shutdown           = 0x8004587d
	shutdownNoLogFlush = 2
)

func (i *image) cut() error {
	d, err := os.Open(i.mount())
	if err != nil {
		return err
	}
	defer d.Close()
	how := uint32(shutdownNoLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, d.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		return fmt.Errorf("shut down %s: %w", i.kind, errno)
	}
	return nil
}

func (i *image) again() error {
	if i.mounted {
		if err := command("umount", i.mount()); err != nil {
			return err
		}
		i.mounted = false
	}
	if err := command("mount", "-o", i.options, i.file(), i.mount()); err != nil {
		return err
	}
	i.mounted = true
	return nil
}

func (i *image) remove() {
	if i.mounted {
		if err := command("umount", i.mount()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
	os.RemoveAll(i.root)
}

func command(words ...string) error {
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(words, " "), err, out)
	}
	return nil
}

// fileID tells files apart that have several names.
func fileID(info os.FileInfo) any {
	s := info.Sys().(*syscall.Stat_t)
	return [2]uint64{uint64(s.Dev), s.Ino}
}
