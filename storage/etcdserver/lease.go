package etcdserver

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"flyball.dev/storage"
)

const (
	// minTTL is the shortest time to live of a lease in seconds, and maxTTL the longest that can be requested, as in etcd.
	minTTL = 2
	maxTTL = 9_000_000_000
)

// leases is the service Lease.
type leases struct {
	etcdserverpb.UnsafeLeaseServer
	*Server
}

// LeaseGrant implements etcdserverpb.LeaseServer.
func (s *leases) LeaseGrant(ctx context.Context, r *etcdserverpb.LeaseGrantRequest) (*etcdserverpb.LeaseGrantResponse, error) {
	if r.TTL > maxTTL {
		return nil, rpctypes.ErrGRPCLeaseTTLTooLarge
	}
	id := r.ID
	for id == 0 {
		id = rand.Int64()
	}
	l, err := s.store.Grant(ctx, id, time.Duration(max(r.TTL, minTTL))*time.Second)
	if err != nil {
		return nil, rpcError(err)
	}
	header, err := s.latest(ctx)
	return &etcdserverpb.LeaseGrantResponse{Header: header, ID: id, TTL: seconds(l.TTL)}, err
}

// LeaseRevoke implements etcdserverpb.LeaseServer.
func (s *leases) LeaseRevoke(ctx context.Context, r *etcdserverpb.LeaseRevokeRequest) (*etcdserverpb.LeaseRevokeResponse, error) {
	revision, err := s.store.Revoke(ctx, r.ID)
	if err != nil {
		return nil, rpcError(err)
	}
	return &etcdserverpb.LeaseRevokeResponse{Header: s.header(int64(revision))}, nil
}

// LeaseKeepAlive implements etcdserverpb.LeaseServer. The header is from before the renewal, so that a client that sees the
// lease alive at a revision does not see it revoked at an earlier one.
func (s *leases) LeaseKeepAlive(stream etcdserverpb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		response := &etcdserverpb.LeaseKeepAliveResponse{ID: r.ID}
		if response.Header, err = s.latest(stream.Context()); err != nil {
			return err
		}
		switch l, err := s.store.Renew(stream.Context(), r.ID); {
		case err == nil:
			response.TTL = seconds(l.TTL)
		case !errors.Is(err, storage.ErrNoLease):
			return rpcError(err)
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

// LeaseTimeToLive implements etcdserverpb.LeaseServer. A lease that is not there has a time to live of -1.
func (s *leases) LeaseTimeToLive(ctx context.Context, r *etcdserverpb.LeaseTimeToLiveRequest) (*etcdserverpb.LeaseTimeToLiveResponse, error) {
	l, keys, err := s.store.Lease(ctx, r.ID)
	if err != nil && !errors.Is(err, storage.ErrNoLease) {
		return nil, rpcError(err)
	}
	response := &etcdserverpb.LeaseTimeToLiveResponse{ID: r.ID, TTL: -1}
	if err == nil {
		response.TTL, response.GrantedTTL = seconds(time.Until(l.Expires)), seconds(l.TTL)
		for _, key := range keys {
			if r.Keys {
				response.Keys = append(response.Keys, []byte(key))
			}
		}
	}
	response.Header, err = s.latest(ctx)
	return response, err
}

// LeaseLeases implements etcdserverpb.LeaseServer.
func (s *leases) LeaseLeases(ctx context.Context, _ *etcdserverpb.LeaseLeasesRequest) (*etcdserverpb.LeaseLeasesResponse, error) {
	all, err := s.store.Leases(ctx)
	if err != nil {
		return nil, rpcError(err)
	}
	response := &etcdserverpb.LeaseLeasesResponse{}
	for _, l := range all {
		response.Leases = append(response.Leases, &etcdserverpb.LeaseStatus{ID: l.ID})
	}
	response.Header, err = s.latest(ctx)
	return response, err
}

// seconds returns a duration in whole seconds.
func seconds(d time.Duration) int64 { return int64(d.Seconds()) }
