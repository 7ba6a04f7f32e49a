// Package placement decides on which nodes of a cluster the replicas of each group are, which
// replica leads, and which groups are to be split. It only plans: it has no clock, network or
// goroutine, and what it decides is a function of what it was told. Others carry the steps
// out; each step names the epoch of the group that it was planned for, so one that comes late
// is refused.
//
// # How a replica moves
//
// A group is changed one step at a time. What comes next follows from its descriptor, so a
// planner that starts anew goes on where another one has stopped:
//
//	voters 1 2 3              a node is lost, drains, or holds more than its share
//	       1 2 3 +4 incoming  Add: the group's data goes to another node
//	       1 2 3  4           Promote, when it has caught up
//	         2 3  4           Remove: the lost one, the one that drains, or the one that is
//	                          in the way
//
// A copy that has not caught up after Policy.Copy, and what its bytes take, is removed, and another
// node gets one, if another node can.
//
// # Order
//
// Groups are served by what they would lose first: those with the fewest live voters, then
// those with a replica too many, those on nodes that drain, those with two voters in one
// zone, and balance last. A node takes part in a bounded number of copies at once, so that
// repair leaves room for the work of clients.
//
// # Invariants
//
//  1. No step removes a live voter while the others that are live are no majority of what
//     remains.
//  2. A node gets no replica of a group that it has one of, none while it is silent or
//     drains, and none that would fill its disk beyond Policy.Full.
//  3. A group has one step under way at most, until it is told of again or Policy.Patience
//     has passed.
//  4. The time for a plan depends on the number of nodes and of the groups that need a step,
//     and for balance on the groups of nodes that hold too much; not on all groups.
package placement
