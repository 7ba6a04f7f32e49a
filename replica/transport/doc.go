// Package transport connects the nodes of a cluster, and clients with nodes, by framed TLS
// connections. Both ends of a connection have a certificate of the cluster's authority: see
// Authority.
//
// A pair of nodes has one connection for the messages of all their groups, in both
// directions. The node with the lower id dials. What is sent while a write to the connection
// is under way goes with the next one, so the messages of many groups, heartbeats too, share
// a flush. The queue of a connection is bounded: Raft repeats messages, so what does not fit is
// dropped, and no group waits for a connection. Each snapshot has a connection of its own.
//
// # Format
//
// Integers of varying width are uvarints of encoding/binary, the others little-endian.
//
//	frame
//	+--------+------+----------+---------+
//	| length | kind | checksum | payload |    length: of the payload
//	|   4    |  1   |    4     |         |    checksum: CRC-32C of length, kind and payload
//	+--------+------+----------+---------+
//
//	kind 1 hello:    "cleavNET" | version (4) | purpose (1) | from | to | incarnation
//	     2 welcome:  version (4)
//	     3 refusal:  text
//	     4 message:  group | Raft message
//	     5 ping:     nothing
//	     6 begin:    group | from | to        a snapshot begins
//	     7 chunk:    bytes of the stream
//	     8 end:      group | MsgSnap, as protobuf
//	     9 taken:    nothing                  the snapshot has come whole
//	    10 other:    incarnation              the refusal of one of another incarnation
//	    16 and up:   of package protocol
//
//	Raft message: type (1) | flags (1) | to | from | term | log term | index | commit | reject hint
//	              | length | context | n | n × (type (1) | term | index | length | data)
//	              flags: 1: it is a rejection
//
// The one who dials begins with a hello. The other one answers with a welcome, or with a
// refusal that says why and closes the connection. From and to are ids of nodes; a client is
// from 0. Purpose is 1 for the messages of a pair of nodes, 2 for a snapshot, 3 for a client. The
// incarnation is that of the cluster (package cluster). Who is greeted with another version decodes nothing
// behind it, and says in its refusal which versions both speak.
//
// # Invariants
//
//  1. A frame is used only if its checksum verifies and it is within the bound of its kind;
//     otherwise the connection ends. No more memory is taken for a frame than bytes have come,
//     but for one step of 64 KiB. A Raft message takes memory for the entries that it has, of
//     which there are no more than 2^18.
//  2. A node takes messages and snapshots only from a peer whose certificate names the node
//     that the hello names, and sends them only to one whose certificate names the node that
//     it has dialed.
//  3. Send never waits.
//  4. Both ends of a connection are of the same incarnation of the cluster. So no message and no
//     snapshot of a replica from before a promotion reaches one from after it, or the other way.
//
// # When a peer is gone
//
// Each side sends a ping after a second without a frame, and closes a connection on which
// nothing has come for four. The end of a connection is reported at once, so a process that is
// killed is noticed before it is missed: its kernel resets the connection.
package transport
