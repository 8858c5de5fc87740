package namespace

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"flyball.dev/controllers/internal/inventory"
)

func TestConditions(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	old := (&deletionResult{}).conditions(nil, before)
	for _, tt := range []struct {
		name string
		r    deletionResult
		// of the conditions that are true, the reason and message; they are those that have changed
		want map[corev1.NamespaceConditionType]string
	}{
		{"nothing", deletionResult{}, map[corev1.NamespaceConditionType]string{}},
		{"objects", deletionResult{remaining: map[string]int{"pods.": 2, "deployments.apps": 1}}, map[corev1.NamespaceConditionType]string{
			corev1.NamespaceContentRemaining: "SomeResourcesRemain: Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances",
		}},
		{"finalizers", deletionResult{remaining: map[string]int{"pods.": 1}, finalizers: map[string]int{"b/x": 1, "a/x": 3}}, map[corev1.NamespaceConditionType]string{
			corev1.NamespaceContentRemaining:    "SomeResourcesRemain: Some resources are remaining: pods. has 1 resource instances",
			corev1.NamespaceFinalizersRemaining: "SomeFinalizersRemain: Some content in the namespace has finalizers remaining: a/x in 3 resource instances, b/x in 1 resource instances",
		}},
		{"failures", deletionResult{discoveryErr: errors.New("timeout"), contentErrs: []error{errors.New("refused"), errors.New("not now")}}, map[corev1.NamespaceConditionType]string{
			corev1.NamespaceDeletionDiscoveryFailure: "DiscoveryFailed: timeout",
			corev1.NamespaceDeletionContentFailure:   "ContentDeletionFailed: Failed to delete all resource types, 2 remaining: not now, refused",
		}},
		{"a group that cannot be discovered", deletionResult{discoveryErr: &discovery.ErrGroupDiscoveryFailed{
			Groups: map[schema.GroupVersion]error{{Group: "example.com", Version: "v1"}: errors.New("timeout")},
		}}, map[corev1.NamespaceConditionType]string{
			corev1.NamespaceDeletionDiscoveryFailure: "DiscoveryFailed: Discovery failed for some groups, 1 failing: " +
				"unable to retrieve the complete list of server APIs: example.com/v1: timeout",
		}},
		{"a version that cannot be parsed", deletionResult{groupVersionErr: errors.New("unexpected GroupVersion string: a/b/c")}, map[corev1.NamespaceConditionType]string{
			corev1.NamespaceDeletionGVParsingFailure: "GroupVersionParsingFailed: unexpected GroupVersion string: a/b/c",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := map[corev1.NamespaceConditionType]string{}
			conditions := tt.r.conditions(old, now)
			for _, c := range conditions {
				changed := c.LastTransitionTime == now
				if c.Status == corev1.ConditionTrue {
					got[c.Type] = c.Reason + ": " + c.Message
				}
				if changed != (c.Status == corev1.ConditionTrue) {
					t.Errorf("%s changed: %v", c.Type, changed)
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
			if len(conditions) != 5 {
				t.Errorf("%d conditions", len(conditions))
			}
		})
	}
}

func TestPodsAreDeletedFirst(t *testing.T) {
	resource := func(group, plural string, namespaced bool, verbs ...string) inventory.Resource {
		return inventory.Resource{Kind: schema.GroupVersionKind{Group: group}, Plural: plural, Namespaced: namespaced, Verbs: verbs}
	}
	var got []string
	for _, r := range deletionOrder([]inventory.Resource{
		resource("", "configmaps", true, "list", "delete"), resource("", "nodes", false, "list", "delete"),
		resource("apps", "deployments", true, "list", "delete"), resource("", "bindings", true, "create"), resource("z", "unlisted", true, "delete"), resource("", "pods", true, "list", "delete"),
	}) {
		got = append(got, groupResource(r))
	}
	if d := cmp.Diff([]string{"pods.", "configmaps.", "deployments.apps", "unlisted.z"}, got); d != "" {
		t.Error(d)
	}
}
