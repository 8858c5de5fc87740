package namespace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/ctrl/client"
)

// deletionResult describes the remaining content of a namespace after a deletion of its content.
type deletionResult struct {
	discoveryErr    error          // groups that could not be discovered
	groupVersionErr error          // group versions that could not be parsed
	contentErrs     []error        // by kind, the errors in deleting or listing its objects
	remaining       map[string]int // the number of objects left, by resource
	finalizers      map[string]int // the number of objects left, by finalizer
	unmonitored     bool           // some are of kinds that the inventory does not watch now
}

// empty reports whether the namespace is known to be empty.
func (r *deletionResult) empty() bool {
	return r.discoveryErr == nil && r.groupVersionErr == nil && len(r.contentErrs) == 0 && len(r.remaining) == 0
}

// deleteAllContent deletes all objects in a namespace and returns the remaining content. It deletes pods first, so
// that the objects that pods use exist as long as the pods. The error has all kinds that failed.
//
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.deleteAllContent
func (r *reconciler) deleteAllContent(ctx context.Context, namespace string) (*deletionResult, error) {
	result := &deletionResult{remaining: map[string]int{}, finalizers: map[string]int{}}
	all, undiscovered, unparsed := r.discover(ctx)
	result.discoveryErr, result.groupVersionErr = undiscovered, unparsed
	for _, res := range deletionOrder(all) {
		if err := r.deleteContentOf(ctx, namespace, res, result); err != nil {
			result.contentErrs = append(result.contentErrs, err)
		}
		if isPod(res) && len(result.remaining) > 0 {
			break
		}
	}
	return result, errors.Join(append(result.contentErrs, result.discoveryErr, result.groupVersionErr)...)
}

// isPod reports whether a resource is pods.
func isPod(r inventory.Resource) bool { return r.Kind.Group == "" && r.Plural == "pods" }

// groupResource returns the name of a resource as in the conditions of namespaces.
func groupResource(r inventory.Resource) string { return r.Plural + "." + r.Kind.Group }

// deletionOrder returns the namespaced resources that can be listed and deleted, pods first.
func deletionOrder(all []inventory.Resource) []inventory.Resource {
	var list []inventory.Resource
	for _, r := range all {
		if r.Namespaced && r.Can("delete") && r.Can("list") {
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

// deleteContentOf deletes the objects of one kind and adds the remaining ones to result. It is an error if the kind is
// no longer served, since its objects may still exist and may be served in another version.
//
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.deleteAllContentForGroupVersionResource
func (r *reconciler) deleteContentOf(ctx context.Context, namespace string, res inventory.Resource,
	result *deletionResult) error {
	objects, err := r.list(ctx, namespace, res)
	if err != nil || len(objects) == 0 {
		return err
	}
	if slices.ContainsFunc(objects, func(o metav1.PartialObjectMetadata) bool { return o.DeletionTimestamp == nil }) {
		if err := r.deleteCollection(ctx, namespace, res, objects); err != nil {
			return err
		}
		if objects, err = r.list(ctx, namespace, res); err != nil {
			return err
		}
	}
	watched := r.monitored(res.Kind.GroupKind())
	for _, o := range objects {
		result.unmonitored = result.unmonitored || !watched
		result.remaining[groupResource(res)]++
		for _, f := range o.Finalizers {
			result.finalizers[f]++
		}
	}
	return nil
}

// list lists the objects of one kind live.
//
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.listCollection
func (r *reconciler) list(ctx context.Context, namespace string,
	res inventory.Resource) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(res.Kind.GroupVersion().WithKind(res.Kind.Kind + "List"))
	err := r.live.List(ctx, list, client.InNamespace(namespace))
	return list.Items, err
}

// deleteCollection deletes the objects of one kind in the background, with one request if it has
// the verb.
//
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.deleteCollection
//upstream:pkg/controller/namespace/deletion.namespacedResourcesDeleter.deleteEachItem
func (r *reconciler) deleteCollection(ctx context.Context, namespace string, res inventory.Resource,
	objects []metav1.PartialObjectMetadata) error {
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if res.Can("deletecollection") {
		kind := &metav1.PartialObjectMetadata{}
		kind.SetGroupVersionKind(res.Kind)
		return r.client.DeleteAllOf(ctx, kind, client.InNamespace(namespace), background)
	}
	var errs []error
	for i := range objects {
		objects[i].SetGroupVersionKind(res.Kind)
		errs = append(errs, client.IgnoreNotFound(r.client.Delete(ctx, &objects[i], background)))
	}
	return errors.Join(errs...)
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
