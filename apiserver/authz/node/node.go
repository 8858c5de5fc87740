// Package node authorizes the requests of kubelets, like kube-apiserver's mode Node.
//
// A kubelet is a user system:node:NAME in the group system:nodes. It may read the objects that the pods bound to its
// node refer to, and it may access its own node and the node's objects. The admission plugin NodeRestriction restricts
// the content of writes, because an authorizer does not see the object.
package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"flyball.dev/apiserver/authz/rbac"
)

// userPrefix is the prefix of the user names of kubelets.
const userPrefix = "system:node:"

// Authorizer authorizes kubelets. It is safe for concurrent use.
//
//upstream:plugin/pkg/auth/authorizer/node.NodeAuthorizer
type Authorizer struct {
	objects reader
	// rules apply to all resources that are authorized without regard to the node.
	rules []rbacv1.PolicyRule
}

var (
	_ authorizer.UnconditionalAuthorizer = (*Authorizer)(nil)
	_ authorizer.RuleResolver            = (*Authorizer)(nil)
)

// New returns an authorizer. At the time of a request, it reads the objects that the decision depends on.
func New(o Objects) *Authorizer {
	a := &Authorizer{objects: reader{o}}
	for _, obj := range rbac.Policy() {
		if role, ok := obj.(*rbacv1.ClusterRole); ok && role.Name == "system:node" {
			a.rules = role.Rules
		}
	}
	return a
}

// nodeOf returns the node name of a kubelet's user, or false for any other user.
//
//upstream:pkg/auth/nodeidentifier.defaultNodeIdentifier
func nodeOf(u user.Info) (name string, ok bool) {
	if u == nil {
		return "", false
	}
	name, ok = strings.CutPrefix(u.GetName(), userPrefix)
	return name, ok && slices.Contains(u.GetGroups(), user.NodesGroup)
}

// Authorize allows the requests that a kubelet may make. It has no opinion about other users. For other requests of a
// kubelet it has no opinion and returns a reason.
func (n *Authorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	node, ok := nodeOf(a.GetUser())
	if !ok {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if node == "" {
		return authorizer.DecisionNoOpinion, fmt.Sprintf("unknown node for user %q", a.GetUser().GetName()), nil
	}
	err := n.check(ctx, a, node)
	var reason refusal
	switch {
	case err == nil:
		return authorizer.DecisionAllow, "", nil
	case errors.As(err, &reason):
		return authorizer.DecisionNoOpinion, string(reason), nil
	}
	return authorizer.DecisionNoOpinion, "", err
}

// RulesFor implements [authorizer.RuleResolver]. The rules are incomplete, because the permissions of a kubelet depend
// on objects.
func (*Authorizer) RulesFor(_ context.Context, u user.Info, _ string) ([]authorizer.ResourceRuleInfo,
	[]authorizer.NonResourceRuleInfo, bool, error) {
	if _, ok := nodeOf(u); ok {
		return nil, nil, true, errors.New("node authorizer does not support user rule resolution")
	}
	return nil, nil, false, nil
}

// refusal is the reason for not allowing a request of a kubelet. It can be empty.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// check returns nil if the kubelet of a node may make a request, a refusal if it may not, and any other error if the
// objects cannot be read.
//
//upstream:plugin/pkg/auth/authorizer/node.NodeAuthorizer.Authorize
func (n *Authorizer) check(ctx context.Context, a authorizer.Attributes, node string) error {
	if a.IsResourceRequest() {
		switch (schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}) {
		case corev1.Resource("secrets"):
			return n.checkRead(ctx, a, node, n.objects.secret)
		case corev1.Resource("configmaps"):
			return n.checkRead(ctx, a, node, n.objects.configMap)
		case corev1.Resource("persistentvolumeclaims"):
			return n.checkClaim(ctx, a, node)
		case corev1.Resource("persistentvolumes"):
			return n.checkGet(ctx, a, node, n.objects.volume)
		case resourcev1.Resource("resourceclaims"):
			return n.checkGet(ctx, a, node, n.objects.resourceClaim)
		case storagev1.Resource("volumeattachments"):
			return n.checkGet(ctx, a, node, n.objects.attachment)
		case corev1.Resource("serviceaccounts"):
			return n.checkServiceAccount(ctx, a, node)
		case coordinationv1.Resource("leases"):
			return checkLease(a, node)
		case storagev1.Resource("csinodes"):
			return checkCSINode(a, node)
		case resourcev1.Resource("resourceslices"):
			return n.checkSlice(ctx, a, node)
		case corev1.Resource("nodes"):
			return checkNode(a, node)
		case corev1.Resource("pods"):
			return n.checkPod(ctx, a, node)
		case certificatesv1.Resource("podcertificaterequests"):
			return n.checkCertificateRequest(ctx, a, node)
		}
	}
	if rbac.Allow(n.rules, a) {
		return nil
	}
	return refusal("")
}

// checkRelated checks that the object of a request is related to the node.
func (n *Authorizer) checkRelated(ctx context.Context, a authorizer.Attributes, node string, related relation) error {
	if a.GetName() == "" {
		return refusal("No Object name found")
	}
	ok, err := related(ctx, node, a.GetNamespace(), a.GetName())
	if err == nil && !ok {
		err = refuse("no relationship found between node '%s' and this object", node)
	}
	return err
}

// checkRead checks a request to read one object. Lists and watches of a single name count as such requests.
//
//upstream:plugin/pkg/auth/authorizer/node.NodeAuthorizer.authorizeReadNamespacedObject
func (n *Authorizer) checkRead(ctx context.Context, a authorizer.Attributes, node string, related relation) error {
	switch {
	case !verbIn(a, "get", "list", "watch"):
		return refusal("can only read resources of this type")
	case a.GetSubresource() != "":
		return refusal("cannot read subresource")
	case a.GetNamespace() == "":
		return refusal("can only read namespaced object of this type")
	}
	return n.checkRelated(ctx, a, node, related)
}

//upstream:plugin/pkg/auth/authorizer/node.NodeAuthorizer.authorizeGet
func (n *Authorizer) checkGet(ctx context.Context, a authorizer.Attributes, node string, related relation) error {
	switch {
	case a.GetVerb() != "get":
		return refusal("can only get individual resources of this type")
	case a.GetSubresource() != "":
		return refusal("cannot get subresource")
	}
	return n.checkRelated(ctx, a, node, related)
}

//upstream:plugin/pkg/auth/authorizer/node.NodeAuthorizer.authorizeStatusUpdate
func (n *Authorizer) checkClaim(ctx context.Context, a authorizer.Attributes, node string) error {
	if a.GetSubresource() != "status" {
		return n.checkGet(ctx, a, node, n.objects.claim)
	}
	if !verbIn(a, "update", "patch") {
		return refusal("can only get/update/patch this type")
	}
	return n.checkRelated(ctx, a, node, n.objects.claim)
}

//upstream:plugin/pkg/auth/authorizer/node.NodeAuthorizer.authorizeCreateToken
func (n *Authorizer) checkServiceAccount(ctx context.Context, a authorizer.Attributes, node string) error {
	switch {
	case a.GetVerb() == "get" && a.GetSubresource() == "":
		return n.checkRead(ctx, a, node, n.objects.serviceAccount)
	case a.GetVerb() != "create" || a.GetName() == "":
		return refusal("can only create tokens for individual service accounts")
	case a.GetSubresource() != "token":
		return refusal("can only create token subresource of serviceaccount")
	}
	return n.checkRelated(ctx, a, node, n.objects.serviceAccount)
}

// checkLease checks a request for a lease. Only admission knows the name of a new lease.
//
//upstream:plugin/pkg/auth/authorizer/node.NodeAuthorizer.authorizeLease
func checkLease(a authorizer.Attributes, node string) error {
	switch {
	case !verbIn(a, "get", "create", "update", "patch", "delete"):
		return refusal("can only get, create, update, patch, or delete a node lease")
	case a.GetNamespace() != corev1.NamespaceNodeLease:
		return refuse("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case a.GetVerb() != "create" && a.GetName() != node:
		return refusal("can only access node lease with the same name as the requesting node")
	}
	return nil
}

//upstream:plugin/pkg/auth/authorizer/node.NodeAuthorizer.authorizeCSINode
func checkCSINode(a authorizer.Attributes, node string) error {
	switch {
	case !verbIn(a, "get", "create", "update", "patch", "delete"):
		return refusal("can only get, create, update, patch, or delete a CSINode")
	case a.GetSubresource() != "":
		return refusal("cannot authorize CSINode subresources")
	case a.GetVerb() != "create" && a.GetName() != node:
		return refusal("can only access CSINode with the same name as the requesting node")
	}
	return nil
}

//upstream:plugin/pkg/auth/authorizer/node.NodeAuthorizer.authorizeResourceSlice
func (n *Authorizer) checkSlice(ctx context.Context, a authorizer.Attributes, node string) error {
	if a.GetSubresource() != "" {
		return refusal("cannot authorize ResourceSlice subresources")
	}
	switch a.GetVerb() {
	case "create":
		return nil
	case "get", "update", "patch", "delete":
		return n.checkRelated(ctx, a, node, n.objects.slice)
	case "watch", "list", "deletecollection":
		if selectsNode(a, resourcev1.ResourceSliceSelectorNodeName, node) {
			return nil
		}
		return refusal("can only list/watch/deletecollection resourceslices with nodeName field selector")
	}
	return refusal("only the following verbs are allowed for a ResourceSlice: " +
		"get, watch, list, create, update, patch, delete, deletecollection")
}

// checkNode checks a request for a node. A kubelet may read its node before the node exists.
//
//upstream:plugin/pkg/auth/authorizer/node.NodeAuthorizer.authorizeNode
func checkNode(a authorizer.Attributes, node string) error {
	switch a.GetSubresource() {
	case "":
		switch {
		case verbIn(a, "create", "update", "patch"):
			return nil
		case !verbIn(a, "get", "list", "watch"):
			return refusal("")
		case a.GetName() == node:
			return nil
		case a.GetName() == "":
			return refuse("node '%s' cannot read all nodes, only its own Node object", node)
		}
		return refuse("node '%s' cannot read '%s', only its own Node object", node, a.GetName())
	case "status":
		if verbIn(a, "update", "patch") {
			return nil
		}
	}
	return refusal("")
}

// checkPod checks a request for a pod. Admission checks which pods a kubelet may write.
//
//upstream:plugin/pkg/auth/authorizer/node.NodeAuthorizer.authorizePod
func (n *Authorizer) checkPod(ctx context.Context, a authorizer.Attributes, node string) error {
	allowed := false
	switch a.GetSubresource() {
	case "":
		switch a.GetVerb() {
		case "get":
			return n.checkRelated(ctx, a, node, n.objects.pod)
		case "list", "watch":
			switch {
			case selectsNode(a, "spec.nodeName", node):
				return nil
			case a.GetName() != "":
				return n.checkRelated(ctx, a, node, n.objects.pod)
			}
			return refusal("can only list/watch pods with spec.nodeName field selector")
		}
		allowed = verbIn(a, "create", "delete")
	case "status":
		allowed = verbIn(a, "update", "patch")
	case "eviction":
		allowed = verbIn(a, "create")
	}
	if !allowed {
		return refusal("")
	}
	return nil
}

func (n *Authorizer) checkCertificateRequest(ctx context.Context, a authorizer.Attributes, node string) error {
	if a.GetSubresource() != "" {
		return refusal("nodes may not access the status subresource of PodCertificateRequests")
	}
	switch a.GetVerb() {
	case "create":
		return nil
	case "get":
		return n.checkRelated(ctx, a, node, n.objects.certificateRequest)
	case "list", "watch":
		if selectsNode(a, "spec.nodeName", node) {
			return nil
		}
		return refusal("can only list/watch podcertificaterequests with nodeName field selector")
	}
	return refuse("nodes may not %s podcertificaterequests", a.GetVerb())
}

func verbIn(a authorizer.Attributes, verbs ...string) bool {
	return slices.Contains(verbs, a.GetVerb())
}

// selectsNode reports whether a field selector restricts a request to the objects of a node.
func selectsNode(a authorizer.Attributes, path, node string) bool {
	requirements, _ := a.GetFieldSelector()
	for _, r := range requirements {
		if r.Field == path && r.Operator == selection.Equals && r.Value == node {
			return true
		}
	}
	return false
}
