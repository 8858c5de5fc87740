package quota

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	upstreamquota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"

	"flyball.dev/internal/quota"
	"flyball.dev/test/mirror/random"
)

// TestEvaluators compares what objects use of quotas, and which quotas they match.
func TestEvaluators(t *testing.T) {
	evaluators, err := core.NewEvaluators(nil, informers.NewSharedInformerFactory(fake.NewClientset(), 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[schema.GroupResource]runtime.Object{
		corev1.Resource("pods"):                   &corev1.Pod{},
		corev1.Resource("services"):               &corev1.Service{},
		corev1.Resource("persistentvolumeclaims"): &corev1.PersistentVolumeClaim{},
		resourcev1.Resource("resourceclaims"):     &resourcev1.ResourceClaim{},
		corev1.Resource("configmaps"):             &corev1.ConfigMap{},
		corev1.Resource("resourcequotas"):         &corev1.ResourceQuota{},
		corev1.Resource("replicationcontrollers"): &corev1.ReplicationController{},
		corev1.Resource("secrets"):                &corev1.Secret{},
	}
	if len(evaluators) != len(objects) {
		t.Errorf("Kubernetes has %d evaluators, and %d are compared", len(evaluators), len(objects))
	}
	for _, theirs := range evaluators {
		r := theirs.GroupResource()
		t.Run(r.String(), func(t *testing.T) {
			ours, seen := quota.Evaluator(r, nil), random.Seen{}
			random.Compare(t, 3000, func(s *random.Source) { compare(t, s, seen, ours, theirs, objects[r]) })
			seen.Require(t, "matches false", "handles false", "matches true", "handles true")
		})
	}
}

func compare(t *testing.T, s *random.Source, seen random.Seen, ours, theirs upstreamquota.Evaluator, empty runtime.Object) {
	obj, old := generate(s, empty), generate(s, empty)
	equal := func(what string, a, b any) {
		if !equality.Semantic.DeepEqual(a, b) {
			text, _ := json.Marshal(obj)
			t.Errorf("%s:\nours   %v\ntheirs %v\nof %s", what, a, b, text)
		}
	}
	used, err := ours.Usage(obj)
	want, wantErr := theirs.Usage(obj)
	equal("usage", used, want)
	equal("error", fmt.Sprint(err), fmt.Sprint(wantErr))

	names := slices.Compact(slices.Sorted(slices.Values(random.Some(s, 8, resourceNames...))))
	matching := theirs.MatchingResources(names)
	equal("resources", slices.Sorted(slices.Values(ours.MatchingResources(names))), slices.Compact(slices.Sorted(slices.Values(matching))))

	q := newQuota(s, names)
	matches, err := ours.Matches(q, obj)
	wantMatches, wantErr := theirs.Matches(q, obj)
	equal("matches", fmt.Sprint(matches, err), fmt.Sprint(wantMatches, wantErr))
	seen[fmt.Sprint("matches ", wantMatches)]++

	scopes := newScopes(s)
	a, err := ours.MatchingScopes(obj, scopes)
	b, wantErr := theirs.MatchingScopes(obj, scopes)
	equal("scopes", fmt.Sprint(a, err), fmt.Sprint(b, wantErr))
	seen[fmt.Sprint("scopes ", len(b) > 0)]++

	problem := theirs.Constraints(matching, obj)
	equal("constraints", fmt.Sprint(ours.Constraints(matching, obj)), fmt.Sprint(problem))
	seen[fmt.Sprint("constrained ", problem != nil)]++

	attributes := newAttributes(s, obj, old, theirs.GroupResource())
	handles := theirs.Handles(attributes)
	equal(fmt.Sprintf("handles %s of %q", attributes.GetOperation(), attributes.GetSubresource()), ours.Handles(attributes), handles)
	seen[fmt.Sprint("handles ", handles)]++
}

func newAttributes(s *random.Source, obj, old runtime.Object, r schema.GroupResource) admission.Attributes {
	operation := random.Pick(s, admission.Create, admission.Update, admission.Update, admission.Delete, admission.Connect)
	if operation == admission.Create {
		old = nil
	}
	return admission.NewAttributesRecord(obj, old, schema.GroupVersionKind{}, "default", "a", r.WithVersion("v1"),
		random.Pick(s, "", "", "status", "resize", "scale"), operation, nil, false, nil)
}

func generate(s *random.Source, empty runtime.Object) runtime.Object {
	s.Values = map[string][]string{
		"v1.ResourceName":           {"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu", "kubernetes.io/a", "storage", "requests.example.com/gpu"},
		"v1.PodPhase":               {"Pending", "Running", "Running", "Running", "Succeeded", "Failed"},
		"v1.ServiceType":            {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"},
		"v1.ContainerRestartPolicy": {"Always", "Always", "Never"},
		"PriorityClassName":         {"a", "b"},
		"v1.DeviceAllocationMode":   {"ExactCount", "All"},
	}
	s.Values["Name"] = []string{"a", "b", "c"}
	s.Values["v1.PodConditionType"] = []string{"PodResizePending", "Ready"}
	s.Values["Reason"] = []string{"Infeasible", "Deferred"}
	obj := empty.DeepCopyObject()
	s.Fill(obj)
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.Status.QOSClass = "" // it follows from the spec
	}
	if object, err := meta.Accessor(obj); err == nil {
		object.SetNamespace("default")
		if s.Chance(80) {
			object.SetDeletionTimestamp(nil)
		}
	}
	return obj
}

var resourceNames = []corev1.ResourceName{"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "pods", "count/pods",
	"ephemeral-storage", "limits.ephemeral-storage", "requests.ephemeral-storage", "hugepages-2Mi", "requests.hugepages-2Mi", "limits.hugepages-2Mi",
	"example.com/gpu", "requests.example.com/gpu", "limits.example.com/gpu", "requests.kubernetes.io/a", "services", "count/services",
	"services.nodeports", "services.loadbalancers", "persistentvolumeclaims", "count/persistentvolumeclaims", "requests.storage",
	"a.storageclass.storage.k8s.io/requests.storage", "a.storageclass.storage.k8s.io/persistentvolumeclaims", "a.storageclass.storage.k8s.io/pods",
	"configmaps", "count/configmaps", "secrets", "count/secrets", "replicationcontrollers", "count/replicationcontrollers",
	"resourcequotas", "count/resourcequotas", "count/resourceclaims.resource.k8s.io", "a.deviceclass.resource.k8s.io/devices",
	"requests.deviceclass.resource.kubernetes.io/a", "storage", "a"}

func newQuota(s *random.Source, names []corev1.ResourceName) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{}
	q.Status.Hard = corev1.ResourceList{}
	for _, name := range names {
		q.Status.Hard[name] = resource.MustParse("1")
	}
	q.Spec.Hard = q.Status.Hard
	if s.Chance(30) {
		q.Spec.Scopes = random.Some(s, 2, corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating,
			corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort)
	}
	if s.Chance(30) {
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: newScopes(s)}
	}
	return q
}

func newScopes(s *random.Source) []corev1.ScopedResourceSelectorRequirement {
	var list []corev1.ScopedResourceSelectorRequirement
	for range s.IntN(3) {
		r := corev1.ScopedResourceSelectorRequirement{
			ScopeName: random.Pick(s, corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
				corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopePriorityClass,
				corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopeVolumeAttributesClass, "Else"),
			Operator: corev1.ScopeSelectorOpExists,
		}
		if r.ScopeName == corev1.ResourceQuotaScopePriorityClass || r.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass {
			r.Operator = random.Pick(s, corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn, corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist)
		}
		if strings.HasSuffix(string(r.Operator), "In") {
			r.Values = append(random.Some(s, 2, "a", "b"), "c")
		}
		list = append(list, r)
	}
	return list
}
