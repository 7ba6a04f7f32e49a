package fuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"github.com/cleavestore/cleave/internal/backup"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/logrecord"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/wal"
)

// backupStory returns a full backup and an incremental one after it.
func backupStory(tb testing.TB) []byte {
	c := backup.Catalog{
		ID: manifest.ID{1}, Full: true, Seq: 9,
		Store: manifest.Store{
			Head:       manifest.Head{StoreID: manifest.ID{7}, SeqLimit: 10, NextContainer: 2, NextPartition: 3},
			Containers: []manifest.Container{{ID: 1, Name: "c"}},
			Partitions: []manifest.Partition{{ID: 2, Container: 1, Max: manifest.Bytes{0xFF}}},
		},
		Partitions: []manifest.Files{{StoreID: manifest.ID{7}, Partition: 2, FlushedSeq: 5, Runs: []manifest.Run{{
			Files: []manifest.File{{Number: 4, Size: 11, FooterCRC: 8, Min: manifest.Bytes{}, Max: manifest.Bytes{0xFF}}},
		}}}},
		Files: []backup.File{{Number: 4, Size: 11, FooterCRC: 8, Carried: true}},
	}
	var out bytes.Buffer
	one := func() backup.Info {
		w, err := backup.NewWriter(&out, &c)
		if err == nil {
			err = w.Record(2, 9, logrecord.AppendCarried(nil, &item.Key{PK: partmap.String("key").Encoded(), ID: []byte("id")}, &item.Version{Seq: 9, Modified: 1}))
		}
		if err == nil && c.Files[0].Carried {
			err = errors.Join(w.Data([]byte("hello ")), w.Data([]byte("world")))
		}
		if err != nil {
			tb.Fatal(err)
		}
		info, err := w.Close()
		if err != nil {
			tb.Fatal(err)
		}
		return info
	}
	first := one()
	c.ID, c.Seq = manifest.ID{2}, 9
	if err := c.Follow(&first); err != nil {
		tb.Fatal(err)
	}
	one()
	return out.Bytes()
}

// backupReader checks what a reader hands on.
type backupReader struct {
	t    *testing.T
	file *backup.File
	left int64
}

func (r *backupReader) Begin(c *backup.Catalog) error {
	if len(c.Partitions) != len(c.Store.Partitions) {
		r.t.Fatal("a catalog that is not right")
	}
	r.end()
	return nil
}
func (r *backupReader) Record(_ wal.Stream, highest uint64, payload []byte) error {
	var op logrecord.Operation
	for len(payload) > 0 {
		var err error
		if payload, err = logrecord.Decode(payload, true, &op); err != nil || op.Version.Seq > highest {
			r.t.Fatalf("a record up to sequence %d with one of %d: %v", highest, op.Version.Seq, err)
		}
	}
	return nil
}
func (r *backupReader) File(f *backup.File) error {
	r.end()
	r.file, r.left = f, f.Size
	return nil
}
func (r *backupReader) Data(p []byte) error {
	if r.left -= int64(len(p)); r.left < 0 {
		r.t.Fatalf("file %d gets more than its %d bytes", r.file.Number, r.file.Size)
	}
	return nil
}
func (r *backupReader) end() {
	if r.left != 0 {
		r.t.Fatalf("%d bytes of file %d are missing", r.left, r.file.Number)
	}
}

func readBackups(t *testing.T, data []byte) {
	d, h := backup.NewReader("f", bytes.NewReader(data)), &backupReader{t: t}
	for {
		info, err := d.Next(context.Background(), h)
		if err == nil {
			h.end()
			if info.Bytes <= 0 || info.Bytes > int64(len(data)) {
				t.Fatalf("a backup of %d bytes in %d", info.Bytes, len(data))
			}
			continue
		}
		var corruption *fault.CorruptionError
		if errors.As(err, &corruption) && (corruption.Offset < 0 || corruption.Offset > int64(len(data))) {
			t.Fatalf("offset %d of %d: %v", corruption.Offset, len(data), err)
		}
		if corruption == nil && err != io.EOF && !errors.Is(err, fault.ErrTooNew) && !errors.Is(err, backup.ErrParent) {
			t.Fatalf("untyped error: %v", err)
		}
		return
	}
}

// FuzzBackup reads arbitrary bytes as backups.
func FuzzBackup(f *testing.F) {
	story := backupStory(f)
	f.Add(story)
	f.Add(story[:len(story)/2])
	f.Add(story[:len(story)-1])
	f.Fuzz(readBackups)
}

// FuzzBackupBlocks reads arbitrary blocks, and an arbitrary catalog, whose
// checksums are right: a byte for the kind, one for the length, the payload.
func FuzzBackupBlocks(f *testing.F) {
	story := backupStory(f)
	catalog := story[40+12 : 40+12+binary.LittleEndian.Uint32(story[40+4:])]
	f.Add(catalog, []byte("\x02\x0c\x02\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x03\x0bhello world"))
	f.Add(catalog, []byte("\x03\x0bhello world"))
	f.Add([]byte(`{"full":true}`), []byte{})
	f.Fuzz(func(t *testing.T, catalog, blocks []byte) {
		table := crc32.MakeTable(crc32.Castagnoli)
		data := append([]byte{}, story[:40]...)
		sums, count := uint32(0), uint64(0)
		add := func(kind byte, payload []byte) {
			place := binary.LittleEndian.AppendUint64(append([]byte{}, story[12:28]...), uint64(len(data)))
			head := binary.LittleEndian.AppendUint32([]byte{kind, 0, 0, 0}, uint32(len(payload)))
			sum := crc32.Checksum(append(append(place, head...), payload...), table)
			sums = crc32.Update(sums, table, binary.LittleEndian.AppendUint32(nil, sum))
			count++
			data = append(binary.LittleEndian.AppendUint32(append(data, head...), sum), payload...)
		}
		add(1, catalog)
		for len(blocks) >= 2 {
			n := min(int(blocks[1]), len(blocks)-2)
			add(blocks[0], blocks[2:2+n])
			blocks = blocks[2+n:]
		}
		end := binary.LittleEndian.AppendUint64(nil, uint64(len(data)+12+20))
		add(4, binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(end, count), sums))
		readBackups(t, data)
	})
}
