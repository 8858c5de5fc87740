package namespace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/inventory"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/reconcile"
)

// content is a client of the namespace doomed. It notes writes.
type content struct {
	client.Client
	namespace *corev1.Namespace
	pods      []corev1.Pod
	objects   map[string][]metav1.PartialObjectMetadata // by kind
	fail      map[string][]error                        // the errors of the next attempts, by request
	changed   func(*content, string)                    // if not nil, called after a request that fails
	requests  []string
}

// request notes a request, and returns its error.
func (c *content) request(verb, what string) error {
	name := strings.TrimSpace(verb + " " + what)
	if verb != "list" {
		c.requests = append(c.requests, name)
	}
	if errs := c.fail[name]; len(errs) > 0 {
		c.fail[name] = errs[1:]
		if c.changed != nil {
			c.changed(c, name)
		}
		return errs[0]
	}
	return nil
}

func (c *content) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if c.namespace == nil {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), "doomed")
	}
	c.namespace.DeepCopyInto(obj.(*corev1.Namespace))
	return nil
}

func (c *content) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if pods, ok := list.(*corev1.PodList); ok {
		pods.Items = c.pods
		return c.request("list", "pods")
	}
	l := list.(*metav1.PartialObjectMetadataList)
	kind := strings.TrimSuffix(l.Kind, "List")
	l.Items = append(l.Items, c.objects[kind]...)
	if kind == "Pod" {
		for i := range c.pods {
			l.Items = append(l.Items, metav1.PartialObjectMetadata{ObjectMeta: c.pods[i].ObjectMeta})
		}
	}
	return c.request("list", kind)
}

// deleted returns the objects that stay after a deletion.
func deleted(list []metav1.PartialObjectMetadata, name string) (left []metav1.PartialObjectMetadata) {
	for _, o := range list {
		if name != "" && o.Name != name {
			left = append(left, o)
		} else if len(o.Finalizers) > 0 || o.Labels["stays"] != "" {
			o.DeletionTimestamp = ptr.To(metav1.Now())
			left = append(left, o)
		}
	}
	return left
}

func (c *content) DeleteAllOf(_ context.Context, obj client.Object, _ ...client.DeleteAllOfOption) error {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if err := c.request("deletecollection", kind); err != nil {
		return err
	}
	c.objects[kind] = deleted(c.objects[kind], "")
	return nil
}

func (c *content) Delete(_ context.Context, obj client.Object, _ ...client.DeleteOption) error {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if err := c.request("delete", kind+" "+obj.GetName()); err != nil {
		return err
	}
	c.objects[kind] = deleted(c.objects[kind], obj.GetName())
	return nil
}

func (c *content) Status() client.StatusWriter { return contentWriter{c: c, name: "status"} }
func (c *content) SubResource(name string) client.SubResourceClient {
	return contentWriter{c: c, name: name}
}

// contentWriter writes a subresource of the namespace.
type contentWriter struct {
	client.SubResourceClient
	c    *content
	name string
}

func (w contentWriter) Update(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	if err := w.c.request(w.name, ""); err != nil {
		return err
	}
	ns := obj.(*corev1.Namespace).DeepCopy()
	if ns.UID != w.c.namespace.UID {
		return conflict
	}
	if w.name == "status" {
		w.c.namespace.Status = ns.Status
	} else {
		w.c.namespace.Spec = ns.Spec
	}
	return nil
}

// conditions returns the conditions that are true.
func (c *content) conditions() map[string]string {
	m := map[string]string{}
	for _, condition := range c.namespace.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			m[strings.TrimPrefix(string(condition.Type), "Namespace")] = condition.Message
		}
	}
	return m
}

func named(name string, finalizers ...string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}
}

// stays returns an object that stays when it is deleted.
func stays(name string) metav1.PartialObjectMetadata {
	o := named(name)
	o.Labels = map[string]string{"stays": "yes"}
	return o
}

func terminating(o metav1.PartialObjectMetadata) metav1.PartialObjectMetadata {
	o.DeletionTimestamp = ptr.To(metav1.Now())
	return o
}

func kind(name string, verbs string) inventory.Resource {
	group, version := "example.com", "v2"
	if name == "Pod" {
		group, version = "", "v1"
	}
	return inventory.Resource{Kind: schema.GroupVersionKind{Group: group, Version: version, Kind: name}, Plural: strings.ToLower(name) + "s", Namespaced: true, Verbs: strings.Fields(verbs)}
}

// endingPod returns a pod on a node that is being deleted.
func endingPod(grace int64, phase corev1.PodPhase, finalizers ...string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Finalizers: finalizers, DeletionTimestamp: ptr.To(metav1.Now()), DeletionGracePeriodSeconds: &grace},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace}, Status: corev1.PodStatus{Phase: phase}}
}

var (
	unsupported = apierrors.NewMethodNotSupported(schema.GroupResource{Group: "example.com", Resource: "as"}, "it")
	missing     = apierrors.NewNotFound(schema.GroupResource{Group: "example.com", Resource: "as"}, "x")
	conflict    = apierrors.NewConflict(corev1.Resource("namespaces"), "doomed", errors.New("changed"))
)

const every = "list delete deletecollection watch"

// TestContent reconciles a namespace once.
func TestContent(t *testing.T) {
	widgets := func(list ...metav1.PartialObjectMetadata) map[string][]metav1.PartialObjectMetadata {
		return map[string][]metav1.PartialObjectMetadata{"A": list}
	}
	for _, tt := range []struct {
		name       string
		resources  []inventory.Resource
		content    content
		finalizers []corev1.FinalizerName // besides "kubernetes"
		ago        time.Duration          // since the deletion
		unwatched  bool
		unparsed   error
		requests   []string
		conditions map[string]string
		after      time.Duration
		err        string
	}{
		{name: "nothing", resources: []inventory.Resource{kind("A", every)}, requests: []string{"finalize"}},
		{name: "an object", resources: []inventory.Resource{kind("A", every)}, content: content{objects: widgets(named("x"))},
			requests: []string{"deletecollection A", "finalize"}},
		{name: "without deletecollection", resources: []inventory.Resource{kind("A", "list delete")}, content: content{objects: widgets(named("x"), named("y"))},
			requests: []string{"delete A x", "delete A y", "finalize"}},
		{name: "deletecollection is not supported after all", resources: []inventory.Resource{kind("A", every)},
			content:  content{objects: widgets(named("x")), fail: map[string][]error{"deletecollection A": {unsupported}}},
			requests: []string{"deletecollection A", "delete A x", "finalize"}},
		{name: "deletecollection is not found", resources: []inventory.Resource{kind("A", every)},
			content:  content{objects: widgets(named("x")), fail: map[string][]error{"deletecollection A": {missing}}},
			requests: []string{"deletecollection A", "delete A x", "finalize"}},
		{name: "the first error ends the deletions of a kind", resources: []inventory.Resource{kind("A", "list delete"), kind("B", every)},
			content: content{objects: widgets(named("x"), named("y"), named("z")), fail: map[string][]error{"delete A x": {missing}, "delete A y": {errors.New("refused")}}},
			err:     "refused", requests: []string{"delete A x", "delete A y", "status"},
			conditions: map[string]string{"DeletionContentFailure": "Failed to delete all resource types, 1 remaining: refused"}},
		{name: "without list", resources: []inventory.Resource{kind("A", "delete deletecollection"), kind("B", "delete")}, content: content{objects: widgets(named("x"))},
			requests: []string{"deletecollection A", "finalize"}},
		{name: "list is not supported after all", resources: []inventory.Resource{kind("A", every)},
			content:  content{objects: widgets(stays("x")), fail: map[string][]error{"list A": {unsupported, unsupported}}},
			requests: []string{"deletecollection A", "finalize"}},
		{name: "a list that fails once", resources: []inventory.Resource{kind("A", every)},
			content:  content{objects: widgets(named("x")), fail: map[string][]error{"list A": {errors.New("busy")}}},
			requests: []string{"deletecollection A", "finalize"}},
		{name: "a list that fails", resources: []inventory.Resource{kind("A", every)},
			content: content{objects: widgets(named("x")), fail: map[string][]error{"list A": {errors.New("busy"), errors.New("busy")}}},
			err:     "busy", requests: []string{"deletecollection A", "status"},
			conditions: map[string]string{"DeletionContentFailure": "Failed to delete all resource types, 1 remaining: busy"}},
		{name: "a finalizer", resources: []inventory.Resource{kind("A", every)}, content: content{objects: widgets(named("x", "example.com/f"))},
			requests: []string{"deletecollection A", "status"},
			conditions: map[string]string{"ContentRemaining": "Some resources are remaining: as.example.com has 1 resource instances",
				"FinalizersRemaining": "Some content in the namespace has finalizers remaining: example.com/f in 1 resource instances"}},
		{name: "a finalizer of a kind that is not watched", resources: []inventory.Resource{kind("A", every)}, unwatched: true,
			content:  content{objects: widgets(terminating(named("x", "example.com/f")))},
			requests: []string{"status"}, after: 8 * time.Second,
			conditions: map[string]string{"ContentRemaining": "Some resources are remaining: as.example.com has 1 resource instances",
				"FinalizersRemaining": "Some content in the namespace has finalizers remaining: example.com/f in 1 resource instances"}},
		{name: "the garbage collector's finalizers do not delay", resources: []inventory.Resource{kind("A", every)},
			content:  content{objects: widgets(terminating(named("x", metav1.FinalizerDeleteDependents)), terminating(named("y", metav1.FinalizerOrphanDependents)))},
			requests: []string{"deletecollection A", "status"},
			conditions: map[string]string{"ContentRemaining": "Some resources are remaining: as.example.com has 2 resource instances",
				"FinalizersRemaining": "Some content in the namespace has finalizers remaining: foregroundDeletion in 1 resource instances, orphan in 1 resource instances"}},
		{name: "an object that remains for no reason", resources: []inventory.Resource{kind("A", every)}, content: content{objects: widgets(stays("x"))},
			requests: []string{"deletecollection A", "status"}, err: "unexpected items still remain in namespace: doomed for gvr: example.com/v2, Resource=as",
			conditions: map[string]string{"ContentRemaining": "Some resources are remaining: as.example.com has 1 resource instances",
				"DeletionContentFailure": "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: doomed for gvr: example.com/v2, Resource=as"}},
		{name: "pods within their grace period", resources: []inventory.Resource{kind("A", every), kind("Pod", every)}, ago: 29 * time.Second,
			content: content{objects: widgets(named("x")), pods: []corev1.Pod{endingPod(30, corev1.PodRunning), endingPod(5, corev1.PodRunning), endingPod(60, corev1.PodFailed)}},
			after:   16 * time.Second, requests: []string{"status"}},
		{name: "pods after their grace period", resources: []inventory.Resource{kind("A", every), kind("Pod", every)}, ago: 31 * time.Second,
			content:  content{objects: widgets(named("x")), pods: []corev1.Pod{endingPod(30, corev1.PodRunning)}},
			requests: []string{"status"}, err: "unexpected items still remain in namespace: doomed for gvr: /v1, Resource=pods",
			conditions: map[string]string{"DeletionContentFailure": "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: doomed for gvr: /v1, Resource=pods"}},
		{name: "pods with a finalizer after their grace period", resources: []inventory.Resource{kind("A", every), kind("Pod", every)}, ago: 31 * time.Second,
			content: content{objects: widgets(named("x")), pods: []corev1.Pod{endingPod(30, corev1.PodRunning, "example.com/f")}}, requests: []string{"status"}},
		{name: "pods that cannot be listed", resources: []inventory.Resource{kind("A", every), kind("Pod", every)},
			content:  content{objects: widgets(named("x")), fail: map[string][]error{"list pods": {errors.New("busy")}}},
			requests: []string{"deletecollection A", "status"}, err: "busy",
			conditions: map[string]string{"DeletionContentFailure": "Failed to delete all resource types, 1 remaining: busy"}},
		{name: "a group version that cannot be parsed", resources: []inventory.Resource{kind("A", every)}, content: content{objects: widgets(named("x"))},
			unparsed: errors.New("unexpected GroupVersion string: a/b/c"), requests: []string{"status"}, err: "unexpected GroupVersion string: a/b/c",
			conditions: map[string]string{"DeletionGroupVersionParsingFailure": "unexpected GroupVersion string: a/b/c"}},
		{name: "other finalizers stay", finalizers: []corev1.FinalizerName{"example.com/b", "example.com/a"}, requests: []string{"status", "finalize"}},
		{name: "a status that cannot be written", finalizers: []corev1.FinalizerName{"example.com/a"},
			content: content{fail: map[string][]error{"status": {errors.New("refused")}}}, requests: []string{"status", "finalize"}, err: "refused"},
		{name: "a namespace that has changed meanwhile", content: content{fail: map[string][]error{"finalize": {conflict, conflict}}},
			requests: []string{"finalize", "finalize", "finalize"}},
		{name: "another namespace of the name", content: content{fail: map[string][]error{"finalize": {conflict}},
			changed: func(c *content, _ string) { c.namespace.UID, c.namespace.DeletionTimestamp = "2", nil }},
			requests: []string{"finalize", "status"}, err: "namespace uid has changed across retries\n" + conflict.Error()},
		{name: "a namespace that is gone meanwhile", content: content{fail: map[string][]error{"finalize": {conflict}}, changed: func(c *content, _ string) { c.namespace = nil }},
			requests: []string{"finalize"}},
		{name: "a finalizer that cannot be removed", content: content{fail: map[string][]error{"finalize": {errors.New("refused")}}}, requests: []string{"finalize", "status"}, err: "refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &tt.content
			c.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed", UID: "1", DeletionTimestamp: &metav1.Time{Time: time.Now().Add(-tt.ago)}},
				Spec: corev1.NamespaceSpec{Finalizers: append([]corev1.FinalizerName{"kubernetes"}, tt.finalizers...)}}
			r := &reconciler{client: c, live: c, monitored: func(schema.GroupKind) bool { return !tt.unwatched }, discover: func(context.Context) ([]inventory.Resource, error, error) {
				return tt.resources, nil, tt.unparsed
			}}
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "doomed"}})
			if got := fmt.Sprint(err); err != nil && got != tt.err || err == nil && tt.err != "" {
				t.Errorf("the error is %q, want %q", got, tt.err)
			}
			if result.RequeueAfter != tt.after {
				t.Errorf("the next attempt is after %s, want %s", result.RequeueAfter, tt.after)
			}
			if d := cmp.Diff(tt.requests, c.requests); d != "" {
				t.Errorf("requests (-want +got):\n%s", d)
			}
			if c.namespace == nil {
				return
			}
			if d := cmp.Diff(tt.conditions, c.conditions()); len(tt.conditions)+len(c.conditions()) > 0 && d != "" {
				t.Errorf("conditions (-want +got):\n%s", d)
			}
			if tt.err == "" && len(tt.finalizers) > 0 {
				if d := cmp.Diff([]corev1.FinalizerName{"example.com/a", "example.com/b"}, c.namespace.Spec.Finalizers); d != "" {
					t.Errorf("finalizers (-want +got):\n%s", d)
				}
			}
		})
	}
}

// TestForeignFinalizer: the content of a namespace is deleted also if somebody has removed the finalizer "kubernetes", as long
// as there is another one.
func TestForeignFinalizer(t *testing.T) {
	for _, finalizers := range [][]corev1.FinalizerName{nil, {"example.com/a"}} {
		c := &content{objects: map[string][]metav1.PartialObjectMetadata{"A": {named("x")}},
			namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed", DeletionTimestamp: ptr.To(metav1.Now())}, Spec: corev1.NamespaceSpec{Finalizers: finalizers}}}
		r := &reconciler{client: c, live: c, monitored: func(schema.GroupKind) bool { return true }, discover: func(context.Context) ([]inventory.Resource, error, error) {
			return []inventory.Resource{kind("A", every)}, nil, nil
		}}
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "doomed"}}); err != nil {
			t.Error(err)
		}
		if got, want := len(c.objects["A"]), 1-len(finalizers); got != want {
			t.Errorf("finalizers %q: %d objects are left, want %d", finalizers, got, want)
		}
	}
}
