package etcdserver

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// cluster is the service Cluster. The cluster has one member.
type cluster struct {
	etcdserverpb.UnimplementedClusterServer
	*Server
}

// MemberList implements etcdserverpb.ClusterServer.
func (s *cluster) MemberList(context.Context, *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	return &etcdserverpb.MemberListResponse{Header: s.header(0), Members: []*etcdserverpb.Member{{
		ID: s.id, Name: s.options.Name, ClientURLs: s.options.ClientURLs, PeerURLs: s.options.PeerURLs,
	}}}, nil
}

// auth is the service Auth of a server without users, on which authentication is not enabled.
type auth struct {
	etcdserverpb.UnimplementedAuthServer
	*Server
}

// AuthStatus implements etcdserverpb.AuthServer.
func (s *auth) AuthStatus(ctx context.Context, _ *etcdserverpb.AuthStatusRequest) (*etcdserverpb.AuthStatusResponse, error) {
	header, err := s.latest(ctx)
	if err != nil {
		return nil, err
	}
	return &etcdserverpb.AuthStatusResponse{Header: header, AuthRevision: 1}, nil
}

// Authenticate implements etcdserverpb.AuthServer.
func (s *auth) Authenticate(context.Context, *etcdserverpb.AuthenticateRequest) (*etcdserverpb.AuthenticateResponse, error) {
	return nil, rpctypes.ErrGRPCAuthNotEnabled
}
