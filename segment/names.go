package segment

import (
	"errors"
	"slices"
	"sync"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// names are the names by which a reader may open its file. It needs one of them for as
// long as it may be used. Copies of a file that could not be linked count as names of
// it.
type names struct {
	sync.Mutex
	list []string
}

// AddName says that the file has another name.
func (r *Reader) AddName(name string) {
	r.names.Lock()
	defer r.names.Unlock()
	if !slices.Contains(r.names.list, name) {
		r.names.list = append(r.names.list, name)
	}
}

// LetGo says that the file is about to lose a name. It returns false if that is the last
// name and the reader is pinned: then the name must stay, and LetGo is to be called
// again later.
func (r *Reader) LetGo(name string) bool {
	r.names.Lock()
	defer r.names.Unlock()
	at := slices.Index(r.names.list, name)
	if at >= 0 && len(r.names.list) > 1 {
		r.names.list = slices.Delete(r.names.list, at, at+1)
		return true
	}
	return at < 0 || r.pins.Load() == 0
}

// openName opens the file by one of its names. opening is locked.
func (r *Reader) openName() (f vfs.File, err error) {
	r.names.Lock()
	list := slices.Clone(r.names.list)
	r.names.Unlock()
	for _, name := range list {
		// A name may go after the list was copied.
		if f, err = r.fs.Open(name); !errors.Is(err, fault.ErrMissing) {
			break
		}
	}
	if err != nil {
		return nil, fault.IO("open", r.name, -1, err)
	}
	if err = r.recognise(f); err != nil {
		f.Close()
		return nil, err
	}
	f.Advise(0, 0, vfs.Random)
	return f, nil
}

// recognise makes sure that the opened file is the one that was open before, or a copy
// of it. opening is locked.
func (r *Reader) recognise(f vfs.File) error {
	info, err := f.Stat()
	if err != nil {
		return fault.IO("stat", r.name, -1, err)
	}
	h := &r.handle
	if !h.was {
		h.id = info.ID
		return nil
	}
	if h.id == info.ID {
		return nil
	}
	size := r.props.FileBytes
	if info.Size != size {
		return fault.Corrupt(r.name, min(size, info.Size), "file has %d bytes, had %d when opened", info.Size, size)
	}
	var foot [footerLen]byte
	if _, err = f.ReadAt(foot[:], size-footerLen); err != nil {
		return fault.IO("read", r.name, size-footerLen, err)
	}
	other, err := DecodeFooter(r.name, foot[:], info.Size)
	if err == nil && other.CRC != r.props.FooterCRC {
		err = fault.Corrupt(r.name, size-footerLen, "footer: checksum %08x, was %08x when opened", other.CRC, r.props.FooterCRC)
	}
	if err == nil {
		h.id = info.ID
		r.tables.forget() // they were verified in the other copy
	}
	return err
}

// keep makes sure that the file can be read when its names are gone: it stays mapped or,
// if it cannot be mapped, open. If there is room for neither, the reader needs the name.
func (r *Reader) keep() error {
	r.pins.Add(1) // for good
	if r.view() != nil {
		return nil
	}
	b := r.budget
	b.mu.Lock()
	if r.kept = b.kept+1 < b.o.MaxFiles; r.kept {
		b.kept++
	}
	b.mu.Unlock()
	if !r.kept {
		return nil
	}
	_, err := r.take() // for good
	return err
}

// copyMapped is readAt for a file that has no name any more.
func (r *Reader) copyMapped(b []byte, v *view, off int64) (err error) {
	defer r.unguard(guard(), &err)
	if n := copy(b, v.data[min(off, int64(len(v.data))):]); n < len(b) {
		return fault.Corrupt(r.name, off+int64(n), "%w", errEnded)
	}
	return nil
}
