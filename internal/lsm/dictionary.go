package lsm

import (
	"sync"

	"github.com/cleavestore/cleave/internal/lz"
	"github.com/cleavestore/cleave/internal/memtable"
	"github.com/cleavestore/cleave/segment"
)

// dictionary is the compression dictionary that a container's flushes share,
// so that compactions copy compressed documents as they are. When the compression
// ratio of a flush is a tenth worse than that of the dictionary's first flush,
// the next flush samples a new one.
type dictionary struct {
	mu      sync.Mutex
	current *segment.Dictionary
	ratio   float64 // stored bytes per raw byte of the first flush that used it
	stale   bool    // current was given up: the next flush samples anew
}

// minDictionaryBytes is the raw size below which a file gets no dictionary.
const minDictionaryBytes = 1 << 20

// chooseDictionary gives the output the container's dictionary. If there is
// none, it samples one from the memtable.
func (o *output) chooseDictionary(mem *memtable.Table, raw int64) error {
	if o.Codec == segment.None || raw < minDictionaryBytes {
		return nil
	}
	d := &o.t.Family.dict
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil && !d.stale {
		d.current = firstDictionary(o.t.Version.Load().Runs)
	}
	if d.current == nil {
		every := max(1, mem.Versions()/dictionarySamples)
		var samples [][]byte
		w := mem.Walk(MaxSequence)
		for i := int64(0); w.Next(); i++ {
			if v := w.Version(); i%every == 0 && v.IsDocument() && len(v.Body) > 0 {
				samples = append(samples, v.Body)
			}
		}
		content := lz.Sample(samples, segment.MinDictionary, dictionaryBytes)
		if content == nil {
			return nil
		}
		dict, err := segment.NewDictionary(content)
		if err != nil {
			return err
		}
		d.current, d.ratio, d.stale = dict, 0, false
	}
	o.Dict = d.current
	return nil
}

// judge notes the compression ratio of a flush. It gives the dictionary up if
// the ratio is much worse than that of the first flush.
func (d *dictionary) judge(used *segment.Dictionary, raw, stored int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if used == nil || used != d.current || raw == 0 {
		return
	}
	ratio := float64(stored) / float64(raw)
	if d.ratio == 0 {
		d.ratio = ratio
	}
	if ratio > d.ratio*dictionaryDrift {
		d.current, d.stale = nil, true
	}
}

// firstDictionary returns the dictionary of the newest file that has one.
func firstDictionary(runs []*Run) *segment.Dictionary {
	for _, r := range runs {
		for _, f := range r.Files {
			if dicts := f.Dictionaries(); len(dicts) > 0 {
				return dicts[0]
			}
		}
	}
	return nil
}

// CompactionDictionary returns the dictionary for a compaction of runs: the container's,
// or else that of the newest input file with one. It returns nil below
// minDictionaryBytes, where the dictionary would be a large part of the file.
func (f *Family) CompactionDictionary(runs []*Run) *segment.Dictionary {
	var raw int64
	for _, r := range runs {
		n, _ := r.Compression()
		raw += n
	}
	if raw < minDictionaryBytes {
		return nil
	}
	f.dict.mu.Lock()
	defer f.dict.mu.Unlock()
	if f.dict.current == nil {
		return firstDictionary(runs)
	}
	return f.dict.current
}

const (
	dictionarySamples = 2048
	dictionaryBytes   = 60 << 10
	dictionaryDrift   = 1.1
)
