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

// remains is what could not be removed from a namespace, and why.
type remains struct {
	undiscovered error          // not all groups could tell of their kinds
	unparsed     error          // nor could all that they told be understood
	undeleted    []error        // deletions that the server refused
	objects      map[string]int // how many are left, by resource
	finalizers   map[string]int // how many of them wait for each finalizer
	unwatched    bool           // some are of a kind that the inventory does not watch now
}

func (r *remains) none() bool {
	return r.undiscovered == nil && r.unparsed == nil && len(r.undeleted) == 0 && len(r.objects) == 0
}

// empty deletes everything in a namespace and returns what is left. Pods go first, so that nothing
// they use is taken from under them. The error is for what was not even tried.
func (r *reconciler) empty(ctx context.Context, namespace string) (*remains, error) {
	left := &remains{objects: map[string]int{}, finalizers: map[string]int{}}
	all, undiscovered, unparsed := r.discover()
	left.undiscovered, left.unparsed = undiscovered, unparsed
	for _, res := range inOrder(all) {
		if err := r.emptyOf(ctx, namespace, res, left); err != nil {
			left.undeleted = append(left.undeleted, fmt.Errorf("%s: %w", name(res), err))
		}
		if isPod(res) && len(left.objects) > 0 {
			break
		}
	}
	return left, errors.Join(append(left.undeleted, left.undiscovered, left.unparsed)...)
}

func isPod(r inventory.Resource) bool { return r.Kind.Group == "" && r.Plural == "pods" }

func name(r inventory.Resource) string { return r.Plural + "." + r.Kind.Group }

// inOrder picks what can be found and deleted in a namespace, pods first.
func inOrder(all []inventory.Resource) []inventory.Resource {
	var list []inventory.Resource
	for _, r := range all {
		if r.Namespaced && r.Can("delete") && r.Can("list") {
			list = append(list, r)
		}
	}
	slices.SortStableFunc(list, func(a, b inventory.Resource) int {
		switch {
		case isPod(a) == isPod(b):
			return cmp.Compare(name(a), name(b))
		case isPod(a):
			return -1
		default:
			return 1
		}
	})
	return list
}

// emptyOf deletes the objects of one kind and counts those that are left. That the kind is no longer served
// is an error too: its objects may still exist, and be served in another version.
func (r *reconciler) emptyOf(ctx context.Context, namespace string, res inventory.Resource, left *remains) error {
	objects, err := r.list(ctx, namespace, res)
	if err != nil || len(objects) == 0 {
		return err
	}
	if slices.ContainsFunc(objects, func(o metav1.PartialObjectMetadata) bool { return o.DeletionTimestamp == nil }) {
		if err := r.deleteAll(ctx, namespace, res, objects); err != nil {
			return err
		}
		if objects, err = r.list(ctx, namespace, res); err != nil {
			return err
		}
	}
	watched := r.watched(res.Kind.GroupKind())
	for _, o := range objects {
		left.unwatched = left.unwatched || !watched
		left.objects[name(res)]++
		for _, f := range o.Finalizers {
			left.finalizers[f]++
		}
	}
	return nil
}

func (r *reconciler) list(ctx context.Context, namespace string, res inventory.Resource) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(res.Kind.GroupVersion().WithKind(res.Kind.Kind + "List"))
	err := r.live.List(ctx, list, client.InNamespace(namespace))
	return list.Items, err
}

func (r *reconciler) deleteAll(ctx context.Context, namespace string, res inventory.Resource, objects []metav1.PartialObjectMetadata) error {
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

// conditions are those of a namespace from which this remains. Those in old that stay true or false
// keep the time of their last change.
func (r *remains) conditions(old []corev1.NamespaceCondition, now metav1.Time) []corev1.NamespaceCondition {
	list := slices.Clone(old)
	set := func(kind corev1.NamespaceConditionType, bad bool, good, well, reason, message string) {
		c := corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, Reason: good, Message: well, LastTransitionTime: now}
		if bad {
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
	set(corev1.NamespaceDeletionDiscoveryFailure, r.undiscovered != nil,
		"ResourcesDiscovered", "All resources successfully discovered",
		"DiscoveryFailed", undiscoveredMessage(r.undiscovered))
	set(corev1.NamespaceDeletionGVParsingFailure, r.unparsed != nil,
		"ParsedGroupVersions", "All legacy kube types successfully parsed",
		"GroupVersionParsingFailed", message(r.unparsed))
	set(corev1.NamespaceDeletionContentFailure, len(r.undeleted) > 0,
		"ContentDeleted", "All content successfully deleted, may be waiting on finalization",
		"ContentDeletionFailed", undeletedMessage(r.undeleted))
	set(corev1.NamespaceContentRemaining, len(r.objects) > 0,
		"ContentRemoved", "All content successfully removed",
		"SomeResourcesRemain", "Some resources are remaining: "+count(r.objects, "%s has %d resource instances"))
	set(corev1.NamespaceFinalizersRemaining, len(r.finalizers) > 0,
		"ContentHasNoFinalizers", "All content-preserving finalizers finished",
		"SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+count(r.finalizers, "%s in %d resource instances"))
	return list
}

func undiscoveredMessage(err error) string {
	var groups *discovery.ErrGroupDiscoveryFailed
	if errors.As(err, &groups) {
		return fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(groups.Groups), err)
	}
	return message(err)
}

func undeletedMessage(errs []error) string {
	var messages []string
	for _, err := range errs {
		messages = append(messages, err.Error())
	}
	slices.Sort(messages)
	return fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(errs), strings.Join(messages, ", "))
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func count(of map[string]int, format string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf(format, name, of[name]))
	}
	return strings.Join(parts, ", ")
}
