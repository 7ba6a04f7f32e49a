package transport

import (
	"encoding/binary"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
)

const flagReject = 1

// appendMessage appends a Raft message of a group: one that is neither a snapshot nor for the
// log or the partition of its sender.
func appendMessage(dst []byte, group uint64, m *pb.Message) []byte {
	dst = binary.AppendUvarint(dst, group)
	flags := byte(0)
	if m.GetReject() {
		flags |= flagReject
	}
	dst = append(dst, byte(m.GetType()), flags)
	for _, v := range [...]uint64{m.GetTo(), m.GetFrom(), m.GetTerm(), m.GetLogTerm(), m.GetIndex(), m.GetCommit(), m.GetRejectHint(), uint64(len(m.GetContext()))} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = append(dst, m.GetContext()...)
	dst = binary.AppendUvarint(dst, uint64(len(m.GetEntries())))
	for _, e := range m.GetEntries() {
		dst = append(dst, byte(e.GetType()))
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, e.GetTerm()), e.GetIndex())
		dst = append(binary.AppendUvarint(dst, uint64(len(e.GetData()))), e.GetData()...)
	}
	return dst
}

const (
	minEntry = 4 // size of the smallest entry, in bytes
	// mostEntries is how many entries a message has at most: Raft sends 1 MiB of them at once, and counts 4 bytes or more for each.
	mostEntries = 1 << 18
	// entryBlock is how many entries are allocated at once.
	entryBlock = 64
)

// decodeMessage decodes a Raft message and its group. It keeps nothing of b.
func decodeMessage(b []byte) (group uint64, _ *pb.Message, _ error) {
	// A message and its fields, which raftpb has as pointers, are one allocation.
	type whole struct {
		m                                                 pb.Message
		kind                                              pb.MessageType
		to, from, term, logTerm, index, commit, rejection uint64
		reject                                            bool
	}
	type entry struct {
		e           pb.Entry
		kind        pb.EntryType
		term, index uint64
	}
	r := reader{b: b}
	group = r.uvarint()
	w := new(whole)
	w.kind = pb.MessageType(r.byte())
	w.reject = r.byte()&flagReject != 0
	for _, f := range [...]*uint64{&w.to, &w.from, &w.term, &w.logTerm, &w.index, &w.commit, &w.rejection} {
		*f = r.uvarint()
	}
	m := &w.m
	m.Type, m.To, m.From, m.Term, m.LogTerm, m.Index, m.Commit, m.RejectHint, m.Reject = &w.kind, &w.to, &w.from, &w.term, &w.logTerm, &w.index, &w.commit, &w.rejection, &w.reject
	if c := r.bytes(); len(c) > 0 {
		m.Context = append([]byte(nil), c...)
	}
	n := r.uvarint()
	if r.bad || n > min(mostEntries, uint64(len(r.b)/minEntry)) {
		return 0, nil, fmt.Errorf("%w: Raft message", ErrFrame)
	}
	if n > 0 {
		r.b = append([]byte(nil), r.b...) // what the entries keep
		var block []entry
		for i := uint64(0); i < n && !r.bad; i++ {
			if len(block) == 0 {
				block = make([]entry, min(entryBlock, n-i))
			}
			e := &block[0]
			block = block[1:]
			e.kind = pb.EntryType(r.byte())
			if _, known := pb.EntryType_name[int32(e.kind)]; !known {
				r.bad = true
			}
			e.term, e.index = r.uvarint(), r.uvarint()
			if e.e.Data = r.bytes(); len(e.e.Data) == 0 {
				e.e.Data = nil
			}
			e.e.Type, e.e.Term, e.e.Index = &e.kind, &e.term, &e.index
			m.Entries = append(m.Entries, &e.e)
		}
	}
	if r.bad || len(r.b) > 0 {
		return 0, nil, fmt.Errorf("%w: Raft message", ErrFrame)
	}
	switch w.kind {
	case pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgHeartbeat, pb.MsgHeartbeatResp,
		pb.MsgTransferLeader, pb.MsgTimeoutNow, pb.MsgReadIndex, pb.MsgReadIndexResp:
		return group, m, nil
	}
	return 0, nil, fmt.Errorf("%w: a Raft message of type %d is not for the network", ErrFrame, w.kind)
}
