// Package faults runs a cluster of real processes, breaks it by a schedule that a seed decides,
// and judges what clients have seen.
//
// # Faults
//
// A node is killed, all nodes are killed, a node is stopped and goes on, what one node says to
// another does not come or all that it says and hears, nodes are restarted one after the other,
// the disk of a node is full, and at the end bits flip in the files of one node. Nodes speak
// with each other through proxies of this process: a link that is cut takes nothing and keeps
// what it has, as TCP does, and goes on when it is mended.
//
// With Config.Namespaces there are four nodes, three of which have a replica of each group. Each node
// has a network namespace with a device on a bridge. A direction that is cut sends its packets to a hardware
// address that no device has, so they get lost and the sender hears nothing of it. Then there are
// more faults: a node that clients do not reach either, lost packets, a slow link, late packets in another order
// where the system has netem, a disk that stalls, and a replica that moves while a node is killed and another
// one is cut off. The clocks of all nodes are wrong, by another amount after each start.
//
// # What is judged
//
//  1. Registers are linearizable: writes, and strong reads (porcupine).
//  2. A sequence of new items in a logical partition has no holes, at any level: who sees an item
//     sees all that were acknowledged before it was written. At the end all that was acknowledged
//     is there, and nothing else than what was tried.
//  3. Transfers between items of a logical partition keep the sum, at any level.
//  4. Of clients who create the same item at most one is told that it has, and its item is there.
//  5. A counter has been incremented once for each acknowledged increment, and at most once for
//     each whose outcome is not known.
//  6. Session reads see what the session has written and seen; bounded reads see what was
//     acknowledged longer ago than the bound.
//  7. In the end all nodes that run come to have the same.
//
// That a call is not answered during a fault is no violation. That the cluster does not answer
// after all faults have ended is an error of the run.
package faults
