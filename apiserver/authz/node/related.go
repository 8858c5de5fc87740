package node

import (
	"context"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/podrefs"
)

// Objects gives access to stored objects.
type Objects interface {
	// Storage returns the storage of a resource, or nil if the resource is not served.
	Storage(schema.GroupVersionResource) rest.Storage
}

// relation reports whether an object is related to a node. The object may belong to the node, or a pod bound to the
// node may refer to it, directly or through a claim and its volume.
type relation func(ctx context.Context, node, namespace, name string) (bool, error)

// reader reads stored objects. It caches nothing, so that stale objects never lead to a decision. A request of a
// kubelet costs a list of the pods in one namespace.
//
//upstream:plugin/pkg/auth/authorizer/node.Graph
type reader struct{ objects Objects }

// scope returns the context for reading a resource. The namespace and the name of the authorized request must not
// restrict the read.
func scope(ctx context.Context, verb, namespace string, r schema.GroupVersionResource) context.Context {
	return request.WithNamespace(request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true,
		Verb: verb, APIGroup: r.Group, APIVersion: r.Version, Resource: r.Resource}), namespace)
}

// get reads an object. It returns false if the object does not exist. The object is shared and must not be changed.
func get[T runtime.Object](ctx context.Context, r reader, gvr schema.GroupVersionResource, namespace, name string) (obj T, ok bool, err error) {
	storage, ok := r.objects.Storage(gvr).(rest.Getter)
	if !ok {
		return obj, false, nil
	}
	found, err := storage.Get(scope(ctx, "get", namespace, gvr), name, &metav1.GetOptions{})
	if err != nil {
		if errors.IsNotFound(err) {
			err = nil
		}
		return obj, false, err
	}
	obj, ok = found.(T)
	return obj, ok, nil
}

// anyOf reports whether a predicate is true for any selected object of a namespace. An empty namespace means all
// namespaces.
func anyOf[T runtime.Object](ctx context.Context, r reader, gvr schema.GroupVersionResource, namespace string,
	selector fields.Selector, is func(T) bool) (bool, error) {
	storage, ok := r.objects.Storage(gvr).(rest.Lister)
	if !ok {
		return false, nil
	}
	list, err := storage.List(scope(ctx, "list", namespace, gvr), &internalversion.ListOptions{FieldSelector: selector})
	if err != nil {
		return false, err
	}
	found := false
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		t, ok := obj.(T)
		found = found || ok && is(t)
		return nil
	})
	return found, err
}

// anyPod reports whether a predicate is true for any pod in a namespace that is bound to a node. Mirror pods do not
// count: a kubelet creates them itself, and must not gain access to objects through them.
func (r reader) anyPod(ctx context.Context, node, namespace string, refers func(*corev1.Pod) bool) (bool, error) {
	bound := fields.OneTermEqualSelector("spec.nodeName", node)
	return anyOf(ctx, r, corev1.SchemeGroupVersion.WithResource("pods"), namespace, bound, func(pod *corev1.Pod) bool {
		_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
		return !mirror && refers(pod)
	})
}

func (r reader) pod(ctx context.Context, node, namespace, name string) (bool, error) {
	pod, ok, err := get[*corev1.Pod](ctx, r, corev1.SchemeGroupVersion.WithResource("pods"), namespace, name)
	return ok && pod.Spec.NodeName == node, err
}

func (r reader) serviceAccount(ctx context.Context, node, namespace, name string) (bool, error) {
	return r.anyPod(ctx, node, namespace, func(pod *corev1.Pod) bool { return pod.Spec.ServiceAccountName == name })
}

func (r reader) configMap(ctx context.Context, node, namespace, name string) (bool, error) {
	return r.anyPod(ctx, node, namespace, func(pod *corev1.Pod) bool {
		return slices.Contains(podrefs.ConfigMaps(&pod.Spec), name)
	})
}

// secret reports whether a secret is referenced by a pod of the node, or by a volume that such a pod uses through a
// claim.
func (r reader) secret(ctx context.Context, node, namespace, name string) (bool, error) {
	ok, err := r.anyPod(ctx, node, namespace, func(pod *corev1.Pod) bool {
		return slices.Contains(podrefs.Secrets(&pod.Spec), name)
	})
	if ok || err != nil {
		return ok, err
	}
	var claims []*corev1.ObjectReference
	secret := corev1.SecretReference{Namespace: namespace, Name: name}
	volumes := corev1.SchemeGroupVersion.WithResource("persistentvolumes")
	if _, err := anyOf(ctx, r, volumes, "", nil, func(v *corev1.PersistentVolume) bool {
		if v.Spec.ClaimRef != nil && slices.Contains(volumeSecrets(v), secret) {
			claims = append(claims, v.Spec.ClaimRef)
		}
		return false
	}); err != nil {
		return false, err
	}
	for _, c := range claims {
		if ok, err := r.claim(ctx, node, c.Namespace, c.Name); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (r reader) claim(ctx context.Context, node, namespace, name string) (bool, error) {
	return r.anyPod(ctx, node, namespace, func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			switch {
			case v.PersistentVolumeClaim != nil:
				return v.PersistentVolumeClaim.ClaimName == name
			case v.Ephemeral != nil:
				return pod.Name+"-"+v.Name == name
			}
			return false
		})
	})
}

func (r reader) volume(ctx context.Context, node, _, name string) (bool, error) {
	volumes := corev1.SchemeGroupVersion.WithResource("persistentvolumes")
	v, ok, err := get[*corev1.PersistentVolume](ctx, r, volumes, "", name)
	if !ok || v.Spec.ClaimRef == nil {
		return false, err
	}
	return r.claim(ctx, node, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
}

func (r reader) resourceClaim(ctx context.Context, node, namespace, name string) (bool, error) {
	return r.anyPod(ctx, node, namespace, func(pod *corev1.Pod) bool {
		return slices.Contains(resourceClaimsOf(pod), name)
	})
}

func (r reader) attachment(ctx context.Context, node, _, name string) (bool, error) {
	attachments := storagev1.SchemeGroupVersion.WithResource("volumeattachments")
	a, ok, err := get[*storagev1.VolumeAttachment](ctx, r, attachments, "", name)
	return ok && a.Spec.NodeName == node, err
}

func (r reader) slice(ctx context.Context, node, _, name string) (bool, error) {
	slices := resourcev1.SchemeGroupVersion.WithResource("resourceslices")
	s, ok, err := get[*resourcev1.ResourceSlice](ctx, r, slices, "", name)
	return ok && s.Spec.NodeName != nil && *s.Spec.NodeName == node, err
}

func (r reader) certificateRequest(ctx context.Context, node, namespace, name string) (bool, error) {
	requests := certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests")
	c, ok, err := get[*certificatesv1.PodCertificateRequest](ctx, r, requests, namespace, name)
	return ok && string(c.Spec.NodeName) == node, err
}
