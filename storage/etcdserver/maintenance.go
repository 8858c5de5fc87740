package etcdserver

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"flyball.dev/storage"
)

// maintenance is the service Maintenance.
type maintenance struct {
	etcdserverpb.UnimplementedMaintenanceServer
	*Server
}

// quota is etcd's default limit of the size of its file. The store has none.
const quota = 2 << 30

// Status implements etcdserverpb.MaintenanceServer. The size is the sum of the keys and values.
func (s *maintenance) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	page, err := s.store.Range(ctx, storage.Query{})
	if err != nil {
		return nil, rpcError(err)
	}
	size := int64(0)
	for _, r := range page.Records {
		size += int64(len(r.Key) + r.Size())
	}
	response := &etcdserverpb.StatusResponse{
		Header: s.header(int64(page.Revision)), Version: Version, StorageVersion: clusterVersion, Leader: s.id,
		RaftIndex: page.Revision, RaftAppliedIndex: page.Revision, RaftTerm: term,
		DbSize: size, DbSizeInUse: size, DbSizeQuota: quota, DowngradeInfo: &etcdserverpb.DowngradeInfo{},
	}
	for _, alarm := range s.alarms() {
		response.Errors = append(response.Errors, alarm.String())
	}
	return response, nil
}

// alarms returns the alarm NOSPACE if the store cannot write.
func (s *Server) alarms() []*etcdserverpb.AlarmMember {
	if c, ok := s.store.(storage.Checker); ok && c.Healthy() != nil {
		return []*etcdserverpb.AlarmMember{{MemberID: s.id, Alarm: etcdserverpb.AlarmType_NOSPACE}}
	}
	return nil
}

// Alarm implements etcdserverpb.MaintenanceServer. The state of the store is the alarm, so nobody can raise or disarm one.
func (s *maintenance) Alarm(ctx context.Context, r *etcdserverpb.AlarmRequest) (*etcdserverpb.AlarmResponse, error) {
	header, err := s.latest(ctx)
	if err != nil {
		return nil, err
	}
	return &etcdserverpb.AlarmResponse{Header: header, Alarms: s.alarms()}, nil
}

// Defragment implements etcdserverpb.MaintenanceServer. The store has no free pages to return.
func (s *maintenance) Defragment(ctx context.Context, _ *etcdserverpb.DefragmentRequest) (*etcdserverpb.DefragmentResponse, error) {
	return &etcdserverpb.DefragmentResponse{}, nil
}

// Hash implements etcdserverpb.MaintenanceServer.
func (s *maintenance) Hash(ctx context.Context, _ *etcdserverpb.HashRequest) (*etcdserverpb.HashResponse, error) {
	sum, revision, _, err := s.hash(ctx, 0)
	if err != nil {
		return nil, err
	}
	return &etcdserverpb.HashResponse{Header: s.header(revision), Hash: sum}, nil
}

// HashKV implements etcdserverpb.MaintenanceServer.
func (s *maintenance) HashKV(ctx context.Context, r *etcdserverpb.HashKVRequest) (*etcdserverpb.HashKVResponse, error) {
	sum, latest, compacted, err := s.hash(ctx, r.Revision)
	if err != nil {
		return nil, err
	}
	response := &etcdserverpb.HashKVResponse{Header: s.header(latest), Hash: sum, CompactRevision: compacted, HashRevision: r.Revision}
	if r.Revision == 0 {
		response.HashRevision = latest
	}
	return response, nil
}

// hash returns a hash of the records at a revision, the latest revision and the compact revision. Two stores with the same
// records have the same hash.
func (s *maintenance) hash(ctx context.Context, revision int64) (sum uint32, latest, compacted int64, err error) {
	latest, compacted, err = s.revisions(ctx)
	if err != nil {
		return 0, 0, 0, rpcError(err)
	}
	if revision > 0 && revision < compacted {
		return 0, 0, 0, rpctypes.ErrGRPCCompacted
	}
	page, err := s.store.Range(ctx, storage.Query{Revision: uint64(max(revision, 0))})
	if err != nil {
		return 0, 0, 0, rpcError(err)
	}
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	var buf []byte
	for _, r := range page.Records {
		value := r.Value()
		buf = binary.AppendUvarint(buf[:0], uint64(len(r.Key)))
		for _, n := range []uint64{r.Created, r.Revision, r.Version, uint64(r.Lease), uint64(len(value))} {
			buf = binary.AppendUvarint(buf, n)
		}
		_, _ = h.Write(append(append(buf, r.Key...), value...))
	}
	return h.Sum32(), max(latest, int64(page.Revision)), compacted, nil
}

// snapshotPart is how many bytes of a snapshot are sent at once.
const snapshotPart = 256 << 10

// Snapshot implements etcdserverpb.MaintenanceServer. It sends a database of etcd with the keys at the latest revision, and then
// its SHA-256. Writers do not wait for it.
func (s *maintenance) Snapshot(_ *etcdserverpb.SnapshotRequest, stream etcdserverpb.Maintenance_SnapshotServer) error {
	ctx := stream.Context()
	b, err := readBackend(ctx, s.store)
	if err != nil {
		return rpcError(err)
	}
	return rpcError(b.temporary(ctx, func(file io.Reader, size int64) error {
		sum := sha256.New()
		send := func(blob []byte) error {
			return stream.Send(&etcdserverpb.SnapshotResponse{RemainingBytes: uint64(size), Blob: blob})
		}
		for size > 0 {
			part := make([]byte, min(size, snapshotPart))
			if _, err := io.ReadFull(file, part); err != nil {
				return err
			}
			_, _ = sum.Write(part)
			size -= int64(len(part))
			if err := send(part); err != nil {
				return err
			}
		}
		return send(sum.Sum(nil))
	}))
}

// MoveLeader implements etcdserverpb.MaintenanceServer. The only member is the leader.
func (s *maintenance) MoveLeader(context.Context, *etcdserverpb.MoveLeaderRequest) (*etcdserverpb.MoveLeaderResponse, error) {
	return nil, rpctypes.ErrGRPCBadLeaderTransferee
}
