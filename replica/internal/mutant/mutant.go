// Package mutant plants known faults into replicas, so that a test can show that the
// simulation finds each of them. Without the build tag mutants, On is a constant false and
// the compiler removes what depends on it.
package mutant

// Fault is a fault that can be planted.
type Fault string

// The faults.
const (
	// AckBeforeSync answers an append before it is durable.
	AckBeforeSync Fault = "ack before sync"
	// VoteUnsynced answers a request for a vote before the vote is durable.
	VoteUnsynced Fault = "vote unsynced"
	// ReusedReadID gives all reads of a replica the same request id.
	ReusedReadID Fault = "reused read id"
	// ReadWithoutIndex reads what the leader has applied, without asking a quorum.
	ReadWithoutIndex Fault = "read without ReadIndex"
	// DoubleApply applies a command that was applied before.
	DoubleApply Fault = "double apply"
	// TruncatePastDurable truncates the log up to the applied entry, durable or not.
	TruncatePastDurable Fault = "truncate past durable"
	// InstallBackwards installs a snapshot that is older than the partition.
	InstallBackwards Fault = "install backwards"
	// StaleRightHalf leaves the right half of a split in place when a snapshot of the left
	// half comes from behind the split.
	StaleRightHalf Fault = "stale right half served"
	// ReusedReplicaID starts an empty replica under the id of one whose log is lost.
	ReusedReplicaID Fault = "reused replica id"
	// MixedIncarnations has machines and clients of different incarnations hear each other.
	MixedIncarnations Fault = "mixed incarnations"
	// StaleDefault takes over a default time to live whose revision is not above that of the present one.
	StaleDefault Fault = "stale default"
	// LeaderDefault takes over a default time to live at the leader only.
	LeaderDefault Fault = "default of the leader"
)

// All has every fault.
var All = []Fault{AckBeforeSync, VoteUnsynced, ReusedReadID, ReadWithoutIndex, DoubleApply, TruncatePastDurable, InstallBackwards, StaleRightHalf, ReusedReplicaID, MixedIncarnations, StaleDefault, LeaderDefault}
