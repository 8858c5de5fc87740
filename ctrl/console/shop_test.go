package console

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/controller/controllerutil"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/manager"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/reconcile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop is an operator of two controllers: "site" makes a Service and a Secret for each ConfigMap, and "tagger" annotates
// the Services.
type shop struct {
	plane   *controlplane.ControlPlane
	mgr     manager.Manager
	console *Console
	client  client.Client // of a user
	stop    func()
}

const password = "correct-horse"

type shopOptions struct {
	workers int
	audit   auditlog.Options
	console Options
	// without runs the shop without a console.
	without bool
	change  func(*manager.Options)
	// more, if not nil, adds controllers.
	more func(manager.Manager) error
}

// site is the reconciler of ConfigMaps.
type site struct{ client.Client }

func (s site) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var cm corev1.ConfigMap
	if err := s.Get(ctx, req.NamespacedName, &cm); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	logger := log.FromContext(ctx)
	if cm.Data["fail"] != "" {
		return reconcile.Result{}, errors.New("the site fails: " + cm.Data["fail"])
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name}}
	done, err := controllerutil.CreateOrUpdate(ctx, s.Client, service, func() error {
		service.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
		metav1.SetMetaDataLabel(&service.ObjectMeta, "motto", cm.Data["motto"])
		return controllerutil.SetControllerReference(&cm, service, s.Scheme())
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name}}
	_, err = controllerutil.CreateOrUpdate(ctx, s.Client, secret, func() error {
		secret.Data = map[string][]byte{"password": []byte(password + cm.Data["motto"])}
		return controllerutil.SetControllerReference(&cm, secret, s.Scheme())
	})
	logger.Info("The site is up", "service", done, "secret", secret, "data", secret.Data)
	logger.V(3).Info("A detail", "motto", cm.Data["motto"])
	return reconcile.Result{}, err
}

// tagger is the reconciler of Services.
type tagger struct{ client.Client }

func (t tagger) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var service corev1.Service
	if err := t.Get(ctx, req.NamespacedName, &service); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if service.Labels["motto"] == "" || service.Annotations["tag"] == service.Labels["motto"] {
		return reconcile.Result{}, nil
	}
	before := client.MergeFrom(service.DeepCopy())
	metav1.SetMetaDataAnnotation(&service.ObjectMeta, "tag", service.Labels["motto"])
	return reconcile.Result{}, t.Patch(ctx, &service, before)
}

// open starts a shop.
func open(t testing.TB, o shopOptions) *shop {
	t.Helper()
	plane, err := controlplane.Start(context.Background(), controlplane.Options{
		WithoutControllers: true, Audit: o.audit, Tokens: map[string]*user.DefaultInfo{
			"operator": {Name: "operator", Groups: []string{user.SystemPrivilegedGroup}},
			"guest":    {Name: "guest"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{plane: plane}
	cfg := plane.Config()
	cfg.BearerToken, cfg.QPS = "operator", -1
	options := manager.Options{
		Metrics:     metricsserver.Options{BindAddress: "0"},
		Controller:  config.Controller{MaxConcurrentReconciles: o.workers, SkipNameValidation: new(true)},
		Development: new(true), OnWarning: func(config.Warning) {},
	}
	if !o.without {
		if o.console.OnURL == nil {
			o.console.OnURL = func(string) {}
		}
		s.console = New(o.console)
		s.console.auditTimeout = time.Minute // the machine may be slow
		options.Console = s.console
	}
	if o.change != nil {
		o.change(&options)
	}
	if s.mgr, err = manager.New(cfg, options); err != nil {
		t.Fatal(err)
	}
	inDefault := builder.WithPredicates(onlyNamed{})
	err = errors.Join(
		builder.ControllerManagedBy(s.mgr).Named("site").For(&corev1.ConfigMap{}, inDefault).Owns(&corev1.Service{}).Owns(&corev1.Secret{}).
			WithOptions(controller.Options{}).Complete(site{s.mgr.GetClient()}),
		builder.ControllerManagedBy(s.mgr).Named("tagger").For(&corev1.Service{}, inDefault).Complete(tagger{s.mgr.GetClient()}),
	)
	if o.more != nil {
		err = errors.Join(err, o.more(s.mgr))
	}
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
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.stop = func() {}
	}
	t.Cleanup(func() {
		s.stop()
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.idle(t)
	return s
}

// idle waits until the manager has nothing to do.
func (s *shop) idle(t testing.TB) {
	t.Helper()
	if _, err := manager.WaitIdle(t.Context(), s.mgr); err != nil {
		t.Fatal(err)
	}
}

// create creates a ConfigMap, and waits.
func (s *shop) create(t testing.TB, name, motto string) {
	t.Helper()
	s.make(t, name, motto)
	s.idle(t)
}

// make creates a ConfigMap.
func (s *shop) make(t testing.TB, name, motto string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"motto": motto}}
	if err := s.client.Create(t.Context(), cm); err != nil {
		t.Error(err)
	}
}

// set sets a value of a ConfigMap, and waits.
func (s *shop) set(t testing.TB, name, key, value string) {
	t.Helper()
	s.patch(t, name, key, value)
	s.idle(t)
}

// patch sets a value of a ConfigMap.
func (s *shop) patch(t testing.TB, name, key, value string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	data := []byte(`{"data":{"` + key + `":"` + value + `"}}`)
	if err := s.client.Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, data)); err != nil {
		t.Error(err)
	}
}

// request sends a request to the console, with its token unless the header has one.
func (s *shop) request(t testing.TB, method, path string, form url.Values, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if header == nil {
		header = http.Header{"Authorization": {"Bearer " + s.console.options.Token}}
	}
	for name, values := range header {
		r.Header[name] = values
		if name == "Host" {
			r.Host = values[0]
		}
	}
	w := httptest.NewRecorder()
	s.console.handler.ServeHTTP(w, r)
	return w
}

// get gets a page or a part of the API, which must succeed.
func (s *shop) get(t testing.TB, path string) string {
	t.Helper()
	w := s.request(t, "GET", path, nil, nil)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	body, _ := io.ReadAll(w.Body)
	return string(body)
}
