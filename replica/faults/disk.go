package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// disk is a file system of a node's own, in a file, that can be frozen: then every write to it waits, as
// on a disk that does not answer.
type disk struct {
	dir    string
	helper *exec.Cmd      // of a stall; nil: none is under way
	end    io.WriteCloser // ends it
}

// diskBytes is the size of the file, which has as much as was written.
const diskBytes = 1 << 30

// newDisk puts a directory on a disk of its own, whose content is in a file.
func newDisk(dir, file string) (*disk, error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err = errors.Join(f.Truncate(diskBytes), f.Close()); err != nil {
		return nil, err
	}
	if err = tool("mkfs.ext4", "-q", "-E", "lazy_itable_init=1", file); err != nil {
		return nil, err
	}
	moved := dir + ".moved"
	if err = os.Rename(dir, moved); err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err == nil {
		err = tool("mount", "-o", "loop", file, dir)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir), os.Rename(moved, dir))
	}
	return &disk{dir: dir}, os.CopyFS(dir, os.DirFS(moved))
}

// stall has the disk stall, or go on. A process beside this one sees to it that it goes on when this one
// ends: nothing that waits for a frozen file system can be killed.
func (d *disk) stall(on bool) error {
	if d.helper != nil {
		d.end.Close()
		err := d.helper.Wait()
		d.helper = nil
		if err != nil || !on {
			return err
		}
	}
	if !on {
		return nil
	}
	cmd := exec.Command("sh", "-c", `trap "" INT TERM; fsfreeze -f "$0" && { echo frozen; read end; fsfreeze -u "$0"; }`, d.dir)
	var err error
	if d.end, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err = cmd.Start(); err != nil {
		return err
	}
	d.helper = cmd
	if _, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		return errors.Join(fmt.Errorf("freeze %s: %w", d.dir, err), d.stall(false))
	}
	return nil
}

func (d *disk) close() {
	_ = d.stall(false)
	_ = tool("umount", "-l", d.dir) // it goes with the namespace otherwise
}
