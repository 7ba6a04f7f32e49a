// Package raftlog keeps the Raft logs of a node's groups: entries, hard states, and for each
// group a base, which is the state at the point up to which its log was truncated. All
// groups share one log of package wal, so one sync serves all of them. A Group is the
// raft.Storage of its RawNode.
//
// # Files
//
//	DIR/MANIFEST           groups with their bases, log files; replaced as a whole
//	DIR/3-700.base         a large state of the owner: of the base at entry 700 of stream 3; never changed
//	DIR/LOCK               locked by the process that has the log open
//	DIR/0000000003.log     a log file of package wal; each group is a stream of it
//
// All integers of varying width are uvarints of encoding/binary, the others little-endian.
//
//	MANIFEST, *.base
//	+-------+---------+--------+----------+------+
//	| magic | version | length | checksum | body |    magic: cleavRFT of MANIFEST, cleavRFB of *.base
//	|   8   |    4    |   4    |    4     |      |    checksum: CRC-32C of what surrounds it
//	+-------+---------+--------+----------+------+
//
//	body of *.base: state of the owner
//	body of MANIFEST: store id (16) | next stream | first log file | n | n × closed | m | m × group | r | r × removed
//	closed: log file | length in bytes
//	removed: group id | replica id      version 1 ends before r
//	group:  stream | group id | replica id | hard state | base
//	base:   index | term | length | ConfState (protobuf) | length | state of the owner
//	        In a manifest, since version 3, the checksum (4) of its file is in the place of a state of more than 4096 bytes.
//	hard state: term | vote | commit
//
//	record of the log: a wal.TypeCarried record of the group's stream. Its sequence is the
//	highest index that it is about, so a file is needed until the base has come to it.
//	+------+------------+
//	| kind | the rest   |
//	|  1   |            |
//	+------+------------+
//	1 append:  hard state | first index | n | n × (term | type (1) | length | data)
//	2 install: hard state | base            an installation of base.index begins
//	3 done:    index                        it is done: the log is empty and starts behind the base
//	4 void:    index                        it did not happen
//
// An append whose first index is not behind the last entry replaces the entries from there
// on. One of entries with more than 1 MiB of data has several records, each with the hard state
// and a commit that its entries have, so after a crash the first ones may be there. A term of 0
// in a hard state says that there is none.
//
// # Invariants
//
//  1. The entries of a group are those from base.index + 1 to the last one, without a gap,
//     with terms that do not fall.
//  2. Commit is not above the last index, and the term of the hard state is not below that
//     of the last entry.
//  3. The manifest is written only after what it says of hard states is durable in the log,
//     and a log file is dropped only after a manifest that does not need it is durable.
//  4. What a sync has made durable is there after any crash, or the log is refused.
//  5. Each file that a durable manifest names is there, durably, with the length and checksum
//     that the manifest says. It never changes: no two groups that a manifest has named have
//     one stream, and the base of a stream only rises.
//  6. A replica that was removed is never made again: the manifest remembers its id, until
//     Discard ends the group.
//
// # Crashes
//
// Appends are records of package wal, so after a crash a prefix of them is there that has
// every record below the position up to which Wait has returned. Replaying that prefix on
// the manifest gives the group as it was after some append no older than the last durable
// one: records are replayed in the order of the appends, and the manifest says only what a
// durable record has said (invariant 3). A record that is older than the manifest changes
// nothing for good: the record that the manifest speaks for is either behind it, in a file
// that is still there, or was dropped, and then so were all records before it.
//
// Truncation moves the base. The manifest with the new base is durable before files are
// dropped. If a crash comes before the manifest, the old base and all entries are there.
// Afterwards entries up to the base are ignored when they are read.
//
// The state of the owner is large in a busy group. So it is not written with each manifest, but
// once, to a file of its own. The file and its name are durable before a manifest that names it
// is begun, and it is removed after a manifest that does not name it is durable. So whichever
// manifest a crash leaves, its files are there. There may be others: of a manifest that did not
// come to be, or that was replaced. Open removes these before it writes any, since a stream
// that no manifest has named may be used again. A manifest of version 2 names no file, and Open
// replaces it by one that does: the same order makes that safe.
//
// An installation replaces the content of the partition, which is in another store, and
// the log. "install" is durable before the partition changes and "done" after it. After a
// crash in between, the owner compares the partition with the base of Installing: if the
// partition has come to it, the owner calls EndInstall(true), else EndInstall(false). No
// other record of the group lies in between.
//
// # What was lost
//
// A replica that has forgotten an entry it acknowledged, or a vote that it gave, can make
// its group forget an acknowledged write. So Open, and Check, refuse a log with ErrLost if
// what may have been acknowledged is missing or does not verify: a log file, a record below
// a synced-up-to mark, the manifest, a file that it names, entries that the hard state
// says were committed or that the partition has applied. Open reads the whole log and all
// states, so Check has no file to read. Such a replica must not come back: remove its id from
// the group and add an empty replica with a new id.
//
// Decay of the newest synced records cannot be told from a write that a crash has torn, as
// long as no later record vouches for them. Call Vouch when a log is idle; Close leaves no
// such window.
package raftlog
