// Package survey passes over a container once and says where its documents lie: by the
// tables of its files (ReadTables), by its documents (TakeCensus), or by those that were
// written lately (TakeHeat). Places are parts of the key space, from 0 to 1.
//
// It reads through the engine and shows on a line how far it is. Errors are those of the
// engine; the commands of pinspect say what they mean. Each call stands for itself.
package survey
