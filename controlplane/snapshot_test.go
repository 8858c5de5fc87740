package controlplane_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/internal/reserve/reservetest"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/snapshot"
)

// saved returns a snapshot file of a control plane.
func saved(t *testing.T, cfg *rest.Config) string {
	t.Helper()
	var buf bytes.Buffer
	if _, err := controlplane.SaveSnapshot(t.Context(), cfg, &buf); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(name, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestSnapshot starts control planes from a snapshot of a running one, in memory and in a data directory. Its clients
// can use them.
func TestSnapshot(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	address := reservetest.Address(t)
	original := controlplanetest.Start(t, controlplane.Options{Listen: address})
	config := controlplanetest.FromKubeconfig(t, original)
	client, err := kubernetes.NewForConfig(config)
	must(err)
	objects, err := dynamic.NewForConfig(config)
	must(err)
	_, err = objects.Resource(definitions).Create(ctx, controlplanetest.Decode(t, gadgetDefinition), metav1.CreateOptions{})
	must(err)
	gadget, err := objects.Resource(gadgets).Namespace("default").Create(ctx, controlplanetest.Decode(t,
		`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"}}`), metav1.CreateOptions{})
	must(err)
	token, err := client.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, "namespace-controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(err)
	file := saved(t, config)
	late, err := client.CoreV1().ConfigMaps("default").Create(ctx, controlplanetest.ConfigMap("late"), metav1.CreateOptions{})
	must(err)
	controlplanetest.CloseIdle(t, config)
	must(original.Stop())

	dir := filepath.Join(t.TempDir(), "data")
	_, err = datadir.Restore(dir, file, false)
	must(err)
	for name, o := range map[string]controlplane.Options{
		"in memory":    {Snapshot: file, Listen: address},
		"in directory": {DataDir: dir, Listen: address},
	} {
		t.Run(name, func(t *testing.T) {
			plane := controlplanetest.Start(t, o)
			defer plane.Stop()
			defer controlplanetest.CloseIdle(t, config)
			same, err := objects.Resource(gadgets).Namespace("default").Get(ctx, "a", metav1.GetOptions{})
			if err != nil || same.GetUID() != gadget.GetUID() || same.GetResourceVersion() != gadget.GetResourceVersion() {
				t.Errorf("the custom resource is %v, %v, and was %v", same, err, gadget)
			}
			if _, err := client.CoreV1().ConfigMaps("default").Get(ctx, "late", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("an object from after the snapshot: %v", err)
			}
			w, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: late.ResourceVersion})
			if err == nil {
				event := <-w.ResultChan()
				err = apierrors.FromObject(event.Object)
				w.Stop()
			}
			if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				t.Errorf("a watch from before: %v", err)
			}
			created, err := client.CoreV1().ConfigMaps("default").Create(ctx, controlplanetest.ConfigMap("new"), metav1.CreateOptions{})
			if err != nil || version(t, created.ResourceVersion) <= version(t, late.ResourceVersion) {
				t.Errorf("%v, %v comes after %s", created, err, late.ResourceVersion)
			}
			authenticated, err := kubernetes.NewForConfig(&rest.Config{Host: config.Host, BearerToken: token.Status.Token,
				TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := authenticated.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err != nil {
				t.Errorf("a token from before: %v", err)
			}
		})
	}
}

// TestSnapshotNeedsMasters gets a snapshot as a user whom a role allows everything.
func TestSnapshotNeedsMasters(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true,
		Tokens: map[string]*user.DefaultInfo{"secret": {Name: "ann"}}})
	defer plane.Stop()
	client := controlplanetest.ClientFor(t, plane.Config())
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "ann"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ann := plane.Config()
	ann.BearerToken = "secret"
	if _, err := controlplanetest.ClientFor(t, ann).CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := controlplane.SaveSnapshot(t.Context(), ann, &out); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:masters") || out.Len() > 0 {
		t.Errorf("%d bytes, error %v", out.Len(), err)
	}
}

// TestSnapshotWhileWriting saves snapshots while a client creates objects in order: each has the first of them.
func TestSnapshotWhileWriting(t *testing.T) {
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true})
	defer plane.Stop()
	maps := controlplanetest.ClientFor(t, plane.Config()).CoreV1().ConfigMaps("default")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := maps.Create(t.Context(), controlplanetest.ConfigMap(name5(i)), metav1.CreateOptions{}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 3 {
		other := controlplanetest.Start(t, controlplane.Options{Snapshot: saved(t, plane.Config()), WithoutControllers: true})
		list, err := controlplanetest.ClientFor(t, other.Config()).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Error(err)
		}
		for i, m := range list.Items {
			if m.Name != name5(i) {
				t.Errorf("object %d is %s", i, m.Name)
			}
		}
		if err := other.Stop(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-done
}

// name5 returns a name; names are in the order of their numbers.
func name5(i int) string { return fmt.Sprintf("m-%05d", i) }

func TestSnapshotRefused(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("kind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := controlplane.Start(t.Context(), controlplane.Options{Snapshot: text}); !errors.Is(err, snapshot.ErrForeign) || !strings.Contains(err.Error(), text) {
		t.Errorf("a text: %v", err)
	}
	for _, o := range []controlplane.Options{
		{Snapshot: text, DataDir: t.TempDir()},
		{Snapshot: text, Storage: memory.New(memory.Options{})},
	} {
		if _, err := controlplane.Start(t.Context(), o); err == nil || errors.Is(err, snapshot.ErrForeign) {
			t.Errorf("%+v: error %v", o, err)
		}
	}
}
