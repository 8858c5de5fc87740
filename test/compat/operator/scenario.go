package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/test/compat/operator/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// scenario performs the actions of a user.
type scenario struct {
	flags
	mgr       manager.Manager
	client    client.WithWatch
	in        chan event.TypedGenericEvent[string]
	out       chan string
	finalized chan string
}

func (s *scenario) run(ctx context.Context) (err error) {
	if s.client, err = client.NewWithWatch(s.mgr.GetConfig(), client.Options{Scheme: s.mgr.GetScheme()}); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{s.controllers, s.serve, s.webhooks, s.libraries} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// await watches the objects of a list until one event of them is as wanted.
func (s *scenario) await(ctx context.Context, list client.ObjectList, wanted func(watch.Event) bool) error {
	w, err := s.client.Watch(ctx, list, client.InNamespace("default"))
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if wanted(e) {
			return nil
		}
	}
	return errors.Join(errors.New("the watch has ended"), ctx.Err())
}

// controllers observes the actions of the controllers.
func (s *scenario) controllers(ctx context.Context) error {
	w := &api.Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}, Spec: api.WidgetSpec{Color: "red"}}
	gvk, err := apiutil.GVKForObject(w, s.mgr.GetScheme())
	if err != nil {
		return err
	}
	namespaced, err := apiutil.IsObjectNamespaced(w, s.mgr.GetScheme(), s.mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	fmt.Println("kind:", gvk, "namespaced:", namespaced)
	if err := s.client.Create(ctx, w); err != nil {
		return err
	}
	if err := s.await(ctx, &api.WidgetList{}, func(e watch.Event) bool {
		got, ok := e.Object.(*api.Widget)
		return ok && got.Status.Phase == "Ready" && controllerutil.ContainsFinalizer(got, finalizerName)
	}); err != nil {
		return err
	}
	fmt.Println("reconciled")
	cm := &corev1.ConfigMap{}
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(w), cm); err != nil {
		return err
	}
	owner := metav1.GetControllerOf(cm)
	fmt.Println("config map:", cm.Data, "owner:", owner.APIVersion, owner.Kind, owner.Name)
	if err := s.client.Delete(ctx, cm); err != nil {
		return err
	}
	if err := s.await(ctx, &corev1.ConfigMapList{}, func(e watch.Event) bool {
		got, ok := e.Object.(*corev1.ConfigMap)
		return ok && e.Type == watch.Added && got.Name == cm.Name && got.UID != cm.UID
	}); err != nil {
		return err
	}
	fmt.Println("restored")
	var list api.WidgetList
	if err := s.mgr.GetClient().List(ctx, &list, client.MatchingFields{"spec.color": "red"}); err != nil {
		return err
	}
	fmt.Println("red widgets:", len(list.Items))
	if err := s.await(ctx, &eventsv1.EventList{}, func(e watch.Event) bool {
		got, ok := e.Object.(*eventsv1.Event)
		if !ok || got.ReportingController != "widget-controller" {
			return false
		}
		fmt.Println("event:", got.Type, got.Reason, got.Action, got.Note, got.Regarding.Kind, got.Regarding.Name)
		return true
	}); err != nil {
		return err
	}
	s.in <- event.TypedGenericEvent[string]{Object: "hello"}
	fmt.Println("typed request:", <-s.out)
	if err := s.client.Delete(ctx, w); err != nil {
		return err
	}
	fmt.Println("finalized:", <-s.finalized)
	return nil
}

// serve observes the servers for probes and metrics.
func (s *scenario) serve(ctx context.Context) error {
	probes := "http://" + s.probes
	for _, get := range []struct{ server, path string }{
		{probes, "/healthz"}, {probes, "/healthz/ping"}, {probes, "/readyz"}, {probes, "/nothing"},
		{"https://" + s.metrics, "/metrics"},
	} {
		code, body, err := s.request(ctx, http.MethodGet, get.server+get.path, nil)
		if err != nil {
			return err
		}
		if code != http.StatusOK {
			body = ""
		}
		fmt.Println("GET", get.path, code, body)
	}
	return nil
}

// request makes a request to one of the operator's own servers.
func (s *scenario) request(ctx context.Context, method, url string, body []byte) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// sortPatch replaces the patch in a review by the list of its operations, sorted by path, because the order of the
// operations is random.
func sortPatch(review map[string]any) error {
	response, _ := review["response"].(map[string]any)
	encoded, ok := response["patch"].(string)
	if !ok {
		return nil
	}
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var operations []operation
	if err := json.Unmarshal(text, &operations); err != nil {
		return err
	}
	slices.SortFunc(operations, func(a, b operation) int { return strings.Compare(a.Path, b.Path) })
	response["patch"] = operations
	return nil
}

// webhooks posts reviews to the webhooks. The values of JSON objects are printed sorted by key.
func (s *scenario) webhooks(ctx context.Context) error {
	const (
		object = `{"apiVersion":"compat.flyball.dev/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"size":%d}}`
		review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":%q,` +
			`"kind":{"group":"compat.flyball.dev","version":"v1","kind":"Widget"},"object":%s,"oldObject":%s}}`
		old = `{"apiVersion":"compat.flyball.dev/v1beta1","kind":"Widget","metadata":{"name":"x"},"spec":{"paint":"blue","size":3}}`
	)
	small, large := fmt.Sprintf(object, 1), fmt.Sprintf(object, 2)
	for _, c := range []struct{ path, body string }{
		{"/mutate-compat-flyball-dev-v1-widget", fmt.Sprintf(review, "CREATE", small, "null")},
		{"/validate-compat-flyball-dev-v1-widget", fmt.Sprintf(review, "CREATE", small, "null")},
		{"/validate-compat-flyball-dev-v1-widget", fmt.Sprintf(review, "CREATE", fmt.Sprintf(object, -1), "null")},
		{"/validate-compat-flyball-dev-v1-widget", fmt.Sprintf(review, "UPDATE", small, large)},
		{"/validate-compat-flyball-dev-v1-widget", fmt.Sprintf(review, "DELETE", "null", small)},
		{"/labels", fmt.Sprintf(review, "DELETE", "null", small)},
		{"/labels", fmt.Sprintf(review, "CREATE", small, "null")},
		{"/convert", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"2",` +
			`"desiredAPIVersion":"compat.flyball.dev/v1","objects":[` + old + `]}}`},
		{"/convert", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"3",` +
			`"desiredAPIVersion":"compat.flyball.dev/v1beta1","objects":[` + large + `]}}`},
		{"/tokens", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"open sesame"}}`},
		{"/tokens", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"open wheat"}}`},
	} {
		code, body, err := s.request(ctx, http.MethodPost, fmt.Sprintf("https://127.0.0.1:%d%s", s.flags.webhooks, c.path), []byte(c.body))
		if err != nil {
			return err
		}
		var answer map[string]any
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			return fmt.Errorf("%s: %w: %s", c.path, err, body)
		}
		delete(answer, "metadata")
		if err := sortPatch(answer); err != nil {
			return fmt.Errorf("%s: %w", c.path, err)
		}
		sorted, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		fmt.Println("POST", c.path, code, string(sorted))
	}
	return nil
}
