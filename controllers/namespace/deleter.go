package namespace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/ctrl/client"
)

// deletionResult describes the remaining content of a namespace after a deletion of its content.
type deletionResult struct {
	discoveryErr    error          // groups that could not be discovered
	groupVersionErr error          // group versions that could not be parsed
	contentErrs     []error        // by kind, the errors in deleting or listing its objects
	remaining       map[string]int // the number of objects left, by resource
	finalizers      map[string]int // the number of objects left, by finalizer
	estimate        time.Duration  // until the objects are gone; zero if there are none, or after an error
	unwatched       bool           // no watch tells when the next attempt is due
}

// finalizerEstimate is how long finalizers are expected to take.
//
//upstream:pkg/controller/namespace/deletion.finalizerEstimateSeconds
const finalizerEstimate = 15 * time.Second

// deleteAllContent deletes all objects in a namespace and returns the remaining content. It deletes pods first, so
// that the objects that pods use exist as long as the pods. The error has all kinds that failed.
//
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.deleteAllContent
func (r *reconciler) deleteAllContent(ctx context.Context, ns *corev1.Namespace) (*deletionResult, error) {
	result := &deletionResult{remaining: map[string]int{}, finalizers: map[string]int{}}
	all, undiscovered, unparsed := r.discover(ctx)
	result.discoveryErr, result.groupVersionErr = undiscovered, unparsed
	if unparsed != nil {
		all = nil
	}
	for _, res := range deletionOrder(all) {
		if err := r.deleteContentOf(ctx, ns, res, result); err != nil {
			result.contentErrs = append(result.contentErrs, err)
		}
		if isPod(res) && len(result.remaining) > 0 {
			// The conditions count no objects as long as there are pods.
			result.remaining, result.finalizers = nil, nil
			break
		}
	}
	return result, errors.Join(append(result.contentErrs, result.discoveryErr, result.groupVersionErr)...)
}

// isPod reports whether a resource is pods.
func isPod(r inventory.Resource) bool { return r.Kind.Group == "" && r.Plural == "pods" }

// groupResource returns the name of a resource as in the conditions of namespaces.
func groupResource(r inventory.Resource) string { return r.Plural + "." + r.Kind.Group }

// deletionOrder returns the namespaced resources that can be deleted, pods first.
func deletionOrder(all []inventory.Resource) []inventory.Resource {
	var list []inventory.Resource
	for _, r := range all {
		if r.Namespaced && r.Can("delete") {
			list = append(list, r)
		}
	}
	slices.SortStableFunc(list, func(a, b inventory.Resource) int {
		switch {
		case isPod(a) == isPod(b):
			return cmp.Compare(groupResource(a), groupResource(b))
		case isPod(a):
			return -1
		default:
			return 1
		}
	})
	return list
}

// deleteContentOf deletes the objects of one kind and adds the remaining ones to result. Objects remain while their grace
// period or a finalizer keeps them; others that remain are an error. It is an error, too, if the kind is no longer served,
// since its objects may still exist and may be served in another version.
//
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.deleteAllContentForGroupVersionResource
func (r *reconciler) deleteContentOf(ctx context.Context, ns *corev1.Namespace, res inventory.Resource,
	result *deletionResult) error {
	var estimate time.Duration
	if isPod(res) {
		var err error
		if estimate, err = r.estimateForPods(ctx, ns); err != nil {
			return err
		}
	}
	objects, listed, err := r.list(ctx, ns.Name, res)
	if !listed || err != nil || slices.ContainsFunc(objects, deletable) {
		if err := r.deleteCollection(ctx, ns.Name, res); err != nil {
			return err
		}
		objects, _, err = r.list(ctx, ns.Name, res)
	}
	if err != nil || len(objects) == 0 {
		return err
	}
	result.remaining[groupResource(res)] = len(objects)
	for _, o := range objects {
		for _, f := range o.Finalizers {
			result.finalizers[f]++
		}
	}
	kept := slices.ContainsFunc(objects, func(o metav1.PartialObjectMetadata) bool { return len(o.Finalizers) > 0 })
	if estimate == 0 && !kept {
		gvr := res.Kind.GroupVersion().WithResource(res.Plural)
		return fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", ns.Name, gvr)
	}
	result.unwatched = result.unwatched || estimate > 0 || !r.monitored(res.Kind.GroupKind())
	result.estimate = max(result.estimate, cmp.Or(estimate, finalizerEstimate))
	return nil
}

// deletable reports whether a deletion in the background changes an object: the object is not being deleted, nothing keeps it,
// or the garbage collector deletes or orphans its dependents first.
func deletable(o metav1.PartialObjectMetadata) bool {
	return o.DeletionTimestamp == nil || len(o.Finalizers) == 0 && ptr.Deref(o.DeletionGracePeriodSeconds, 0) == 0 ||
		slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents) ||
		slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents)
}

// estimateForPods returns the longest grace period of the pods that have not ended, or zero if it has passed since the deletion
// of the namespace.
//
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.estimateGracefulTermination
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.estimateGracefulTerminationForPods
func (r *reconciler) estimateForPods(ctx context.Context, ns *corev1.Namespace) (time.Duration, error) {
	pods := &corev1.PodList{}
	if err := r.live.List(ctx, pods, client.InNamespace(ns.Name)); err != nil {
		return 0, err
	}
	var estimate time.Duration
	for i := range pods.Items {
		pod := &pods.Items[i]
		if podstate.Finished(pod) || pod.Spec.TerminationGracePeriodSeconds == nil {
			continue
		}
		estimate = max(estimate, time.Duration(*pod.Spec.TerminationGracePeriodSeconds)*time.Second)
	}
	if time.Since(ns.DeletionTimestamp.Time) >= estimate {
		return 0, nil
	}
	return estimate, nil
}

// list lists the objects of one kind live. It reports whether they can be listed.
//
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.listCollection
func (r *reconciler) list(ctx context.Context, namespace string,
	res inventory.Resource) (_ []metav1.PartialObjectMetadata, listed bool, _ error) {
	if !res.Can("list") {
		return nil, false, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(res.Kind.GroupVersion().WithKind(res.Kind.Kind + "List"))
	err := r.live.List(ctx, list, client.InNamespace(namespace))
	if apierrors.IsMethodNotSupported(err) {
		return nil, false, nil
	}
	return list.Items, true, err
}

// deleteCollection deletes the objects of one kind in the background, with one request if the server supports that.
//
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.deleteCollection
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.deleteEachItem
func (r *reconciler) deleteCollection(ctx context.Context, namespace string, res inventory.Resource) error {
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if res.Can("deletecollection") {
		kind := &metav1.PartialObjectMetadata{}
		kind.SetGroupVersionKind(res.Kind)
		err := r.client.DeleteAllOf(ctx, kind, client.InNamespace(namespace), background)
		if !apierrors.IsMethodNotSupported(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	objects, _, err := r.list(ctx, namespace, res)
	if err != nil {
		return err
	}
	for i := range objects {
		objects[i].SetGroupVersionKind(res.Kind)
		err := client.IgnoreNotFound(r.client.Delete(ctx, &objects[i], background))
		if err != nil && !apierrors.IsMethodNotSupported(err) {
			return err
		}
	}
	return nil
}

// conditions returns the conditions of the namespace. A condition of old that keeps its status keeps the time of its
// last transition.
//
//upstream:pkg/controller/namespace/deletion.namespaceConditionUpdater.Update
//upstream:pkg/controller/namespace/deletion.updateConditions
//upstream:pkg/controller/namespace/deletion.conditionTypes
//upstream:pkg/controller/namespace/deletion.okMessages
//upstream:pkg/controller/namespace/deletion.okReasons
func (r *deletionResult) conditions(old []corev1.NamespaceCondition, now metav1.Time) []corev1.NamespaceCondition {
	list := slices.Clone(old)
	set := func(kind corev1.NamespaceConditionType, failed bool, okReason, okMessage, reason, message string) {
		c := corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, Reason: okReason,
			Message: okMessage, LastTransitionTime: now}
		if failed {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reason, message
		}
		i := slices.IndexFunc(list, func(c corev1.NamespaceCondition) bool { return c.Type == kind })
		if i < 0 {
			list = append(list, c)
			return
		}
		if list[i].Status == c.Status {
			c.LastTransitionTime = list[i].LastTransitionTime
		}
		list[i] = c
	}
	set(corev1.NamespaceDeletionDiscoveryFailure, r.discoveryErr != nil,
		"ResourcesDiscovered", "All resources successfully discovered",
		"DiscoveryFailed", discoveryMessage(r.discoveryErr))
	set(corev1.NamespaceDeletionGVParsingFailure, r.groupVersionErr != nil,
		"ParsedGroupVersions", "All legacy kube types successfully parsed",
		"GroupVersionParsingFailed", message(r.groupVersionErr))
	set(corev1.NamespaceDeletionContentFailure, len(r.contentErrs) > 0,
		"ContentDeleted", "All content successfully deleted, may be waiting on finalization",
		"ContentDeletionFailed", contentMessage(r.contentErrs))
	set(corev1.NamespaceContentRemaining, len(r.remaining) > 0,
		"ContentRemoved", "All content successfully removed",
		"SomeResourcesRemain", "Some resources are remaining: "+count(r.remaining, "%s has %d resource instances"))
	set(corev1.NamespaceFinalizersRemaining, len(r.finalizers) > 0,
		"ContentHasNoFinalizers", "All content-preserving finalizers finished",
		"SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+count(r.finalizers,
			"%s in %d resource instances"))
	return list
}

// discoveryMessage returns the message for a failure of discovery.
func discoveryMessage(err error) string {
	var groups *discovery.ErrGroupDiscoveryFailed
	if errors.As(err, &groups) {
		return fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(groups.Groups), err)
	}
	return message(err)
}

// contentMessage returns the message for the errors in deleting objects.
func contentMessage(errs []error) string {
	var messages []string
	for _, err := range errs {
		messages = append(messages, err.Error())
	}
	slices.Sort(messages)
	return fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(errs), strings.Join(messages, ", "))
}

// message returns the message of an error, or "".
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// count formats the entries of a map, sorted by key.
func count(of map[string]int, format string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf(format, name, of[name]))
	}
	return strings.Join(parts, ", ")
}
