package engine

import (
	"path"
	"sync"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// asideFile returns the stand-in for a file that cannot be opened.
func (t *tree) asideFile(ref manifest.File, name string, why error) (*file, error) {
	lo, hi, err := boundsOf(ref)
	if err != nil {
		return nil, err
	}
	f := &file{ref: ref, min: lo, max: hi, name: name, path: t.env.fs.Path(name)}
	f.clip = f.bounds(t.family.levels)
	f.Reader = segment.Damaged(f.path, why, f.clip.lo, f.clip.hi)
	f.damage.Store(&why)
	f.aside.Store(true)
	return f, nil
}

// openFile opens a file reference and checks it against the file.
func (t *tree) openFile(ref manifest.File, shared *sharedFiles) (*file, error) {
	lo, hi, err := boundsOf(ref)
	if err != nil {
		return nil, err
	}
	name := path.Join(t.dir, manifest.SegmentName(ref.Number))
	info, err := t.env.fs.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size != ref.Size {
		return nil, fault.Corrupt(t.env.fs.Path(name), min(info.Size, ref.Size), "file has %d bytes, the manifest says %d", info.Size, ref.Size)
	}
	reader, err := shared.open(t.env, name, ref.Number, info)
	if err != nil {
		return nil, err
	}
	if reader.FooterCRC() != ref.FooterCRC {
		err := fault.Corrupt(t.env.fs.Path(name), info.Size-4, "footer checksum %08x, the manifest says %08x", reader.FooterCRC(), ref.FooterCRC)
		shared.forget(reader, ref.Number, info)
		return nil, err
	}
	f := &file{Reader: reader, ref: ref, min: lo, max: hi, name: name, path: t.env.fs.Path(name)}
	f.clipTo(t.family.levels)
	return f, nil
}

// sharedFiles holds the readers of files that have several names, while a store is
// opened: partitions that share a file share its reader.
type sharedFiles struct {
	mu      sync.Mutex
	readers map[sharedFile]*sharedReader
}

type sharedFile struct{ number, inode uint64 }

// sharedReader is locked while the file is opened, or closed.
type sharedReader struct {
	sync.Mutex
	*segment.Reader // nil: the file is not open
}

func (s *sharedFiles) of(number uint64, info vfs.Info) *sharedReader {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sharedFile{number, info.ID}
	r := s.readers[key]
	if r == nil {
		r = new(sharedReader)
		s.readers[key] = r
	}
	return r
}

func (s *sharedFiles) open(e *env, name string, number uint64, info vfs.Info) (*segment.Reader, error) {
	if info.Links <= 1 {
		return segment.Open(e.fs, name, e.reader)
	}
	r := s.of(number, info)
	r.Lock()
	defer r.Unlock()
	if r.Reader != nil {
		r.AddName(name)
		r.Acquire()
		return r.Reader, nil
	}
	var err error
	r.Reader, err = segment.Open(e.fs, name, e.reader)
	return r.Reader, err
}

// forget releases a reader that open returned, which may close it. Later calls of open
// do not return it again.
func (s *sharedFiles) forget(reader *segment.Reader, number uint64, info vfs.Info) {
	if info.Links > 1 {
		r := s.of(number, info)
		r.Lock()
		defer r.Unlock()
		if r.Reader == reader {
			r.Reader = nil
		}
	}
	reader.Release()
}

// appendEPK computes the EPK of an encoded partition key for the segments.
func appendEPK(dst, pk []byte) []byte {
	epk := partmap.HashEncoded(pk)
	return append(dst, epk.Bytes()...)
}
