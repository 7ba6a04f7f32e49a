package splitter

import "github.com/cleavestore/cleave/partmap"

// LoadSamples is how many samples of the load a cut should rest on. It then
// halves the load up to a standard error of 2 %.
const LoadSamples = 512

// leastSide: a cut that leaves less than one in leastSide of the load on one
// side is not worth it.
const leastSide = 8

// CutLoad returns the cut that best halves a sampled load within a range. The
// error is a *Refusal if one logical partition has so much of it that nothing is
// gained.
func CutLoad(r partmap.Range, load *Histogram) (Choice, error) {
	choice, err := Cut(r, []Source{load})
	if err == nil && min(choice.Left, choice.Right) < (choice.Left+choice.Right)/leastSide {
		err = refuse(OneHotKey)
	}
	return choice, err
}
