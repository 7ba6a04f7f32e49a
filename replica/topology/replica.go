package topology

// MaxNode is the highest id that a node may have.
const MaxNode = NodeID(1<<nodeBits - 1)

const nodeBits = 20

// ReplicaID returns an id for a replica on a node, which no replica of its group has had: since
// is the newest entry that the leader had applied when it proposed to add the replica. Replicas
// that a group began with have 0. As a leader proposes no change of the members before it has
// applied the last one, two replicas of a group on one node differ in since.
func ReplicaID(n NodeID, since uint64) uint64 { return since<<nodeBits | uint64(n) }

// readerBit marks the id of a replica that was added as a learner to stay one.
const readerBit = 1 << 63

// ReaderID returns an id as ReplicaID does, for a replica that does not vote.
func ReaderID(n NodeID, since uint64) uint64 { return readerBit | ReplicaID(n, since) }

// IsReader reports whether ReaderID has made the id.
func IsReader(replica uint64) bool { return replica&readerBit != 0 }

// NodeOf returns the node of a replica. So a message for a replica needs no map to find its way.
func NodeOf(replica uint64) NodeID { return NodeID(replica) & MaxNode }
