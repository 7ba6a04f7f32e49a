package measure

import "github.com/cleavestore/cleave/partmap"

// NumPlaces is how many parts of the key space Places tells apart: the first byte of an EPK
// is 00 to 3F.
const NumPlaces = 64

// Places counts by the first byte of the EPK.
type Places [NumPlaces]int64

// place returns where a partition key lies.
func place(key partmap.Key) uint8 {
	epk := key.EPK()
	return uint8(epk.Head()>>56) % NumPlaces
}

// placeOf returns what tells the place of a document by its index.
func placeOf(d Documents) func(i int64) uint8 {
	if g, ok := d.(*Generated); ok && g.keys != nil {
		return g.place
	}
	return func(i int64) uint8 { return place(d.Key(i)) }
}

// AddPlaces returns the counts of all operations together; nil: they were not counted.
func (t *Tallies) AddPlaces() (all *Places) {
	for op := range t {
		if p := t[op].Places; p != nil {
			if all == nil {
				all = new(Places)
			}
			for i, n := range p {
				all[i] += n
			}
		}
	}
	return all
}
