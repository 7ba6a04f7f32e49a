package fuzz

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"runtime"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/wal"
)

var logTable = crc32.MakeTable(crc32.Castagnoli)

// logFileHeader writes a header of 64 bytes by the description of the format,
// not by the package's code.
func logFileHeader(h *wal.FileHeader) []byte {
	b := make([]byte, 64)
	copy(b, "cleavlog")
	binary.LittleEndian.PutUint32(b[8:], h.Version)
	binary.LittleEndian.PutUint32(b[12:], h.Cipher)
	binary.LittleEndian.PutUint64(b[16:], h.Number)
	binary.LittleEndian.PutUint64(b[24:], h.ID)
	copy(b[32:], h.StoreID[:])
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], logTable))
	return b
}

// logRecord is what a record's header says, unchecked.
type logRecord struct {
	length, stream uint32
	seq            uint64
	typ            byte
	count, mark    uint32
}

// logRecordBytes writes a record at off of the file with the id, padded.
func logRecordBytes(id, off uint64, r *logRecord, payload []byte) []byte {
	seed := logSeed(id, off)
	b := make([]byte, 32, 32+len(payload)+15)
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(payload, logTable)^seed)
	binary.LittleEndian.PutUint32(b[8:], r.length)
	binary.LittleEndian.PutUint32(b[12:], r.stream)
	binary.LittleEndian.PutUint64(b[16:], r.seq)
	binary.LittleEndian.PutUint32(b[24:], uint32(r.typ)|r.count<<8)
	binary.LittleEndian.PutUint32(b[28:], r.mark)
	binary.LittleEndian.PutUint32(b, crc32.Update(seed, logTable, b[4:]))
	b = append(b, payload...)
	return append(b, make([]byte, -len(b)&15)...)
}

func logSeed(id, off uint64) uint32 {
	var at [16]byte
	binary.LittleEndian.PutUint64(at[:], id)
	binary.LittleEndian.PutUint64(at[8:], off)
	return crc32.Checksum(at[:], logTable)
}

// repairLog corrects the checksums of a file, so that the bytes behind them are
// reached.
func repairLog(data []byte) {
	if len(data) < 64 {
		return
	}
	copy(data, "cleavlog")
	binary.LittleEndian.PutUint32(data[8:], 1)
	binary.LittleEndian.PutUint32(data[12:], 0)
	binary.LittleEndian.PutUint64(data[16:], 1)
	copy(data[32:48], make([]byte, 16))
	binary.LittleEndian.PutUint32(data[60:], crc32.Checksum(data[:60], logTable))
	id := binary.LittleEndian.Uint64(data[24:])
	for off := uint64(64); uint64(len(data))-off >= 32; {
		b := data[off:]
		if bytes.Equal(b[:32], make([]byte, 32)) {
			return
		}
		length := binary.LittleEndian.Uint32(b[8:])
		if length < 32 || uint64(length) > uint64(len(b)) {
			length = 32 + uint32(b[8])%uint32(len(b)-31)
			binary.LittleEndian.PutUint32(b[8:], length)
		}
		b[24] = (b[24]-1)%5 + 1
		if mark := binary.LittleEndian.Uint32(b[28:]); mark < 4 || uint64(mark)*16 > off {
			binary.LittleEndian.PutUint32(b[28:], 4)
		}
		seed := logSeed(id, off)
		binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[32:length], logTable)^seed)
		binary.LittleEndian.PutUint32(b, crc32.Update(seed, logTable, b[4:32]))
		end := (uint64(length) + 15) &^ 15
		if end > uint64(len(b)) {
			return
		}
		clear(b[length:end])
		off += end
	}
}

const logName = "log/0000000001.log"

// logDir returns a file system with one log file.
func logDir(t testing.TB, data []byte) *vfs.Mem {
	fs := vfs.NewMem()
	if err := fs.Mkdir("log"); err != nil {
		t.Fatal(err)
	}
	if err := fs.WriteFile(logName, data); err != nil {
		t.Fatal(err)
	}
	return fs
}

// logSeeds returns a log file as the package writes it, once without a seal and
// once with it, to the end of its records.
func logSeeds(f *testing.F) [][]byte {
	fs := vfs.NewMem()
	if err := fs.Mkdir("log"); err != nil {
		f.Fatal(err)
	}
	id := uint64(0)
	l, err := wal.Create(fs, "log", &wal.Recovery{First: 1, NextFile: 1}, 1, wal.Options{
		MaxFileBytes: 64 << 10, RandomID: func() uint64 { id++; return id * 0x9e3779b97f4a7c15 },
	})
	if err != nil {
		f.Fatal(err)
	}
	var seeds [][]byte
	keep := func() {
		if err := l.Sync(); err != nil {
			f.Fatal(err)
		}
		data, err := fs.ReadFile(logName)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, append(bytes.TrimRight(data, "\x00"), make([]byte, 40)...))
	}
	add := func(t wal.Type, count uint32, size int) {
		if _, _, err := l.Append(wal.Stream(count), t, count, nil, make([]byte, size)); err != nil {
			f.Fatal(err)
		}
	}
	add(wal.TypeWrite, 1, 20)
	keep()
	add(wal.TypeWrite, 3, 0)
	add(wal.TypeFence, 0, 16)
	if _, _, err := l.AppendCarried(1, 2, []byte("again")); err != nil {
		f.Fatal(err)
	}
	if err := l.Vouch(); err != nil {
		f.Fatal(err)
	}
	keep()
	add(wal.TypeWrite, 1, 70<<10)
	keep()
	if _, err := l.Close(); err != nil {
		f.Fatal(err)
	}
	return seeds
}

// FuzzLogFileHeader: a header is refused with a typed error or read as what it
// says.
func FuzzLogFileHeader(f *testing.F) {
	for _, seed := range logSeeds(f) {
		f.Add(seed[:64], false)
		f.Add(seed[:64], true)
		f.Add(seed[:63], true)
	}
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) {
		data = bytes.Clone(data)
		if repair && len(data) >= 64 {
			copy(data, "cleavlog")
			binary.LittleEndian.PutUint32(data[60:], crc32.Checksum(data[:60], logTable))
		}
		h, err := wal.DecodeFileHeader("file", data)
		if err != nil {
			checkLogError(t, err, "file", len(data))
			return
		}
		again := logFileHeader(&h)
		if h.Version != 1 || h.Cipher != 0 || !bytes.Equal(again[:48], data[:48]) {
			t.Errorf("header %x read as %+v", data[:64], h)
		}
	})
}

// checkLogError demands a typed error that names the file and an offset in it.
func checkLogError(t *testing.T, err error, file string, size int) {
	t.Helper()
	if errors.Is(err, fault.ErrTooNew) {
		return
	}
	var corruption *fault.CorruptionError
	if !errors.As(err, &corruption) || corruption.File != file || corruption.Offset < 0 || corruption.Offset > int64(size) {
		t.Errorf("error %v", err)
	}
}

// FuzzLogRecord: a record of any content with right checksums is delivered as
// it was written, or not at all.
func FuzzLogRecord(f *testing.F) {
	f.Add(uint32(33), uint32(1), uint64(1), byte(1), uint32(1), uint32(4), []byte("a"))
	f.Add(uint32(32), uint32(0), uint64(1<<64-1), byte(4), uint32(1<<24-1), uint32(4), []byte{})
	f.Add(uint32(56), uint32(0), uint64(0), byte(5), uint32(0), uint32(4), make([]byte, 24))
	f.Add(uint32(1<<32-1), uint32(2), uint64(7), byte(2), uint32(0), uint32(1<<32-1), make([]byte, 100))
	f.Add(uint32(31), uint32(2), uint64(7), byte(3), uint32(0), uint32(3), []byte{})
	f.Fuzz(func(t *testing.T, length, stream uint32, seq uint64, typ byte, count, mark uint32, payload []byte) {
		count &= 1<<24 - 1
		h := wal.FileHeader{Version: 1, Number: 1, ID: seq ^ 0x1234}
		r := logRecord{length, stream, seq, typ, count, mark}
		data := append(logFileHeader(&h), logRecordBytes(h.ID, 64, &r, payload)...)
		fits := int64(length) == 32+int64(len(payload)) && typ >= 1 && typ <= 4 && mark == 4
		n := 0
		_, err := wal.ReadFile(logDir(t, data), "log", 1, -1, func(got *wal.Record) error {
			n++
			if uint32(got.Stream) != stream || byte(got.Type) != typ || got.Seq != seq || got.Count != count || got.File != 1 || got.Offset != 64 {
				t.Errorf("%+v read as %+v", r, got)
			}
			if length == 32+uint32(len(payload)) && !bytes.Equal(got.Payload, payload) {
				t.Errorf("payload %x read as %x", payload, got.Payload)
			}
			return nil
		})
		if err != nil {
			checkLogError(t, err, "mem/"+logName, len(data))
		}
		if fits && (n != 1 || err != nil) {
			t.Errorf("%+v: %d records, %v", r, n, err)
		}
	})
}

// FuzzLogFile: both readers agree about a file of any content: records that lie
// there byte by byte, then an end or a typed error, in memory that the size of
// the file bounds.
func FuzzLogFile(f *testing.F) {
	f.Add(append(logFileHeader(&wal.FileHeader{Version: 1, Number: 1}), 0, 0, 0), int64(-1), false)
	for _, seed := range logSeeds(f) {
		for _, noted := range []int64{-1, 64, int64(len(seed)) - 40} {
			f.Add(seed, noted, false)
			f.Add(seed, noted, true)
		}
		f.Add(seed[:len(seed)-45], int64(-1), true)
		flipped := bytes.Clone(seed)
		flipped[100] ^= 1
		f.Add(flipped, int64(-1), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, noted int64, repair bool) {
		if len(data) > 1<<20 {
			return
		}
		if repair {
			data = bytes.Clone(data)
			repairLog(data)
		}
		fs := logDir(t, data)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		end, offsets := int64(64), []int64(nil)
		info, err := wal.ReadFile(fs, "log", 1, noted, func(r *wal.Record) error {
			if r.Offset != end || r.Offset+32+int64(len(r.Payload)) > int64(len(data)) {
				t.Fatalf("record at %d after one that ends at %d", r.Offset, end)
			}
			if !bytes.Equal(r.Payload, data[r.Offset+32:][:len(r.Payload)]) {
				t.Fatalf("payload of the record at %d", r.Offset)
			}
			end = (r.Offset + 32 + int64(len(r.Payload)) + 15) &^ 15
			offsets = append(offsets, r.Offset)
			return nil
		})
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20+4*uint64(len(data)) {
			t.Errorf("%d bytes of memory for a file of %d", used, len(data))
		}
		if err != nil {
			checkLogError(t, err, "mem/"+logName, len(data))
		} else if info.Length != end || info.Records != int64(len(offsets)) || info.Mark > max(end, noted) {
			t.Errorf("%d records up to %d: %+v", len(offsets), end, info)
		}
		checkRecover(t, fs, data, noted, offsets, info, err)
	})
}

// checkRecover compares Recover with what ReadFile found.
func checkRecover(t *testing.T, fs *vfs.Mem, data []byte, noted int64, offsets []int64, info *wal.FileInfo, readErr error) {
	t.Helper()
	var st wal.State
	if noted >= 0 {
		st.Closed = []wal.Closed{{File: 1, Length: noted}}
	}
	var o wal.Options
	if info != nil {
		o.StoreID = info.Header.StoreID
	}
	n := 0
	rec, err := wal.Recover(context.Background(), fs, "log", st, o, func(r *wal.Record) error {
		if n >= len(offsets) || r.Offset != offsets[n] {
			t.Fatalf("record %d at %d", n, r.Offset)
		}
		n++
		return nil
	})
	if err != nil {
		checkLogError(t, err, "mem/"+logName, len(data))
		return
	}
	if readErr != nil || n != len(offsets) || rec.Files[0].Length != info.Length {
		t.Errorf("Recover: %d records, %+v; ReadFile: %d records, %+v, %v", n, rec, len(offsets), info, readErr)
	}
}
