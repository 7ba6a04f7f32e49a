// Package meta keeps in etcd what the nodes of a cluster share: the map of groups, which nodes
// are there, which of them plans, and the steps that it has planned. Only it and package agent
// import etcd, a large dependency: a program that imports package host does not compile it.
//
// The store of a cluster may be an etcd that exists, or one that runs within the nodes' own
// processes: see Start.
//
// # Keys
//
//	/cleave/CLUSTER/groups/ID     the descriptor of a group, as package topology encodes it
//	/cleave/CLUSTER/claims/ID     the group that alone may split off the group with the ID, in decimal
//	/cleave/CLUSTER/nodes/ID      a node, as JSON; it goes with the node's lease
//	/cleave/CLUSTER/steps/GROUP   the step that the planner wants next, as JSON
//	/cleave/CLUSTER/holds/GROUP   the group is changed by hand; it goes with the lease of the command
//	/cleave/CLUSTER/containers/ID a container that was made while the cluster ran, as JSON
//	/cleave/CLUSTER/names/NAME    the ID of a container
//	/cleave/CLUSTER/drops/ID      the container was dropped, as JSON
//	/cleave/CLUSTER/drains/ID     the node is to lose its replicas
//	/cleave/CLUSTER/next/KIND     the next id of a kind, in decimal
//	/cleave/CLUSTER/planner/…     the election of the planner
//
// ID and GROUP have 20 digits, so that keys are in the order of numbers.
//
// # Invariants
//
//  1. A descriptor is replaced only by one of a later epoch. Both halves of a split become
//     visible at once.
//  2. What is here is a copy: a group's own state is the truth. If the store is away, groups
//     go on; what waits are steps, new ids, and nodes that join.
//  3. One process at a time has the id of a node.
//  4. A process that has lost the election of the planner writes no step, however late its
//     request comes: each write carries the election's key as a condition.
//  5. An id is handed out once, whatever becomes of the process that has asked for it. The id of a right
//     group, which a client or the planner has chosen, is claimed by one group for good before its split is proposed.
//  6. A group that is held has no step: a hold begins where no step is to be carried out, and a step
//     is written under the condition that its group is not held.
//  7. A container that was dropped never comes back: its number is not handed out again, none of its
//     groups is published and no step for one is written, however late the request comes. Its name
//     is free when no quorum of its replicas can acknowledge a write.
//  8. A value that cannot be decoded is an error that names its key. It is never skipped.
package meta
