package etcd

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/storage/etcd"
)

// TestPrefix runs two control planes with prefixes of their own on one cluster. Neither sees the objects of the other, and
// the credentials of one are no good at the other. All keys are where kube-apiserver has them with --etcd-prefix.
func TestPrefix(t *testing.T) {
	c := startCluster(t, 1)
	at := func(prefix string) func(*controlplane.Options) {
		return func(o *controlplane.Options) {
			prefixes, err := etcd.Prefixes(prefix)
			if err != nil {
				t.Fatal(err)
			}
			o.Storage.Close()
			if o.Storage, err = etcd.Open(t.Context(), etcd.Options{Endpoints: c.endpoints(), Prefixes: prefixes, Logf: t.Logf}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx := t.Context()
	planes := map[string]*controlplane.ControlPlane{"/registry": startPlane(t, c, "10.0.0.1", at("registry/")), "/team/a": startPlane(t, c, "10.0.0.2", at("team/a"))}
	for prefix, plane := range planes {
		objects, err := client.New(plane.Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: strings.ReplaceAll(prefix[1:], "/", "-")}}
		if err := objects.Create(ctx, m); err != nil {
			t.Fatal(err)
		}
		m.Data = map[string]string{"changed": "yes"}
		if err := objects.Update(ctx, m); err != nil {
			t.Fatal(err)
		}
		removed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "removed"}}
		if err := objects.Create(ctx, removed); err != nil {
			t.Fatal(err)
		}
		if err := objects.Delete(ctx, removed); err != nil {
			t.Fatal(err)
		}
		for other := range planes {
			err := objects.Get(ctx, client.ObjectKey{Namespace: "default", Name: strings.ReplaceAll(other[1:], "/", "-")}, &corev1.ConfigMap{})
			if (other == prefix) != (err == nil) || err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("%s has the object of %s: %v", prefix, other, err)
			}
		}
	}
	if bytes.Equal(authorityOf(t, planes["/registry"]), authorityOf(t, planes["/team/a"])) {
		t.Error("the two share their authority")
	}
	raw, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	all, err := raw.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range all.Kvs {
		key := string(kv.Key)
		keys = append(keys, key)
		if !slices.ContainsFunc([]string{"/registry/", "/team/a/", "/flyball/", "/flyball.dev/team/a/", "compact_rev_key"}, func(p string) bool { return strings.HasPrefix(key, p) }) {
			t.Errorf("the cluster has %s", key)
		}
	}
	for _, want := range []string{"/registry/configmaps/default/registry", "/team/a/configmaps/default/team-a", "/flyball/credentials", "/flyball.dev/team/a/credentials"} {
		if !slices.Contains(keys, want) {
			t.Errorf("the cluster has no %s", want)
		}
	}
}

// authorityOf returns the certificate authority of a control plane.
func authorityOf(t testing.TB, plane *controlplane.ControlPlane) []byte {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return config.CAData
}
