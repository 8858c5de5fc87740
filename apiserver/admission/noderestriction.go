package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"flyball.dev/apiserver/admission/stored"
)

// nodeUserPrefix is the prefix of the user names of kubelets.
const nodeUserPrefix = "system:node:"

// NodeRestriction is the name of the plugin that restricts a kubelet's writes to its own node and the node's objects.
// It complements the authorization mode Node, which does not see the objects.
const NodeRestriction = "NodeRestriction"

// nodeRestriction restricts a kubelet's writes to its own node and the objects bound to the node.
//
//upstream:plugin/pkg/admission/noderestriction.Plugin
type nodeRestriction struct {
	*admission.Handler
	authorizer authorizer.UnconditionalAuthorizer
	nodes      *stored.Reader[*corev1.Node]
	pods       *stored.Reader[*corev1.Pod]
	accounts   *stored.Reader[*corev1.ServiceAccount]
	claims     *stored.Reader[*corev1.PersistentVolumeClaim]
	volumes    *stored.Reader[*corev1.PersistentVolume]
	drivers    *stored.Reader[*storagev1.CSIDriver]
}

var _ admission.MutationInterface = nodeRestriction{}

func newNodeRestriction(e Environment) admission.Interface {
	return nodeRestriction{
		Handler:    admission.NewHandler(admission.Create, admission.Update, admission.Delete),
		authorizer: e.Authorizer,
		nodes:      stored.NewReader[*corev1.Node](e, corev1.SchemeGroupVersion.WithResource("nodes")),
		pods:       stored.NewReader[*corev1.Pod](e, corev1.SchemeGroupVersion.WithResource("pods")),
		accounts:   stored.NewReader[*corev1.ServiceAccount](e, corev1.SchemeGroupVersion.WithResource("serviceaccounts")),
		claims:     stored.NewReader[*corev1.PersistentVolumeClaim](e, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")),
		volumes:    stored.NewReader[*corev1.PersistentVolume](e, corev1.SchemeGroupVersion.WithResource("persistentvolumes")),
		drivers:    stored.NewReader[*storagev1.CSIDriver](e, storagev1.SchemeGroupVersion.WithResource("csidrivers")),
	}
}

// Admit implements [admission.MutationInterface].
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.Admit
func (n nodeRestriction) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	u := a.GetUserInfo()
	if u == nil || !strings.HasPrefix(u.GetName(), nodeUserPrefix) || !slices.Contains(u.GetGroups(), user.NodesGroup) {
		return nil
	}
	node := strings.TrimPrefix(u.GetName(), nodeUserPrefix)
	if node == "" {
		return admission.NewForbidden(a, fmt.Errorf("could not determine node from user %q", u.GetName()))
	}
	err := n.check(ctx, a, node)
	if err == nil || apierrors.IsNotFound(err) {
		return err
	}
	if passing, ok := errors.AsType[passingError](err); ok {
		return passing.error
	}
	return admission.NewForbidden(a, err)
}

// passingError is an error about a write that the server or the kubelet has not seen yet. It is not Forbidden, so that
// the kubelet retries.
type passingError struct{ error }

// check returns an error if the kubelet of a node may not make a request.
func (n nodeRestriction) check(ctx context.Context, a admission.Attributes, node string) error {
	switch resource := a.GetResource().GroupResource(); resource {
	case corev1.Resource("pods"):
		return n.checkPod(ctx, a, node)
	case corev1.Resource("nodes"):
		return checkOwnNode(a, node)
	case corev1.Resource("persistentvolumeclaims"):
		return checkClaimStatus(a, node)
	case corev1.Resource("serviceaccounts"):
		return n.checkToken(ctx, a, node)
	case coordinationv1.Resource("leases"):
		if a.GetNamespace() != corev1.NamespaceNodeLease {
			return fmt.Errorf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
		}
		if requestedName(a) != node {
			return errors.New("can only access node lease with the same name as the requesting node")
		}
	case storagev1.Resource("csinodes"):
		if requestedName(a) != node {
			return errors.New("can only access CSINode with the same name as the requesting node")
		}
		if a.GetSubresource() == "status" {
			return errors.New("CSIVolumeHealth feature gate is disabled") // as it is by default
		}
	case resourcev1.Resource("resourceslices"):
		return checkSlice(a, node)
	case certificatesv1.Resource("podcertificaterequests"):
		return n.checkPodCertificate(ctx, a, node)
	case certificatesv1.Resource("certificatesigningrequests"):
		return checkSigningRequest(a, node)
	}
	return nil
}

// requestedName returns the name of the object of a request.
func requestedName(a admission.Attributes) string {
	if m, ok := a.GetObject().(interface{ GetName() string }); ok && a.GetOperation() == admission.Create {
		return m.GetName()
	}
	return a.GetName()
}

// checkPod checks a request for a pod or one of its subresources.
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.admitPod
//upstream:plugin/pkg/admission/noderestriction.Plugin.admitPodEviction
func (n nodeRestriction) checkPod(ctx context.Context, a admission.Attributes, node string) error {
	operation := a.GetOperation()
	switch a.GetSubresource() {
	case "":
		switch operation {
		case admission.Create:
			return n.checkMirror(ctx, a, node)
		case admission.Delete:
			return n.checkBound(ctx, a, a.GetName(), node, "node %q can only delete pods with spec.nodeName set to itself")
		}
		return fmt.Errorf("unexpected operation %q, node %q can only create and delete mirror pods", operation, node)
	case "status":
		if operation != admission.Update {
			return fmt.Errorf("unexpected operation %q", operation)
		}
		return checkPodStatus(a, node)
	case "eviction":
		eviction, ok := a.GetObject().(*policyv1.Eviction)
		if operation != admission.Create || !ok {
			return fmt.Errorf("unexpected operation %s", operation)
		}
		name := a.GetName()
		if name == "" {
			name = eviction.Name
		}
		if name == "" {
			return errors.New("could not determine pod from request data")
		}
		return n.checkBound(ctx, a, name, node, "node %s can only evict pods with spec.nodeName set to itself")
	}
	return fmt.Errorf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", a.GetSubresource())
}

// checkBound checks that a pod is bound to the node. The format has one verb, for the name of the node.
func (n nodeRestriction) checkBound(ctx context.Context, a admission.Attributes, name, node, format string) error {
	pod, err := n.pods.Get(ctx, a.GetNamespace(), name)
	if err == nil && pod.Spec.NodeName != node {
		err = fmt.Errorf(format, node)
	}
	return err
}

// checkMirror checks that a new pod is the mirror of a static pod of the node.
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.admitPodCreate
func (n nodeRestriction) checkMirror(ctx context.Context, a admission.Attributes, node string) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	switch {
	case !ok:
		return fmt.Errorf("unexpected type %T", a.GetObject())
	case !mirrors(pod):
		return fmt.Errorf("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, node)
	case pod.Spec.NodeName != node:
		return fmt.Errorf("node %q can only create pods with spec.nodeName set to itself", node)
	case len(pod.OwnerReferences) > 1:
		return fmt.Errorf("node %q can only create pods with a single owner reference set to itself", node)
	case len(pod.OwnerReferences) == 0:
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", node)
	}
	switch owner := pod.OwnerReferences[0]; {
	case owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != node:
		return fmt.Errorf("node %q can only create pods with an owner reference set to itself", node)
	case owner.Controller == nil || !*owner.Controller:
		return fmt.Errorf("node %q can only create pods with a controller owner reference set to itself", node)
	case owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion:
		return fmt.Errorf("node %q must not set blockOwnerDeletion on an owner reference", node)
	default:
		found, err := n.nodes.Get(ctx, "", node)
		if err != nil {
			return err
		}
		if owner.UID != found.UID {
			return fmt.Errorf("node %s UID mismatch: expected %s got %s", node, owner.UID, found.UID)
		}
	}
	if resource := referencedBy(pod); resource != "" {
		return fmt.Errorf("node %q can not create pods that reference %s", node, resource)
	}
	return nil
}

// checkPodStatus checks the change of a pod's status.
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.admitPodStatus
func checkPodStatus(a admission.Attributes, node string) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	old, had := a.GetOldObject().(*corev1.Pod)
	switch {
	case !ok || !had:
		return fmt.Errorf("unexpected type %T", a.GetObject())
	case old.Spec.NodeName != node:
		return fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", node)
	case !labels.Equals(old.Labels, pod.Labels):
		return fmt.Errorf("node %q cannot update labels through pod status", node)
	case !apiequality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses):
		return fmt.Errorf("node %q cannot update resource claim statues", node)
	case !apiequality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus):
		return fmt.Errorf("node %q cannot update extended resource claim status", node)
	case !apiequality.Semantic.DeepEqual(old.Status.NodeAllocatableResourceClaimStatuses, pod.Status.NodeAllocatableResourceClaimStatuses):
		return fmt.Errorf("node %q cannot update node allocatable resource claim statuses", node)
	}
	return nil
}

// checkOwnNode checks the creation or the change of a node.
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.admitNode
func checkOwnNode(a admission.Attributes, name string) error {
	if a.GetName() != name {
		return fmt.Errorf("node %q is not allowed to modify node %q", name, a.GetName())
	}
	node, ok := a.GetObject().(*corev1.Node)
	if !ok {
		return nil // a deletion
	}
	if a.GetOperation() == admission.Create {
		//lint:ignore SA1019 clients may still send it
		if node.Spec.ConfigSource != nil {
			return fmt.Errorf("node %q is not allowed to create pods with a non-nil configSource", name)
		}
		if forbidden := forbiddenLabels(node.Labels, nil); len(forbidden) > 0 {
			return fmt.Errorf("node %q is not allowed to set the following labels: %s", name, strings.Join(forbidden, ", "))
		}
		return nil
	}
	old, ok := a.GetOldObject().(*corev1.Node)
	switch {
	case !ok:
		return fmt.Errorf("unexpected type %T", a.GetOldObject())
	//lint:ignore SA1019 clients may still send it
	case node.Spec.ConfigSource != nil && !apiequality.Semantic.DeepEqual(node.Spec.ConfigSource, old.Spec.ConfigSource):
		return fmt.Errorf("node %q is not allowed to update configSource to a new non-nil configSource", name)
	case !apiequality.Semantic.DeepEqual(node.Spec.Taints, old.Spec.Taints):
		return fmt.Errorf("node %q is not allowed to modify taints", name)
	case !apiequality.Semantic.DeepEqual(node.OwnerReferences, old.OwnerReferences):
		return fmt.Errorf("node %q is not allowed to modify ownerReferences", name)
	}
	if forbidden := forbiddenLabels(node.Labels, old.Labels); len(forbidden) > 0 {
		return fmt.Errorf("is not allowed to modify labels: %s", strings.Join(forbidden, ", "))
	}
	return nil
}

// kubeletLabels are the Kubernetes labels that a kubelet may set, in addition to all labels in kubeletNamespaces.
var (
	kubeletLabels = []string{
		corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
		corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable,
		corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	}
	kubeletNamespaces = []string{corev1.LabelNamespaceSuffixKubelet, corev1.LabelNamespaceSuffixNode}
)

// forbiddenLabels returns the changed labels that a kubelet may not change, sorted.
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.getForbiddenLabels
//upstream:plugin/pkg/admission/noderestriction.getModifiedLabels
func forbiddenLabels(now, before map[string]string) (forbidden []string) {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, now)
	for key := range all {
		a, in := now[key]
		if b, was := before[key]; in && was && a == b {
			continue
		}
		namespace, _, ok := strings.Cut(key, "/")
		if !ok {
			continue
		}
		below := func(domain string) bool { return namespace == domain || strings.HasSuffix(namespace, "."+domain) }
		kubernetes := below("kubernetes.io") || below("k8s.io")
		allowed := slices.Contains(kubeletLabels, key) || slices.ContainsFunc(kubeletNamespaces, below)
		if below(corev1.LabelNamespaceNodeRestriction) || kubernetes && !allowed {
			forbidden = append(forbidden, key)
		}
	}
	slices.Sort(forbidden)
	return forbidden
}

// checkClaimStatus checks that only those fields of a claim's status change that kubelets may update.
//
//upstream:plugin/pkg/admission/noderestriction.Plugin.admitPVCStatus
func checkClaimStatus(a admission.Attributes, node string) error {
	if a.GetSubresource() != "status" {
		return errors.New("may only update PVC status")
	}
	claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
	old, had := a.GetOldObject().(*corev1.PersistentVolumeClaim)
	if a.GetOperation() != admission.Update || !ok || !had {
		return fmt.Errorf("unexpected operation %q", a.GetOperation())
	}
	rest := func(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
		c = c.DeepCopy()
		c.ResourceVersion, c.ManagedFields = "", nil
		c.Status.Capacity, c.Status.Conditions = nil, nil
		c.Status.AllocatedResources, c.Status.AllocatedResourceStatuses = nil, nil
		return c
	}
	if !apiequality.Semantic.DeepEqual(rest(claim), rest(old)) {
		return fmt.Errorf("node %q is not allowed to update fields other than status.quantity and status.conditions", node)
	}
	return nil
}

//upstream:plugin/pkg/admission/noderestriction.Plugin.admitResourceSlice
func checkSlice(a admission.Attributes, node string) error {
	obj, verb := a.GetObject(), "create"
	switch a.GetOperation() {
	case admission.Create:
	case admission.Delete:
		obj, verb = a.GetOldObject(), "delete"
	default:
		return nil
	}
	slice, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return fmt.Errorf("unexpected type %T", obj)
	}
	if slice.Spec.NodeName == nil || *slice.Spec.NodeName != node {
		return fmt.Errorf("can only %s ResourceSlice with the same NodeName as the requesting node", verb)
	}
	return nil
}
