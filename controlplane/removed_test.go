package controlplane_test

import (
	"testing"

	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"flyball.dev/controlplane"
)

// TestRemovedVersions uses the versions that Kubernetes has removed, as an old client does, and their objects by the new versions.
func TestRemovedVersions(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true, RemovedVersions: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	c, ctx := kubernetes.NewForConfigOrDie(plane.Config()), t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	jobs := c.BatchV1beta1().CronJobs("default")
	w, err := jobs.Watch(ctx, metav1.ListOptions{})
	check(err)
	defer w.Stop()
	job := &batchv1beta1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "report"}, Spec: batchv1beta1.CronJobSpec{Schedule: "@daily"}}
	job.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "report", Image: "report:1"}}}
	job, err = jobs.Create(ctx, job, metav1.CreateOptions{})
	check(err)
	if job.Spec.ConcurrencyPolicy != batchv1beta1.AllowConcurrent || *job.Spec.SuccessfulJobsHistoryLimit != 3 {
		t.Errorf("the defaults are missing: %+v", job.Spec)
	}
	if e := <-w.ResultChan(); e.Object.(*batchv1beta1.CronJob).Spec.Schedule != "@daily" {
		t.Errorf("the event is %+v", e)
	}
	job.Spec.Schedule = "@weekly"
	_, err = jobs.Update(ctx, job, metav1.UpdateOptions{})
	check(err)
	_, err = jobs.Patch(ctx, "report", types.StrategicMergePatchType,
		[]byte(`{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"report","image":"report:2"}]}}}}}}`), metav1.PatchOptions{})
	check(err)
	applied, err := jobs.Patch(ctx, "report", types.ApplyPatchType,
		[]byte(`{"apiVersion":"batch/v1beta1","kind":"CronJob","spec":{"suspend":true}}`), metav1.PatchOptions{FieldManager: "old", Force: new(true)})
	check(err)
	if !*applied.Spec.Suspend || applied.ManagedFields[0].APIVersion == "" {
		t.Errorf("applied: %+v", applied)
	}
	newer, err := c.BatchV1().CronJobs("default").Get(ctx, "report", metav1.GetOptions{})
	check(err)
	if newer.Spec.Schedule != "@weekly" || newer.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image != "report:2" || !*newer.Spec.Suspend {
		t.Errorf("in batch/v1: %+v", newer.Spec)
	}
	list, err := jobs.List(ctx, metav1.ListOptions{})
	check(err)
	if len(list.Items) != 1 || list.Items[0].Spec.Schedule != "@weekly" {
		t.Errorf("the list is %+v", list)
	}
	check(jobs.Delete(ctx, "report", metav1.DeleteOptions{}))
	_, err = jobs.Create(ctx, &batchv1beta1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "report"}}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("without a schedule: %v", err)
	}

	budgets, newBudgets := c.PolicyV1beta1().PodDisruptionBudgets("default"), c.PolicyV1().PodDisruptionBudgets("default")
	none := &policyv1beta1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	none.Spec.Selector = &metav1.LabelSelector{}
	none, err = budgets.Create(ctx, none, metav1.CreateOptions{})
	check(err)
	got, err := newBudgets.Get(ctx, "none", metav1.GetOptions{})
	check(err)
	if s, err := metav1.LabelSelectorAsSelector(got.Spec.Selector); err != nil || s.Empty() {
		t.Errorf("an empty selector, which selects nothing in v1beta1, is %v in v1, %v", s, err)
	}
	if len(none.Spec.Selector.MatchExpressions) > 0 {
		t.Errorf("the empty selector comes back as %v", none.Spec.Selector)
	}
	got.Spec.Selector = &metav1.LabelSelector{}
	_, err = newBudgets.Update(ctx, got, metav1.UpdateOptions{})
	check(err)
	all, err := budgets.Get(ctx, "none", metav1.GetOptions{})
	check(err)
	if s, err := metav1.LabelSelectorAsSelector(all.Spec.Selector); err != nil || s.Empty() {
		t.Errorf("a selector of all pods in v1 is %v in v1beta1, %v", s, err)
	}
	check(budgets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
}

// TestRemovedDefinitions creates a definition as tools did before structural schemas, and a custom resource with fields that the
// schema does not know.
func TestRemovedDefinitions(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true, RemovedVersions: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	c, ctx := apiextensions.NewForConfigOrDie(plane.Config()), t.Context()
	old := &v1beta1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(`
metadata: {name: zoos.example.com}
spec:
  group: example.com
  names: {kind: Zoo, plural: zoos}
  scope: Namespaced
  version: v1
  subresources: {status: {}}
  additionalPrinterColumns: [{name: Size, type: integer, JSONPath: .spec.size}]
  validation:
    openAPIV3Schema:
      properties:
        metadata: {type: object}
        spec:
          properties:
            size: {type: integer, minimum: 1}
            port: {anyOf: [{type: string}, {type: integer}]}
`), old); err != nil {
		t.Fatal(err)
	}
	old, err = c.ApiextensionsV1beta1().CustomResourceDefinitions().Create(ctx, old, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	newer, err := c.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, "zoos.example.com", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := newer.Spec.Versions[0]
	if v.Subresources == nil || len(v.AdditionalPrinterColumns) != 1 || v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["size"].Type != "integer" ||
		!v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["port"].XIntOrString {
		t.Errorf("in v1: %+v", v)
	}
	zoos := dynamic.NewForConfigOrDie(plane.Config()).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "zoos"}).Namespace("default")
	zoo := func(name string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Zoo", "metadata": map[string]any{"name": name}, "spec": spec}}
	}
	got, err := zoos.Create(ctx, zoo("a", map[string]any{"size": int64(1), "port": "http", "unknown": "kept"}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if kept, _, _ := unstructured.NestedString(got.Object, "spec", "unknown"); kept != "kept" {
		t.Errorf("an unknown field was pruned: %v", got)
	}
	if _, err := zoos.Create(ctx, zoo("b", map[string]any{"size": int64(0)}), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("less than the minimum: %v", err)
	}

	definitions := c.ApiextensionsV1beta1().CustomResourceDefinitions()
	if old, err = definitions.Get(ctx, old.Name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	old.Spec.PreserveUnknownFields, old.Spec.Names.ShortNames = nil, []string{"zo"}
	if old, err = definitions.Update(ctx, old, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := definitions.Patch(ctx, old.Name, types.MergePatchType, []byte(`{"spec":{"names":{"categories":["all"]}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := definitions.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Spec.Version != "v1" {
		t.Errorf("the list is %+v, %v", list, err)
	}
	w, err := definitions.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := zoos.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := definitions.Delete(ctx, old.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := <-w.ResultChan(); e.Object.(*v1beta1.CustomResourceDefinition).Name != old.Name {
		t.Errorf("the event is %+v", e)
	}
}

// TestRemovedVersionsByDefault: without the option, nobody finds them.
func TestRemovedVersionsByDefault(t *testing.T) {
	for _, served := range []bool{false, true} {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true, RemovedVersions: served})
		if err != nil {
			t.Fatal(err)
		}
		c := kubernetes.NewForConfigOrDie(plane.Config())
		for _, gv := range []string{"batch/v1beta1", "policy/v1beta1", "apiextensions.k8s.io/v1beta1"} {
			_, err := c.Discovery().ServerResourcesForGroupVersion(gv)
			if served && err != nil || !served && !apierrors.IsNotFound(err) {
				t.Errorf("served: %v, %s: %v", served, gv, err)
			}
		}
		groups, err := c.Discovery().ServerGroups()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups.Groups {
			if (g.Name == "batch" || g.Name == "policy" || g.Name == "apiextensions.k8s.io") && g.PreferredVersion.Version != "v1" {
				t.Errorf("%s prefers %s", g.Name, g.PreferredVersion.Version)
			}
		}
		if _, err := c.BatchV1beta1().CronJobs("default").List(t.Context(), metav1.ListOptions{}); !served && !apierrors.IsNotFound(err) {
			t.Errorf("the list of a version that is not served: %v", err)
		}
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}
}
