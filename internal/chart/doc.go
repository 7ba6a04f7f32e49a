// Package chart draws the pictures of the tools: plots, heat maps and rows of ratios as SVG,
// and bars of text for terminals.
//
// A picture has no colour of its own. It names classes, whose colours for light and dark
// surroundings Style returns. So one SVG element is readable in both, as a file of its own
// and as part of a page.
//
// Invariants:
//
//  1. A picture is well-formed XML and refers to nothing outside of itself.
//  2. The same values give the same bytes.
//  3. Every number of the values is drawn or, where a plot has more points than pixels, lies
//     within what is drawn: nothing is smoothed.
//  4. A picture has a title and a description for those who do not see it.
package chart
