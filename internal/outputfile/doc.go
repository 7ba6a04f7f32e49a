// Package outputfile keeps the files that the tools write apart from those of stores.
package outputfile
