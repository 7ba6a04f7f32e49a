// Package host runs the replicas of a node: many groups, one store and one Raft log.
//
// # Goroutines
//
// A few workers serve all groups. A group has an inbox, and is in the queue of the workers while
// something lies there, at most once; so one worker at a time uses a group, and it does all that
// has come meanwhile before the group's messages leave. The syncer waits for the Raft log: what all
// groups have appended when a sync begins is served by that one sync. One ticker counts for all
// groups how time passes, and wakes those that have to do something then: see rest.go. A snapshot
// is written, sent and received by goroutines of their own; while one is installed, another worker
// takes the place of the one that does it.
//
// # Invariants
//
//  1. Appends of a group become durable in their order, and their responses leave afterwards:
//     the syncer is a queue.
//  2. Nothing on a worker waits for the network or for a sync of the Raft log, but for the
//     installation of a snapshot.
//  3. A group whose replica has failed is opened again only when all that it has appended is
//     durable.
//  4. A node that has been started once has a Raft log: node.json says so, durably, before the
//     first group runs. So a log that is lost is noticed.
//  5. Of a group the node has one replica at a time. An id that was removed from this node does
//     not come back: the logs refuse it.
//  6. A replica is destroyed only upon the notice of a leader that has applied its removal, and
//     another entry since.
//  7. A node has connections only with nodes and clients of its incarnation of the cluster. A replica
//     that was promoted after its voters were lost is never run in the incarnation of these, nor they in
//     its: see promotion.go.
//
// # Changes
//
// Host.Split, AddReplica, Promote, RemoveReplica and Transfer change a group, at its leader. The id
// of a replica contains its node (topology.ReplicaID), so messages find their way without a map.
// A node makes a replica of which it has not heard, empty, when a leader or a candidate sends it a
// message. What a crash leaves of a split, package group says; the host adds nothing that is on
// disk.
//
// # When a leader dies
//
// Its node's connection is reset. If it is not there again after ReconnectTime, the followers
// forget their leader. The first of them in the order of the group's replicas asks to be
// elected at once, the next ones a little later. A node whose disk takes longer than StallTime
// for a sync hands its leaderships over.
package host
