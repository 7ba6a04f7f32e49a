// Package restore brings one logical partition back from a backup into a store that is in
// use: what one tenant had at the moment of the backup, while the others go on. To make a
// whole store of a backup, see engine.Restore.
//
//	f, err := os.Open("monday.backup")
//	result, err := restore.LogicalPartition(ctx, container, engine.StringKey("acme"), f, nil)
//
// # Steps
//
//  1. The backup is read from front to back, and verified. The segment files that may have
//     items of the logical partition, and all log records, are written to a temporary
//     directory, as a store.
//     Where a container follows its default time to live (MutableTTL), it gets the present
//     one, so that both sides expire by the same rule.
//  2. This store is opened read-only. Its items are compared with those that the container
//     has now. Without Options.Replace the restore ends here if it would have to delete or
//     overwrite an item; with Options.DryRun it always ends here.
//  3. What differs is written, in transactions of package engine. Each transaction compares
//     a range of ids once more and makes the container equal to the backup there. It begins
//     anew if another writer changes an item meanwhile that it writes or deletes. If that
//     happens again and again, it is divided, down to single items.
//  4. The temporary directory is removed.
//
// # Crashes
//
// Up to step 3 the container is not changed. A crash, or an error, leaves at most the
// temporary directory.
//
// If all that differs fits into one transaction (Limits.BatchOperations, Limits.BatchBytes),
// step 3 is one transaction, unless others change the same items again and again. It is one
// record of the log, so after a crash the logical partition is as before or wholly restored,
// and no reader sees it in between.
//
// Otherwise step 3 is several transactions: first those that only delete items
// which the backup does not have, in the order of ids, then those that write, in the order of
// ids. After a crash some of them have happened and the others have not. Each of them only
// removes a difference between the container and the backup, and what they do is
// derived from these two alone. So the same call, made again, does exactly what is left:
// items that are equal already are not written again. There is one exception. In a container
// with unique keys, an item that the backup has with the value that another item has now can
// only be written after that other item has lost it. If that one comes later in the order,
// the same transaction deletes it, and a later one writes it as it is in the backup. The
// argument is the same: a missing item is a difference that the next call removes.
//
// An acknowledged write of another writer is never undone by accident: without
// Options.Replace nothing is deleted or overwritten, also no item that appears after step 2.
// With it, everything that is not in the backup is to go. A writer that goes on writing to
// the logical partition during a restore of several transactions may write behind it. Items
// that appear behind all that step 2 has compared stay: so the restore ends.
//
// # Invariants
//
//  1. No other logical partition is written to.
//  2. A backup that is damaged, or does not belong to the ones before it, changes nothing.
//  3. After nil the logical partition was equal to the backup, range of ids by range of ids, but
//     for items that have expired since and for what others wrote while the transaction of the
//     range was under way, or behind the last id of step 2: that is as if written behind it.
package restore
