// Package engine is Cleave: an embedded, partitioned document store.
//
// A store is a directory. One process at a time writes to it. A store holds
// containers, and a container holds items. An item has a document: JSON, or any
// bytes in an opaque container. Its name is a partition key value together with
// an id. All items with one key value are a logical partition: they are stored
// next to each other and read in the order of their ids. The hash of the key
// places a logical partition in the key space, which the physical partitions
// divide without gaps or overlaps.
//
//	db, err := engine.Open(ctx, dir, nil)
//	c, err := db.EnsureContainer(ctx, "cities", engine.ContainerDef{PartitionKey: []string{"/country"}})
//	meta, err := c.Upsert(ctx, []byte(`{"id":"porto","country":"PT"}`), nil)
//	item, err := c.Read(ctx, engine.StringKey("PT"), "porto")
//	for item, err := range c.Scan(ctx, engine.StringKey("PT"), engine.IDRange{}, nil) { … }
//	err = db.Close()
//
// # Documents
//
// A JSON document is the only source of its id and of its partition key. The id is
// the member "id", a string. The key is made of the members at the container's key
// paths: string, number, boolean, null, or absent, which is a value of its own. One
// strict scan finds them. It refuses a document that is not JSON, has duplicate
// names or invalid UTF-8, or is too large or too deeply nested. The bytes are stored
// as given. In an opaque container, Put takes the key, the id and the body as
// arguments. Reading and deleting are the same for both kinds.
//
// # Concurrency and lifetimes
//
// DB, Container and Snapshot are safe for concurrent use. An iterator, a Batch
// or a Tx is for one goroutine. Reads do not wait for writes or background work.
// The body of a loop over an iterator may call the store, and may write to the
// items that the loop reads: a loop shows the items as they were when it began.
// A ScanAll shows each physical partition as it was when the scan reached it.
//
// Returned items may be kept and must not be modified. There are two exceptions.
// The item that Borrow passes to its function is valid until the function
// returns. The items of a scan with ScanOptions.Borrow are valid until the next
// iteration of the loop. ReadInto appends the document to the caller's buffer;
// Item.Body is then the part of that buffer with the document. A Snapshot must be
// closed: everything it can see stays on disk until then.
//
// Close waits for running calls. Later calls fail with ErrClosed, and so do calls
// on the handle of a dropped container. Shutdown also waits for loops, transactions and
// snapshots, until its context ends.
//
// A store that is open ReadOnly shows one state of its directory; Refresh makes it show the
// present one, while what is under way stays in the state in which it began.
//
// # Transactions
//
// A Batch, or the writes of the function passed to Update, concern one logical
// partition and are committed as a whole: all of them become durable and visible,
// or none. View and Update read at one sequence. docs/transactions.md says which
// of them to use.
//
// # Durability
//
// A write that returned nil has the durability of the store or of its
// WriteOptions: see Synced, Buffered and Interval. Readers do not see a write
// before it has that durability. After a crash, a physical partition holds a
// prefix of its writes, each in full or not at all.
//
// The context can end a write only before the write is in the log: when the call
// begins, while it waits for memory, or while the size of its logical partition
// is counted. Such a write has not happened. A write that is in the log is
// carried through. After an error that matches ErrOutcomeUnknown, the next Open
// may or may not find the write, and so may later reads if the store has not
// failed. After any other error the write has not happened. A store fails when
// its log or a manifest could not be written or synced, unless the disk was full:
// it then refuses writes with ErrFailed until it is opened again, and still
// serves reads.
//
// # Errors
//
// Errors of calls match the Err… variables: use errors.Is. A refused document
// carries a *DocumentError with the byte and the path. A size over its limit
// carries a *LimitError or *DocumentError. Damage carries a *CorruptionError, and
// a failed file-system call an *IOError, both with file and offset. Damage in one
// place affects only the calls that need that place.
//
// # Physical partitions
//
// A physical partition splits by itself when it holds more than
// Options.MaxPartitionBytes. Split, Merge and MoveBoundary change partitions on
// demand and return a ReshapeJob. Reads, writes, scans and loads go on meanwhile and give
// the same results. A logical partition is never divided.
//
// # Another partition key
//
// CopyTo copies a container that is in use to a new one with another partition
// key. CopyJob.Finish puts the copy in the place of the original. docs/copying.md
// says how.
//
// # Throughput
//
// Every call reports its charge in request units (RU): in Meta.Charge,
// QueryStats.Charge, or Charge in its options. A container may have provisioned
// throughput, which its physical partitions share. If a physical partition has
// consumed more than its share, operations on it fail with a *ThrottledError,
// which says when to try again. Loads, and scans that have begun, wait instead.
//
// # Replication
//
// A container with ContainerDef.Replicated takes writes by ApplyAt only: entries
// of a log that is kept outside the store, each with an index and a time.
// ExportPartition and InstallPartition copy its physical partitions from store to
// store. docs/replication.md has the rules.
//
// # Locks
//
// The engine takes its locks in this order. internal/locks declares it, and tests that
// run with the race detector check it. Under the locks marked * no file is
// written, synced or renamed. There is one exception: under partition.commit, a writer
// that fills the log's buffer writes it.
//
//	CopyJob.calls         one call of a CopyJob at a time
//	DB.checkpoints        one checkpoint, or capture for a backup, at a time
//	partition.compacting  compaction of a partition; several: in key order
//	partition.flushing    flushes of a partition; several: in key order
//	Container.reshapeMu   the partitions of a container, and whether it exists; several: by name
//	DB.creating           the next ids of containers and partitions
//	partition.install     the set of files of a partition, and its manifest; several: in key order
//	Container.reindexing  the index job
//	DB.storeManifest      the store manifest
//	keysizes.counting     the size of one logical partition, until the write that is counted is made
//	partition.commit *    the commit lock: order of writes; several: in key order
//	DB.pins *             sequences that readers have pinned
//	partition.versionMu * changes of the version that readers load
//
// All other locks come last: no lock of the table is taken under them. They are
// DB.marks, keysizes.mu, partition.obsolete, partition.building, Reclaimer.mu,
// Reclaimer.removals, job.mu, pressure.Gate, eventqueue.Queue (all *), the locks of caches
// and statistics, and those of other packages (wal/log.go has the table of the log's
// locks).
//
// # Sizes
//
// Sizes are in bytes, sequences are store-wide numbers of writes, time stamps
// are in milliseconds.
package engine
