package background_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
)

var (
	apiServices               = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	customResourceDefinitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// TestAPIServicesFollowDiscovery checks that exactly the served group versions have APIServices,
// also while CustomResourceDefinitions come and go.
func TestAPIServicesFollowDiscovery(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	client := dynamic.NewForConfigOrDie(plane.Config())
	services := client.Resource(apiServices)
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
	definitions := client.Resource(customResourceDefinitions)
	if _, err := definitions.Create(ctx, controlplanetest.Decode(t, controlplanetest.WidgetDefinition("{}")), metav1.CreateOptions{}); err != nil {
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

// TestLocalAPIServicesAreKept checks that the server registers the APIServices of built-in groups once, and restores
// the APIServices of custom resources and their specs at once.
func TestLocalAPIServicesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := dynamic.NewForConfigOrDie(controlplanetest.Start(t, controlplane.Options{WithoutControllers: true}).Config())
		services, definitions := client.Resource(apiServices), client.Resource(customResourceDefinitions)
		// get returns an APIService when the server has come to rest, without time having passed, or nil.
		get := func(name string) *unstructured.Unstructured {
			t.Helper()
			synctest.Wait()
			is, err := services.Get(t.Context(), name, metav1.GetOptions{})
			if errors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				t.Fatal(err)
			}
			return is
		}
		patch := func(name, text string) {
			t.Helper()
			if _, err := services.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		remove := func(from dynamic.ResourceInterface, name string) {
			t.Helper()
			if err := from.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		remove(services, "v1.apps")
		patch("v1.batch", `{"spec": {"versionPriority": 3}}`)
		<-time.After(time.Hour)
		if priority, _, _ := unstructured.NestedInt64(get("v1.batch").Object, "spec", "versionPriority"); get("v1.apps") != nil || priority != 3 {
			t.Error("APIServices of built-in groups were registered again")
		}

		definition := controlplanetest.Decode(t, controlplanetest.WidgetDefinition("{}"))
		if _, err := definitions.Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		const name = "v1.example.com"
		before := get(name)
		if before == nil {
			t.Fatal("the group has no APIService")
		}
		remove(services, name)
		after := get(name)
		if after == nil || after.GetUID() == before.GetUID() {
			t.Fatalf("the APIService is %v after its deletion", after)
		}
		patch(name, `{"spec": {"insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "mine"}}}`)
		is := get(name)
		_, remote, _ := unstructured.NestedMap(is.Object, "spec", "service")
		conditions, _, _ := unstructured.NestedSlice(is.Object, "status", "conditions")
		if remote || len(conditions) != 1 || conditions[0].(map[string]any)["reason"] != "Local" {
			t.Errorf("the APIService is %v after a change of its spec", is.Object)
		}
		patch(name, `{"metadata": {"labels": null}}`)
		remove(definitions, "widgets.example.com")
		if get(name) == nil {
			t.Error("an APIService without the label was deleted")
		}
	})
}

// TestReplacedMetrics: after a restart, an extension API server still serves the metrics, and none a group that is built in on a cluster.
func TestReplacedMetrics(t *testing.T) {
	dir := t.TempDir()
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
