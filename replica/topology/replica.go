package topology

// MaxNode is the highest id that a node may have.
const MaxNode = NodeID(1<<nodeBits - 1)

const nodeBits = 20

// ReplicaID returns an id for a replica on a node, which no replica of its group has had: since
// is the newest entry that the leader had applied when it proposed to add the replica. Replicas
// that a group began with have 0. As a leader proposes no change of the members before it has
// applied the last one, two replicas of a group on one node differ in since.
func ReplicaID(n NodeID, since uint64) uint64 { return since<<nodeBits | uint64(n) }

// NodeOf returns the node of a replica. So a message for a replica needs no map to find its way.
func NodeOf(replica uint64) NodeID { return NodeID(replica) & MaxNode }
