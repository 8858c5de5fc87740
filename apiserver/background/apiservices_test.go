package background_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"flyball.dev/controlplane"
)

// objectOf returns the object of a manifest.
func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestAPIServicesFollowDiscovery checks that exactly the served group versions have APIServices,
// also while CustomResourceDefinitions come and go.
func TestAPIServicesFollowDiscovery(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	client := dynamic.NewForConfigOrDie(plane.Config())
	services := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	list, err := services.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	registered := map[string]bool{}
	for _, s := range list.Items {
		registered[s.GetName()] = true
		conditions, _, _ := unstructured.NestedSlice(s.Object, "status", "conditions")
		if len(conditions) != 1 || conditions[0].(map[string]any)["reason"] != "Local" || s.GetLabels()["kube-aggregator.kubernetes.io/automanaged"] != "onstart" {
			t.Errorf("%s is %v", s.GetName(), s.Object)
		}
	}
	groups, err := discovery.NewDiscoveryClientForConfigOrDie(plane.Config()).ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			if g.Name != "apiregistration.k8s.io" {
				served[v.Version+"."+g.Name] = true
			}
		}
	}
	if !maps.Equal(registered, served) {
		t.Errorf("registered %v, served %v", slices.Sorted(maps.Keys(registered)), slices.Sorted(maps.Keys(served)))
	}
	for _, name := range []string{"v1.", "v1.apps", "v2.autoscaling", "v1.resource.k8s.io"} {
		if !registered[name] {
			t.Errorf("no %s", name)
		}
	}

	events, err := services.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	next := func(want watch.EventType) *unstructured.Unstructured {
		t.Helper()
		select {
		case e := <-events.ResultChan():
			if u, ok := e.Object.(*unstructured.Unstructured); ok && e.Type == want && u.GetName() == "v1.example.com" {
				return u
			}
			t.Fatalf("got %v, want %s of v1.example.com", e, want)
		case <-ctx.Done():
			t.Fatalf("no %s of v1.example.com", want)
		}
		return nil
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := definitions.Create(ctx, objectOf(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if u := next(watch.Added); u.GetLabels()["kube-aggregator.kubernetes.io/automanaged"] != "true" {
		t.Errorf("registered %v", u.Object)
	}
	if err := definitions.Delete(ctx, "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next(watch.Deleted)
}

// TestReplacedMetrics: after a restart, an extension API server still serves the metrics, and none a group that is built in on a cluster.
func TestReplacedMetrics(t *testing.T) {
	dir := t.TempDir()
	apiServices := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	for _, restarted := range []bool{false, true} {
		plane, err := controlplane.Start(t.Context(), controlplane.Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		services := dynamic.NewForConfigOrDie(plane.Config()).Resource(apiServices)
		for name, stays := range map[string]bool{"v1beta1.metrics.k8s.io": true, "v1.scheduling.k8s.io": false} {
			if !restarted {
				_, err := services.Patch(t.Context(), name, types.MergePatchType,
					[]byte(`{"spec": {"insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "extension"}}}`), metav1.PatchOptions{})
				if err != nil {
					t.Error(err)
				}
				continue
			}
			is, err := services.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Error(err)
			} else if _, remote, _ := unstructured.NestedMap(is.Object, "spec", "service"); remote != stays {
				t.Errorf("after a restart, %s has %v", name, is.Object["spec"])
			}
		}
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestBootstrapObjects checks the objects of flow control and of the service network.
func TestBootstrapObjects(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	client := dynamic.NewForConfigOrDie(plane.Config())
	for _, tc := range []struct {
		resource schema.GroupVersionResource
		names    []string
	}{
		{schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"}, []string{"catch-all", "exempt", "global-default", "probes"}},
		{schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "prioritylevelconfigurations"}, []string{"catch-all", "exempt", "leader-election", "system"}},
		{schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "servicecidrs"}, []string{"kubernetes"}},
	} {
		for _, name := range tc.names {
			obj, err := client.Resource(tc.resource).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Error(err)
				continue
			}
			obj.SetLabels(map[string]string{"a": "b"})
			if _, err := client.Resource(tc.resource).Update(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
				t.Errorf("%s cannot be labeled: %v", name, err)
			}
		}
	}
}
