package etcd

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/storage/etcd"
)

// startPlane starts a control plane on a cluster, with an address of its own in the endpoints of the Service kubernetes.
func startPlane(t testing.TB, c *cluster, address string, change ...func(*controlplane.Options)) *controlplane.ControlPlane {
	t.Helper()
	s, err := etcd.Open(t.Context(), etcd.Options{Endpoints: c.endpoints(), Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	options := controlplane.Options{Storage: s, Shared: true, Listen: "127.0.0.1:0", AdvertiseAddress: netip.MustParseAddr(address)}
	for _, f := range change {
		f(&options)
	}
	plane, err := controlplane.Start(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return plane
}

// through makes a control plane reach the cluster through a proxy.
func through(t testing.TB, p *proxy) func(*controlplane.Options) {
	return func(o *controlplane.Options) {
		s, err := etcd.Open(t.Context(), etcd.Options{Endpoints: []string{p.url}, Logf: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		o.Storage.Close()
		o.Storage = s
	}
}

// TestTakeover cuts the control plane that runs the controllers off from the cluster. The other one takes over, and the
// first one goes on when it is back.
func TestTakeover(t *testing.T) {
	c := startCluster(t, 1)
	p := startProxy(t, c.members[0].url)
	first := startPlane(t, c, "203.0.113.1", through(t, p))
	ctx := t.Context()
	one := clientFor(t, configOf(t, first))
	if err := one.Create(ctx, deployment("before")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deployment", func() error { return wantAvailable(ctx, one, "before") })
	second := startPlane(t, c, "203.0.113.2")
	two := clientFor(t, configOf(t, second))

	p.cut(true)
	if err := two.Create(ctx, deployment("after")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deployment after the first server was cut off", func() error { return wantAvailable(ctx, two, "after") })
	p.cut(false)
	eventually(t, "the first server", func() error { return wantAvailable(ctx, one, "after") })
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
	if err := one.Create(ctx, deployment("last")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deployment after the end of the second server", func() error { return wantAvailable(ctx, one, "last") })
}

// TestOutage stops the whole cluster for a while. Reads and writes fail meanwhile, /readyz says so, and afterwards the control
// plane goes on, with its definitions and controllers.
func TestOutage(t *testing.T) {
	c := startCluster(t, 1)
	plane := startPlane(t, c, "203.0.113.1")
	ctx := t.Context()
	config := configOf(t, plane)
	k := clientFor(t, config)
	brief := rest.CopyConfig(config)
	brief.Timeout = 5 * time.Second
	during := clientFor(t, brief)
	if err := k.Create(ctx, definition()); err != nil {
		t.Fatal(err)
	}
	c.kill(c.members[0])
	if err := during.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err == nil {
		t.Error("a read succeeds without the cluster")
	}
	if err := during.Create(ctx, deployment("during")); err == nil {
		t.Error("a write succeeds without the cluster")
	}
	ready, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer ready.CloseIdleConnections()
	r, err := ready.Get(config.Host + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusInternalServerError {
		t.Errorf("/readyz: %s", r.Status)
	}
	c.start(c.members[0])
	c.await(c.members[0])
	eventually(t, "a read", func() error { return k.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{}) })
	if err := k.Create(ctx, deployment("after")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deployment", func() error { return wantAvailable(ctx, k, "after") })
	g := gadget("after")
	if err := k.Create(ctx, g); err != nil {
		t.Errorf("a custom resource: %v", err)
	}
}

// configOf returns the configuration of the administrator of a control plane, over HTTPS.
func configOf(t testing.TB, plane *controlplane.ControlPlane) *rest.Config {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// clientFor returns a client with the kinds of client-go and of apiextensions.
func clientFor(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// patience is how long a test waits for what takes seconds on an idle machine.
const patience = 5 * time.Minute

// eventually calls f until it returns nil.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// TestControlPlanes runs two control planes on one cluster. Each accepts the credentials of the other, and follows its
// definitions and roles. The controllers run in one of them, and after its end in the other one.
func TestControlPlanes(t *testing.T) {
	c := startCluster(t, 1)
	first, second := startPlane(t, c, "203.0.113.1"), startPlane(t, c, "203.0.113.2")
	ctx := t.Context()
	one, two := clientFor(t, configOf(t, first)), clientFor(t, configOf(t, second))

	// Credentials: the certificate of the first administrator, and a token of the first server.
	crossed := configOf(t, second)
	crossed.TLSClientConfig = configOf(t, first).TLSClientConfig
	if err := clientFor(t, crossed).Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil {
		t.Errorf("the certificate of the other server: %v", err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "robot"}}
	if err := one.Create(ctx, account); err != nil {
		t.Fatal(err)
	}
	token := &authenticationv1.TokenRequest{}
	if err := one.SubResource("token").Create(ctx, account, token); err != nil {
		t.Fatal(err)
	}
	robot := rest.AnonymousClientConfig(configOf(t, second))
	robot.BearerToken = token.Status.Token
	pods := func() error { return clientFor(t, robot).List(ctx, &corev1.PodList{}, client.InNamespace("default")) }
	if err := pods(); !apierrors.IsForbidden(err) {
		t.Errorf("a token of the other server, without a role: %v", err)
	}

	// Roles and definitions.
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "robot"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "robot"}}}
	if err := one.Create(ctx, binding); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a role of the other server", pods)
	if err := one.Create(ctx, definition()); err != nil {
		t.Fatal(err)
	}
	gadget := &unstructured.Unstructured{}
	gadget.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"})
	gadget.SetNamespace("default")
	gadget.SetName("g")
	eventually(t, "a definition of the other server", func() error { return clientFor(t, configOf(t, second)).Create(ctx, gadget) })

	// Controllers and endpoints.
	eventually(t, "endpoints", func() error { return wantEndpoints(ctx, one, "203.0.113.1", "203.0.113.2") })
	if err := two.Create(ctx, deployment("before")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deployment", func() error { return wantAvailable(ctx, two, "before") })
	if err := first.Stop(); err != nil {
		t.Error(err)
	}
	if err := two.Create(ctx, deployment("after")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deployment after the end of the first server", func() error { return wantAvailable(ctx, two, "after") })
	eventually(t, "endpoints after the end of the first server", func() error { return wantEndpoints(ctx, two, "203.0.113.2") })
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Singular: "gadget", Kind: "Gadget", ListKind: "GadgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true)}}}},
		},
	}
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		},
	}
}

func wantAvailable(ctx context.Context, c client.Client, name string) error {
	d := &appsv1.Deployment{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, d); err != nil {
		return err
	}
	if d.Status.AvailableReplicas != *d.Spec.Replicas {
		return errors.New("the replicas are not available")
	}
	return nil
}

// wantEndpoints returns an error unless the Service kubernetes has the addresses.
func wantEndpoints(ctx context.Context, c client.Client, addresses ...string) error {
	e := &unstructured.Unstructured{}
	e.SetGroupVersionKind(schema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"})
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "kubernetes"}, e); err != nil {
		return err
	}
	endpoints, _, _ := unstructured.NestedSlice(e.Object, "endpoints")
	if len(endpoints) != len(addresses) {
		return errors.New("there are other endpoints")
	}
	for i := range endpoints {
		got, _, _ := unstructured.NestedStringSlice(endpoints[i].(map[string]any), "addresses")
		if len(got) != 1 || got[0] != addresses[i] {
			return errors.New("there are other addresses")
		}
	}
	return nil
}
