package crd_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

func TestDeleteDefinition(t *testing.T) {
	s := newServer(t)
	first := s.define(minimal)
	for i := range 20 {
		s.want(201, "POST", fmt.Sprintf("/apis/example.com/v1/namespaces/ns%d/widgets", i%3), widget(fmt.Sprint("w", i)))
	}
	gone := s.watchDeletion("widgets.example.com")
	a := s.want(200, "DELETE", widgetDefinition, "")
	crd := &unstructured.Unstructured{Object: a.object}
	if condition(crd, "Terminating") != "True InstanceDeletionPending" || crd.GetDeletionTimestamp() == nil {
		t.Errorf("response: %s", a.body)
	}
	last := gone()
	if got := condition(last, "Terminating"); got != "True InstanceDeletionInProgress" {
		t.Errorf("Terminating in the last state: %q", got)
	}
	if _, served := s.catalog.Snapshot().Lookup(widgets); served {
		t.Error("still served")
	}
	s.want(404, "GET", widgetsPath, "")

	second := s.define(minimal)
	if second.GetUID() == first.GetUID() {
		t.Error("the same UID again")
	}
	if n := len(s.want(200, "GET", "/apis/example.com/v1/widgets", "").object["items"].([]any)); n != 0 {
		t.Errorf("%d widgets are left of a deleted definition", n)
	}
	s.want(201, "POST", widgetsPath, widget("a"))
}

// TestWatchReceivesEveryDeletion deletes a definition while a watch of its resources lags behind.
func TestWatchReceivesEveryDeletion(t *testing.T) {
	const n = 300
	s := newServer(t)
	s.define(minimal)
	for i := range n {
		s.want(201, "POST", widgetsPath, widget(fmt.Sprint("w", i)))
	}
	list := s.want(200, "GET", widgetsPath, "")
	w, err := s.client.Resource(widgets).Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: field(list.object, "metadata", "resourceVersion").(string),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	gone := s.watchDeletion("widgets.example.com")
	s.want(200, "DELETE", widgetDefinition, "")
	gone()
	deleted := 0
	for e := range w.ResultChan() {
		if e.Type == watch.Deleted {
			deleted++
		}
	}
	if deleted != n {
		t.Errorf("the watch ended after %d of %d deletions", deleted, n)
	}
}

func TestDeletionWaitsForFinalizers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.define(minimal)
		s.want(201, "POST", widgetsPath, widget("a"))
		s.want(201, "POST", widgetsPath, heldWidget("b"))
		s.want(200, "DELETE", widgetDefinition, "")
		synctest.Wait()

		crd := &unstructured.Unstructured{Object: s.want(200, "GET", widgetDefinition, "").object}
		if got := condition(crd, "Terminating"); got != "True InstanceDeletionInProgress" {
			t.Errorf("Terminating: %q", got)
		}
		list := s.want(200, "GET", widgetsPath, "").object["items"].([]any)
		if len(list) != 1 || field(list[0].(map[string]any), "metadata", "deletionTimestamp") == nil {
			t.Errorf("remaining: %v", list)
		}
		forbidden := []string{`widgets.example.com "c" is forbidden: create not allowed while custom resource definition is terminating`}
		s.refused(403, forbidden, "POST", widgetsPath, widget("c"))
		s.refused(403, forbidden, "PATCH", widgetsPath+"/c?fieldManager=x", widget("c"), applyPatch...)
		s.want(200, "PATCH", widgetsPath+"/b", `{"spec":{"size":1}}`, mergePatch...)
		// A change of the definition does not interrupt the cleanup.
		s.want(200, "PATCH", widgetDefinition, `[{"op":"add","path":"/spec/names/categories","value":["all","more"]}]`, jsonPatch...)
		synctest.Wait()
		s.want(200, "PATCH", widgetsPath+"/b", `{"metadata":{"finalizers":null}}`, mergePatch...)
		synctest.Wait()

		s.want(404, "GET", widgetDefinition, "")
		s.want(404, "GET", widgetsPath, "")
	})
}

func TestDeleteNeverEstablished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.define(minimal)
		other := renamed("gadgets", "Widget")
		s.define(other)
		s.want(200, "DELETE", definitionsPath+"/gadgets.example.com", "")
		synctest.Wait()
		s.want(404, "GET", definitionsPath+"/gadgets.example.com", "")
		s.want(200, "GET", widgetsPath, "")
	})
}

func TestFinalizerOfTheDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.define(minimal)
		path := definitionsPath + "/widgets.example.com"
		s.want(200, "PATCH", path, `{"metadata":{"finalizers":["example.com/stay"]}}`, mergePatch...)
		s.want(200, "DELETE", path, "")
		synctest.Wait()
		crd := &unstructured.Unstructured{Object: s.want(200, "GET", path, "").object}
		if got := condition(crd, "Terminating"); got != "True InstanceDeletionInProgress" {
			t.Errorf("Terminating at first: %q", got)
		}
		s.refused(403, []string{"create not allowed while custom resource definition is terminating"},
			"POST", widgetsPath, widget("a"))
		time.Sleep(time.Second) // virtual
		synctest.Wait()
		crd = &unstructured.Unstructured{Object: s.want(200, "GET", path, "").object}
		if got := condition(crd, "Terminating"); got != "False InstanceDeletionCompleted" {
			t.Errorf("Terminating: %q", got)
		}
		s.want(200, "PATCH", path, `{"metadata":{"finalizers":null}}`, mergePatch...)
		s.want(404, "GET", path, "")
		s.want(404, "GET", widgetsPath, "")
	})
}

func TestCollectionOfDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.define(minimal)
		s.define(renamed("gadgets", "Gadget"))
		s.want(201, "POST", widgetsPath, heldWidget("a"))
		s.want(200, "DELETE", definitionsPath, "")
		synctest.Wait()
		s.want(404, "GET", definitionsPath+"/gadgets.example.com", "")
		if got := field(s.want(200, "GET", widgetsPath+"/a", "").object, "metadata", "deletionTimestamp"); got == nil {
			t.Error("the widget was not deleted with its definition")
		}
	})
}

func TestFinalizerRemovedByUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.define(minimal)
		s.want(201, "POST", widgetsPath, heldWidget("a"))
		s.want(200, "DELETE", widgetDefinition, "")
		synctest.Wait()
		s.want(200, "PATCH", widgetDefinition, `{"metadata":{"finalizers":null}}`, mergePatch...)
		s.want(404, "GET", widgetsPath+"/a", "")
		// Its resources still exist if it is created again.
		s.define(minimal)
		s.want(200, "GET", widgetsPath+"/a", "")
		s.want(201, "POST", widgetsPath, widget("b"))
	})
}

func TestCloseDuringCleanup(t *testing.T) {
	s := newServer(t)
	s.define(minimal)
	s.want(201, "POST", widgetsPath, heldWidget("a"))
	s.want(200, "DELETE", widgetDefinition, "")
	s.kinds.Close()
	s.want(200, "GET", widgetsPath+"/a", "")
}
