package pods

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Group is a group of the users of the nodes that the control plane serves, besides system:nodes. Without the node
// authorizer, a binding gives it the role system:node. No other user has the group, whatever the name of its node.
const Group = "flyball:nodes"

// nodePrefix is the prefix of the user names of nodes.
//
//upstream:pkg/auth/nodeidentifier.nodeUserNamePrefix
const nodePrefix = "system:node:"

// User is the user name of the node [NodeName].
const User = nodePrefix + NodeName

// Groups returns the groups of the nodes' users.
func Groups() []string { return []string{user.NodesGroup, Group} }

// nodeKey is the key of the node in a context.
type nodeKey struct{}

// withNode returns a context for the requests of the kubelet of a node.
func withNode(ctx context.Context, node string) context.Context {
	return context.WithValue(ctx, nodeKey{}, node)
}

// UserOf returns the user name of the node that makes the requests with a context. Requests that belong to no single node,
// such as the writes of events, are the requests of [User].
func UserOf(ctx context.Context) string {
	if node, ok := ctx.Value(nodeKey{}).(string); ok {
		return nodePrefix + node
	}
	return User
}
