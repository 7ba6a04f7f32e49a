// Package engine is Cleave: an embedded, partitioned document store.
//
// A store is a directory that one process at a time writes to. It holds
// containers; a container holds items. An item has a partition key value and an
// id, which together name it, and a document: JSON, or any bytes in an opaque
// container. All items with one key value are a logical partition: they lie
// next to each other and are read in the order of their ids. The key is hashed
// into a key space that physical partitions tile.
//
//	db, err := engine.Open(ctx, dir, nil)
//	c, err := db.EnsureContainer(ctx, "cities", engine.ContainerDef{PartitionKey: []string{"/country"}})
//	meta, err := c.Upsert(ctx, []byte(`{"id":"porto","country":"PT"}`), nil)
//	item, err := c.Read(ctx, engine.StringKey("PT"), "porto")
//	for item, err := range c.Scan(ctx, engine.StringKey("PT"), "", nil) { … }
//	err = db.Close()
//
// # Documents
//
// A JSON document is the only source of its id (the member "id", a string) and
// of its partition key (the members that the container's paths name: string,
// number, boolean, null, or absent, which is a value of its own). One strict
// scan finds them and refuses what is not JSON, has duplicate names or bad
// UTF-8, or is too large or too deep. The bytes are stored as given. Put
// gives the key, id and body of an item of an opaque container. Reading and
// deleting are the same for both kinds.
//
// # Concurrency and lifetimes
//
// DB, Container and Snapshot are safe for concurrent use; an iterator, a Batch
// and a Tx serve one goroutine. Readers wait for nobody. The body of a loop over an iterator may
// call the store, also to write what is being read: each loop sees the items as
// they were when it began, a ScanAll each physical partition as it was when it
// got there.
//
// Items that are returned may be kept and must not be modified, but for Borrow,
// whose item is valid until its function returns, and scans with
// ScanOptions.Borrow, whose items are valid until the loop goes on. ReadInto appends the document
// to the caller's buffer; Item.Body is then the document alone, in that buffer.
// A Snapshot must be closed: what it can see is kept on disk until then.
//
// Close waits for running calls and refuses further ones with ErrClosed. So do
// the handles of a container that was dropped.
//
// # Transactions
//
// A Batch, and what the function of an Update writes, concerns one logical
// partition and is committed as a whole: all of it is durable and visible, or
// nothing. View and Update read as of one sequence. docs/transactions.md tells
// which to take.
//
// # Durability
//
// A write that returned nil has the durability of the store or of its
// WriteOptions: see Synced, Buffered and Interval. A reader sees it only then.
// What a crash leaves of a physical partition is a prefix of its writes, each in
// full or not at all.
//
// A write ends early with the error of its context only while it waits for
// memory; it has then not happened. Afterwards it is carried through. After an
// error that matches ErrOutcomeUnknown it may or may not be found by the next
// Open, or by a later read if the store has not failed; after any other error it has not happened. A store in which a sync
// failed refuses writes with ErrFailed until it is opened again, and goes on
// reading.
//
// # Errors
//
// Errors of calls are the Err… variables, for errors.Is. A refused document
// carries a *DocumentError with the byte and the path; sizes over their limits a
// *LimitError or *DocumentError; damage a *CorruptionError and failed
// file-system calls an *IOError, both with file and offset. Damage in one place
// concerns only the calls that meet it.
//
// # Physical partitions
//
// A physical partition splits by itself when it holds more than
// Options.MaxPartitionBytes; Split, Merge and MoveBoundary do so on demand and
// return a Job. Reads, writes, scans and loads go on meanwhile and notice
// nothing. A logical partition is never divided.
//
// # Another partition key
//
// CopyTo makes a container with another partition key of one that is in use;
// Copy.Finish lets it take that one's place. docs/copying.md tells how.
//
// # Throughput
//
// Every call tells its charge in request units (RU): Meta.Charge, QueryStats.Charge,
// or Charge in its options. A container may have
// provisioned throughput, which its physical partitions share: an operation on
// one that has consumed more than its part fails with a *ThrottledError, which
// says when to try again. Loads, and scans that have begun, wait instead.
//
// # Replication
//
// A container with ContainerDef.Replicated takes writes by ApplyAt only: entries
// of a log that somebody else keeps, with an index and a time. Its partitions
// travel by ExportPartition and InstallPartition. docs/replication.md has the
// rules.
//
// # Locks
//
// The engine takes its locks in this order; locks.go declares it, and tests that run
// with the race detector check it. Under the locks marked * no file is written,
// synced or renamed, but for the log's buffer, which the writer that fills it writes.
//
//	Copy.mu               one call of a Copy at a time
//	DB.checkpoints        one checkpoint or capture of a backup at a time
//	partition.merging     compaction of a partition; of several in key order
//	partition.flushing    flushes of a partition; of several in key order
//	Container.shape       which partitions a container has, and that it is there; of several by name
//	DB.creating           the next ids of containers and partitions
//	partition.install     the set of files of a partition, and its manifest; of several in key order
//	Container.reindexing  the index job
//	DB.structure          the store manifest
//	DB.pins *             sequences at which somebody reads
//	fullKey.counting      the size of a logical partition that is nearly full, held while it is counted
//	partition.mu *        the commit lock: order of writes; of several in key order
//	partition.versionMu * changes of partition.version
//
// The others are taken last, and nothing is taken under them: DB.marks,
// fullKeys.mu, partition.obsolete, partition.building, DB.leftovers, Job.mu,
// workers.mu, eventQueue.mu (all *), those of caches and statistics, and those of
// other packages (wal/log.go has the table of the log's).
//
// # Sizes
//
// Sizes are in bytes, sequences are store-wide numbers of writes, time stamps
// are in milliseconds.
package engine
