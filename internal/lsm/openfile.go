package lsm

import (
	"path"
	"sync"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// openFile opens a file reference and checks it against the file.
func (t *Tree) openFile(ref manifest.File, shared *SharedFiles) (*File, error) {
	lo, hi, err := boundsOf(ref)
	if err != nil {
		return nil, err
	}
	name := path.Join(t.Dir, manifest.SegmentName(ref.Number))
	info, err := t.Env.FS.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size != ref.Size {
		return nil, fault.Corrupt(t.Env.FS.Path(name), min(info.Size, ref.Size), "file has %d bytes, the manifest says %d", info.Size, ref.Size)
	}
	reader, err := shared.open(t.Env, name, ref.Number, info)
	if err != nil {
		return nil, err
	}
	if reader.FooterCRC() != ref.FooterCRC {
		err := fault.Corrupt(t.Env.FS.Path(name), info.Size-4, "footer checksum %08x, the manifest says %08x", reader.FooterCRC(), ref.FooterCRC)
		shared.forget(reader, ref.Number, info)
		return nil, err
	}
	f := &File{Reader: reader, Ref: ref, Min: lo, Max: hi, Name: name, path: t.Env.FS.Path(name)}
	f.clipTo(t.Family.Levels)
	return f, nil
}

// SharedFiles holds the readers of files that have several names, while a store is
// opened: partitions that share a file share its reader. The zero SharedFiles is ready.
type SharedFiles struct {
	mu      sync.Mutex
	readers map[sharedFile]*sharedReader
}

type sharedFile struct{ number, inode uint64 }

// sharedReader is locked while the file is opened, or closed.
type sharedReader struct {
	sync.Mutex
	*segment.Reader // nil: the file is not open
}

func (s *SharedFiles) of(number uint64, info vfs.Info) *sharedReader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers == nil {
		s.readers = make(map[sharedFile]*sharedReader)
	}
	key := sharedFile{number, info.ID}
	r := s.readers[key]
	if r == nil {
		r = new(sharedReader)
		s.readers[key] = r
	}
	return r
}

func (s *SharedFiles) open(e *Env, name string, number uint64, info vfs.Info) (*segment.Reader, error) {
	if info.Links <= 1 {
		return segment.Open(e.FS, name, e.Reader)
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
	r.Reader, err = segment.Open(e.FS, name, e.Reader)
	return r.Reader, err
}

// forget releases a reader that open returned, which may close it. Later calls of open
// do not return it again.
func (s *SharedFiles) forget(reader *segment.Reader, number uint64, info vfs.Info) {
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

// AppendEPK computes the EPK of an encoded partition key for the segments.
func AppendEPK(dst, pk []byte) []byte {
	epk := partmap.HashEncoded(pk)
	return append(dst, epk.Bytes()...)
}
