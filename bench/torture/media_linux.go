package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// image is a file system in a file, mounted through a loop device. The file lies in
// a directory, or in the file system of another image: its host.
type image struct {
	kind
	root    string // has the file and the place where it is mounted
	host    *image
	mounted bool
	cloned  bool // the file has a clone, which is what the cut left
}

// kind is a file system and how it is cut.
type kind struct {
	title   string
	make    string // command that makes one, before the file's name
	options string // of mount
	size    int    // mebibytes
	host    string // kind of the image that the file lies in; "": a directory
	how     cutting
}

type cutting int

const (
	byCall  cutting = iota // the file system's shutdown, without a flush of its journal
	byHost                 // that of the host: what is not flushed to the device is lost
	byClone                // the file is cloned at a moment: the device loses nothing of its cache
	never
)

// kinds are the file systems that -fs names. btrfs knows no shutdown. tmpfs is the
// small host of thin devices.
var kinds = []kind{
	{title: "ext4", make: "mkfs.ext4 -qF", options: "loop", size: 400},
	{title: "ext4-journal", make: "mkfs.ext4 -qF", options: "loop,data=journal", size: 400},
	{title: "xfs", make: "mkfs.xfs -qf", options: "loop", size: 400},
	{title: "btrfs", make: "mkfs.btrfs -qf", options: "loop", size: 400, host: "xfs-host", how: byHost},
	{title: "btrfs-clone", make: "mkfs.btrfs -qf", options: "loop", size: 400, host: "xfs-host", how: byClone},
	{title: "thin-ext4", make: "mkfs.ext4 -qF -E lazy_itable_init=0,lazy_journal_init=0", options: "loop", size: 400, host: "tmpfs", how: never},
	{title: "thin-btrfs", make: "mkfs.btrfs -qf", options: "loop", size: 400, host: "tmpfs", how: never},
	{title: "xfs-host", make: "mkfs.xfs -qf", options: "loop", size: 1500},
	{title: "tmpfs", options: "size=120m", how: never},
}

func kindOf(title string) (kind, error) {
	for _, k := range kinds {
		if k.title == title {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("file system %q: there are ext4, ext4-journal, xfs, btrfs, btrfs-clone, thin-ext4 and thin-btrfs", title)
}

func newImage(title string) (medium, error) {
	root, err := os.MkdirTemp("", "torture-"+title+"-")
	if err != nil {
		return nil, err
	}
	i, err := makeImage(title, root)
	if err != nil {
		os.RemoveAll(root)
		return nil, err
	}
	return i, nil
}

func makeImage(title, root string) (*image, error) {
	k, err := kindOf(title)
	if err != nil {
		return nil, err
	}
	i := &image{kind: k, root: root}
	if k.host != "" {
		host := filepath.Join(root, "host")
		if err := os.Mkdir(host, 0o700); err != nil {
			return nil, err
		}
		if i.host, err = makeImage(k.host, host); err != nil {
			return nil, err
		}
	}
	if err = os.MkdirAll(i.mount(), 0o700); err == nil && k.make != "" {
		var file *os.File
		if file, err = os.Create(i.file()); err == nil {
			err = errors.Join(file.Truncate(int64(k.size)<<20), file.Close())
		}
		if err == nil {
			err = command(append(strings.Fields(k.make), i.file())...)
		}
	}
	if err == nil {
		err = i.on()
	}
	if err == nil {
		err = command("sync", "-f", i.mount())
	}
	if err != nil {
		i.remove()
		return nil, err
	}
	return i, nil
}

func (i *image) name() string  { return i.title }
func (i *image) mount() string { return filepath.Join(i.root, "mount") }
func (i *image) dir() string   { return filepath.Join(i.mount(), "store") }

func (i *image) file() string {
	if i.host != nil {
		return filepath.Join(i.host.mount(), "image")
	}
	return filepath.Join(i.root, "image")
}

// The ioctl that ends all writing to a file system, and its argument that has
// the journal not flushed. ext4 and XFS have the same.
const (
	shutdown           = 0x8004587d
	shutdownNoLogFlush = 2
)

func (i *image) cut() error {
	switch i.how {
	case byHost:
		return i.host.cut()
	case byClone:
		// A clone waits for the writes under way, and is made at one moment.
		i.cloned = true
		return command("cp", "--reflink=always", i.file(), i.file()+".clone")
	case never:
		return fmt.Errorf("%s: cannot be cut", i.title)
	}
	d, err := os.Open(i.mount())
	if err != nil {
		return err
	}
	defer d.Close()
	how := uint32(shutdownNoLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, d.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		return fmt.Errorf("shut down %s: %w", i.title, errno)
	}
	return nil
}

func (i *image) on() error {
	words := []string{"mount", "-o", i.options, i.file(), i.mount()}
	if i.make == "" {
		words = []string{"mount", "-t", i.title, "-o", i.options, i.title, i.mount()}
	}
	err := command(words...)
	i.mounted = err == nil
	return err
}

func (i *image) off() error {
	if !i.mounted {
		return nil
	}
	err := command("umount", i.mount())
	i.mounted = err != nil
	return err
}

func (i *image) again() error {
	if err := i.off(); err != nil {
		return err
	}
	if i.cloned {
		i.cloned = false
		if err := os.Rename(i.file()+".clone", i.file()); err != nil {
			return err
		}
	}
	if i.how == byHost {
		if err := i.host.again(); err != nil {
			return err
		}
	}
	return i.on()
}

// full leaves 2 MiB of the file system, or of the host of a thin device, of which
// the file system knows nothing.
func (i *image) full() (string, error) {
	name := filepath.Join(i.mount(), "ballast")
	if i.thin() {
		name = filepath.Join(i.host.mount(), "ballast")
	}
	return name, fill(name, 2<<20)
}

func (i *image) thin() bool { return i.host != nil && i.host.make == "" }

func (i *image) remove() {
	if err := i.off(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	if i.host != nil {
		i.host.remove()
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

// ownGroup puts a command and those that it starts into a process group, which
// killGroup kills: strace alone would leave what it watches alive.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
