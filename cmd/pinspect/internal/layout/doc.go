// Package layout shows a store as files: what its manifests name, what each segment file
// says of itself, which files partitions share and how much space they take.
//
// Nothing is opened for writing and no lock is taken. A writer beside replaces manifests
// and removes the files that they no longer name. So whatever goes wrong below a manifest
// counts only if that manifest is still the newest one afterwards; otherwise it is read
// again.
//
// The commands of pinspect that work without the engine call it. A Files is safe for
// concurrent use; what it returns belongs to the caller.
package layout
