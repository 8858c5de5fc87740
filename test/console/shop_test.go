package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/console"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// shop is an operator with a console: "site" makes a Service and a Secret for each ConfigMap, "tagger" annotates the
// Services, and "many" has requests that only wait.
type shop struct {
	url    string
	client client.Client
	mgr    manager.Manager
	many   chan event.GenericEvent
	blocks chan struct{}
}

// inDefault selects the objects of the test.
var inDefault = builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
	return obj.GetNamespace() == "default" && obj.GetName() != "kubernetes" && obj.GetName() != "kube-root-ca.crt"
}))

func open(t *testing.T) *shop {
	t.Helper()
	plane, err := controlplane.Start(context.Background(), controlplane.Options{WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{many: make(chan event.GenericEvent), blocks: make(chan struct{})}
	c := console.New(console.Options{OnURL: func(url string) { s.url = url }})
	cfg := plane.Config()
	cfg.QPS = -1
	s.mgr, err = manager.New(cfg, manager.Options{
		Console: c, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		Development: new(true), OnWarning: func(config.Warning) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	own := s.mgr.GetClient()
	err = errors.Join(
		builder.ControllerManagedBy(s.mgr).Named("site").For(&corev1.ConfigMap{}, inDefault).Owns(&corev1.Service{}).Owns(&corev1.Secret{}).
			Complete(site(own)),
		builder.ControllerManagedBy(s.mgr).Named("tagger").For(&corev1.Service{}, inDefault).Complete(tagger(own)),
		builder.ControllerManagedBy(s.mgr).Named("many").
			WatchesRawSource(source.Channel(s.many, &handlerOfNames{})).WithOptions(controller.Options{}).
			Complete(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				select {
				case <-s.blocks:
				case <-ctx.Done():
				}
				return reconcile.Result{RequeueAfter: time.Hour}, nil
			})),
	)
	if err != nil {
		t.Fatal(err)
	}
	users := plane.Config()
	users.QPS = -1
	if s.client, err = client.New(users, client.Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, plane.Stop()); err != nil {
			t.Error(err)
		}
	})
	for name, data := range map[string]map[string]string{
		"shop": {"motto": "quality"}, "broken": {"fail": "the database does not answer: dial tcp 10.0.0.7:5432: connect: connection refused"},
		"a-name-that-is-as-long-as-names-may-be-in-this-cluster-0123456789": {"motto": strings.Repeat("long", 15)},
	} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: data}
		if err := s.client.Create(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
	}
	s.idle(t)
	s.set(t, "shop", "motto", "speed")
	return s
}

func (s *shop) idle(t *testing.T) {
	t.Helper()
	if _, err := manager.WaitIdle(t.Context(), s.mgr); err != nil {
		t.Fatal(err)
	}
}

// set sets a value of a ConfigMap, and waits.
func (s *shop) set(t *testing.T, name, key, value string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	data := fmt.Appendf(nil, `{"data":{%q:%q}}`, key, value)
	if err := s.client.Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, data)); err != nil {
		t.Fatal(err)
	}
	s.idle(t)
}

// fill queues n requests of the controller that blocks.
func (s *shop) fill(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("request-", i)}}
		s.many <- event.GenericEvent{Object: obj}
	}
}

// get gets a part of the API.
func (s *shop) get(t *testing.T, part string, into any) {
	t.Helper()
	base, query, _ := strings.Cut(s.url, "?")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"api/"+part, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimPrefix(query, "token="))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// page is a page to look at.
type page struct {
	name, path string
	code       int
}

// pages returns all pages.
func (s *shop) pages(t *testing.T) []page {
	t.Helper()
	var key console.Key
	s.get(t, "key?controller=tagger&request=default/shop", &key)
	var id uint64
	for _, r := range key.Reconciles {
		if len(r.Writes) > 0 {
			id = r.ID
			break
		}
	}
	long := "default/a-name-that-is-as-long-as-names-may-be-in-this-cluster-0123456789"
	return []page{
		{"now", "", 200}, {"controller", "controller?name=site", 200}, {"key", "key?controller=site&request=default/shop", 200},
		{"long", "key?controller=site&request=" + long, 200}, {"broken", "key?controller=site&request=default/broken", 200},
		{"reconcile", fmt.Sprint("reconcile?id=", id), 200}, {"chain", fmt.Sprint("chain?reconcile=", id), 200},
		{"object", "object?kind=Service&name=default/shop", 200}, {"owners", "owners", 200}, {"caches", "caches", 200},
		{"warnings", "warnings", 200}, {"absent", "reconcile?id=4711", 404},
	}
}

// events returns the acts that are recorded as events, when all are written.
func (s *shop) events(t *testing.T) (acts []string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		var list corev1.EventList
		if err := s.client.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		acts = nil
		for _, e := range list.Items {
			if e.ReportingController == "flyball-console" || e.Source.Component == "flyball-console" {
				acts = append(acts, e.Message)
			}
		}
		if len(acts) >= 7 {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	return acts
}

// site returns the reconciler of ConfigMaps.
func site(c client.Client) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		var cm corev1.ConfigMap
		if err := c.Get(ctx, req.NamespacedName, &cm); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if cm.Data["fail"] != "" {
			return reconcile.Result{}, errors.New(cm.Data["fail"])
		}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: strings.ReplaceAll(cm.Name[:min(60, len(cm.Name))], ".", "-")}}
		done, err := controllerutil.CreateOrUpdate(ctx, c, service, func() error {
			service.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
			metav1.SetMetaDataAnnotation(&service.ObjectMeta, "motto", cm.Data["motto"])
			return controllerutil.SetControllerReference(&cm, service, c.Scheme())
		})
		if err != nil {
			return reconcile.Result{}, err
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name}}
		_, err = controllerutil.CreateOrUpdate(ctx, c, secret, func() error {
			secret.Data = map[string][]byte{"password": []byte(cm.Data["motto"])}
			return controllerutil.SetControllerReference(&cm, secret, c.Scheme())
		})
		log.FromContext(ctx).Info("The site is up", "service", done, "motto", cm.Data["motto"])
		return reconcile.Result{}, err
	})
}

// tagger returns the reconciler of Services.
func tagger(c client.Client) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		var service corev1.Service
		if err := c.Get(ctx, req.NamespacedName, &service); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if service.Annotations["tag"] == service.Annotations["motto"] {
			return reconcile.Result{}, nil
		}
		before := client.MergeFrom(service.DeepCopy())
		metav1.SetMetaDataAnnotation(&service.ObjectMeta, "tag", service.Annotations["motto"])
		return reconcile.Result{}, c.Patch(ctx, &service, before)
	})
}
