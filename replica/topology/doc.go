// Package topology says where the data of a cluster is: which groups divide the key space of
// a container, on which nodes the replicas of a group are, and how both may change.
//
// A Group is a descriptor: a value. Each group keeps its own in the state that it replicates,
// and that one is the truth. Everything else, a routing table of a client or the map in the
// metadata store, is a copy that may be old. Epochs tell old from new: each change of a group
// raises its epoch by one, and the two groups of a split both get the epoch behind that of
// the group that was split.
//
// # Changes
//
// Each method of Group returns the group after one change, and leaves its receiver alone:
//
//	Add       a node gets a replica that does not vote yet     role Incoming
//	Promote   a replica that has caught up votes               Incoming -> Voter
//	Remove    a node loses its replica
//	Split     one range becomes two, on the same nodes
//
// # Format
//
// Integers are uvarints of encoding/binary, unless a width is given.
//
//	+---------+----+-------+--------------+------------------------------------------------+
//	| version | id | epoch | next replica | length | container | length | min | length | max |
//	|    1    |    |       |              |                                                |
//	+---------+----+-------+--------------+------------------------------------------------+
//	| n | n × (id | node | role (1)) |
//	+---+----------------------------+
//
// # Invariants
//
//  1. A node has at most one replica of a group.
//  2. The id of a replica is never used again, for a node that comes back has lost what it
//     had promised to others.
//  3. A group always has a voter.
//  4. The groups that a Map shows do not overlap, and a Map never goes back to an older
//     descriptor. A Map may have holes, where it knows that what it knew is old.
//  5. The groups that a Map shows for a name are those of one container, of the newest that it was
//     told of: a dropped one and its successor have different numbers, see GroupID.Number.
//  6. Decode takes no more memory than a small multiple of its input.
package topology
