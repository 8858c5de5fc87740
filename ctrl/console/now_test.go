package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// TestNow: the pages show a request that is being reconciled, two that are ready, and when each is due afterwards.
func TestNow(t *testing.T) {
	requests, began, end := make(chan event.GenericEvent), make(chan struct{}, 3), make(chan struct{})
	s := open(t, shopOptions{more: func(mgr manager.Manager) error {
		return builder.ControllerManagedBy(mgr).Named("hourly").
			WatchesRawSource(source.Channel(requests, &handler.TypedEnqueueRequestForObject[client.Object]{})).
			Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				began <- struct{}{}
				<-end
				return reconcile.Result{RequeueAfter: time.Hour}, nil
			}))
	}})
	before := figures(t)
	requests <- event.GenericEvent{Object: configMap("first", "u")}
	<-began
	for _, name := range []string{"second", "third"} {
		if err := s.controller(t, "hourly").Now("default/" + name); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range s.console.now().Controllers {
		if c.Name != "hourly" {
			continue
		}
		if c.Ready != 2 || c.Processing != 1 || c.Oldest <= 0 || fmt.Sprint(c.ByPriority) != "[{0 2}]" || len(c.Active) != 1 ||
			c.Active[0].Request != "default/first" || c.Active[0].Took <= 0 || fmt.Sprint(c.Active[0].Causes[0].Event) != "generic" {
			t.Errorf("the controller is %+v", c)
		}
	}
	for path, want := range map[string]string{
		"":                       "default/first",
		"controller?name=hourly": "default/third",
		"key?controller=hourly&request=default/first":  "It is reconciled since",
		"key?controller=hourly&request=default/second": "It is ready since",
	} {
		if page := s.get(t, "/console/"+path); !strings.Contains(page, want) {
			t.Errorf("%s has no %q: %s", path, want, page)
		}
	}
	s.equalsMetrics(t, before)
	close(end)
	s.idle(t)
	s.equalsMetrics(t, before)
	page := s.get(t, "/console/key?controller=hourly&request=default/third")
	for _, want := range []string{"It waits: the next reconcile is due", "Requeued after 1 h 0 min"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q: %s", want, page)
		}
	}
}

// TestRetry: the pages of a request that fails show how often it was retried, and when the next retry is due.
func TestRetry(t *testing.T) {
	requests := make(chan event.GenericEvent)
	hourly := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour)
	s := open(t, shopOptions{more: func(mgr manager.Manager) error {
		return builder.ControllerManagedBy(mgr).Named("failing").WithOptions(controller.Options{RateLimiter: hourly}).
			WatchesRawSource(source.Channel(requests, &handler.TypedEnqueueRequestForObject[client.Object]{})).
			Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, errors.New("no connection")
			}))
	}})
	requests <- event.GenericEvent{Object: configMap("shop", "u")}
	s.idle(t)
	key := s.key(t, "failing", "default/shop")
	if len(key.Reconciles) != 1 || key.Reconciles[0].Error != "no connection" || key.Retries != 1 || key.Queue == nil || key.Queue.State != "waiting" ||
		key.Queue.Causes[0].Event != "retry" || key.Queue.Due.Sub(key.Reconciles[0].Started).Round(time.Minute) != time.Hour {
		t.Errorf("the request is %+v, queued as %+v", key, key.Queue)
	}
	page := s.get(t, "/console/key?controller=failing&request=default/shop")
	for _, want := range []string{"1 retry since the last success", "It waits: the next reconcile is due", "no connection", "Drop backoff"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q: %s", want, page)
		}
	}
}

// controller returns the records of a controller.
func (s *shop) controller(t *testing.T, name string) *observe.Controller {
	t.Helper()
	c, err := s.console.controller(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestObject: the page of an object has its conditions, events and finalizers, and the managers of its fields.
func TestObject(t *testing.T) {
	s := open(t, shopOptions{})
	labels := map[string]string{"app": "web"}
	web := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Finalizers: []string{"example.com/bills"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}
	if err := s.client.Create(t.Context(), web, client.FieldOwner("installer")); err != nil {
		t.Fatal(err)
	}
	web.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "NoReplicas"}}
	web.Status.ObservedGeneration = web.Generation
	if err := s.client.Status().Update(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	about := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "web.1"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "web", UID: web.UID},
		Type:           corev1.EventTypeWarning, Reason: "QuotaExceeded", Message: "no more than two",
	}
	if err := s.client.Create(t.Context(), about); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Delete(t.Context(), web); err != nil { // it waits for the finalizer
		t.Fatal(err)
	}
	var page ObjectPage
	if err := json.Unmarshal([]byte(s.get(t, "/console/api/object?kind=Deployment.apps&name=default/web")), &page); err != nil {
		t.Fatal(err)
	}
	o := page.Object
	if len(o.Conditions) != 1 || o.Conditions[0].Type != "Available" || o.Conditions[0].Reason != "NoReplicas" {
		t.Errorf("the conditions are %+v", o.Conditions)
	}
	if len(o.Events) != 1 || o.Events[0].Reason != "QuotaExceeded" || o.Events[0].Note != "no more than two" {
		t.Errorf("the events are %+v", o.Events)
	}
	if fmt.Sprint(o.Finalizers) != "[{example.com/bills installer}]" || o.Health != (Health{"deleting", "waits for example.com/bills"}) {
		t.Errorf("the finalizers are %v, and the health is %v", o.Finalizers, o.Health)
	}
	managers := map[string]string{}
	for _, f := range o.Fields {
		managers[f.Field] = fmt.Sprint(f.Value, " by ", f.Manager)
	}
	if managers["spec.replicas"] != "3 by installer" {
		t.Errorf("the fields are %v", managers)
	}
}

// TestHotLoop: the page of warnings names the field of a hot loop, and the writer.
func TestHotLoop(t *testing.T) {
	s := open(t, shopOptions{})
	name := types.NamespacedName{Namespace: "default", Name: "shop"}
	s.controller(t, "site").HotLoop(config.HotLoop{
		Controller: "site", Request: "default/shop", Reconciles: 12, Within: time.Second,
		Causes: cause.Causes{List: []cause.Cause{{Kind: cause.Updated, Object: name, GVK: configMaps, Changed: "metadata.annotations.tag by tagger"}}},
	}, name)
	page := s.get(t, "/console/warnings")
	for _, want := range []string{"ConfigMap default/shop", "metadata.annotations.tag", "written by controller &#34;site&#34;", "12 reconciles in 1s"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q: %s", want, page)
		}
	}
}

// TestUnusedInformer: the page of the caches names the informer that nobody reads, and no other.
func TestUnusedInformer(t *testing.T) {
	s := open(t, shopOptions{})
	s.create(t, "shop", "one")
	if _, err := s.mgr.GetCache().GetInformer(t.Context(), &corev1.LimitRange{}); err != nil {
		t.Fatal(err)
	}
	for _, k := range s.console.caches().Kinds {
		if k.Unused != (k.Kind == "LimitRange") {
			t.Errorf("%s: unused is %v, with %d handlers and the readers %v", k.Kind, k.Unused, k.Handlers, k.Readers)
		}
	}
}
