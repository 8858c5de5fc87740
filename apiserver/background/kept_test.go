package background

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/apiregistration"
	"flyball.dev/storage/memory"
)

// keeping has the controllers of a test that changes the server's own objects.
type keeping struct {
	*objects
	t    *testing.T
	stop func()
}

// newKeeping starts the controllers in a bubble.
func newKeeping(t *testing.T, authentication Authentication) *keeping {
	t.Helper()
	storage := memory.New(memory.Options{})
	t.Cleanup(func() { storage.Close() })
	c, stop := start(t, storage, authentication)
	synctest.Wait()
	return &keeping{c.objects, t, stop}
}

// get returns an object when the server has come to rest, without time having passed, or nil.
func (k *keeping) get(gvr schema.GroupVersionResource, namespace, name string) kinds.Object {
	k.t.Helper()
	synctest.Wait()
	obj, err := k.registry(gvr).(rest.Getter).Get(request.WithNamespace(context.Background(), namespace), name, &metav1.GetOptions{})
	if errors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return obj.(kinds.Object)
}

func (k *keeping) change(gvr schema.GroupVersionResource, namespace, name string, change func(runtime.Object)) {
	k.t.Helper()
	if err := k.replace(gvr, namespace, name, change); err != nil {
		k.t.Fatal(err)
	}
}

func (k *keeping) delete(gvr schema.GroupVersionResource, namespace, name string) {
	k.t.Helper()
	if err := k.remove(gvr, namespace, name, nil); err != nil {
		k.t.Fatal(err)
	}
}

// authority returns the certificate of an authority in PEM.
func authority(t *testing.T, name string, expires time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: expires, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestAuthenticationIsKept checks that the server restores the ConfigMap extension-apiserver-authentication at once
// after a deletion or a change, and keeps data that another server has added.
func TestAuthenticationIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := time.Now().Add(time.Hour)
		users, proxy, other, expired := authority(t, "users", later), authority(t, "proxy", later), authority(t, "other", later), authority(t, "expired", time.Now().Add(-time.Hour))
		k := newKeeping(t, Authentication{ClientCA: []byte(users), ProxyCA: []byte(proxy), ProxyName: "front-proxy-client"})
		configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
		data := func() map[string]string {
			t.Helper()
			obj := k.get(configMaps, "kube-system", authenticationName)
			if obj == nil {
				t.Fatal("the ConfigMap is gone")
			}
			return obj.(*corev1.ConfigMap).Data
		}
		change := func(f func(map[string]string)) {
			t.Helper()
			k.change(configMaps, "kube-system", authenticationName, func(obj runtime.Object) {
				c := obj.(*corev1.ConfigMap)
				if c.Data == nil {
					c.Data = map[string]string{}
				}
				f(c.Data)
			})
		}
		original := data()
		if len(original) != 6 || original["client-ca-file"] != users || original["requestheader-client-ca-file"] != proxy {
			t.Fatalf("the ConfigMap has %v", original)
		}
		want := func(what string, changes map[string]string) {
			t.Helper()
			wanted := maps.Clone(original)
			maps.Copy(wanted, changes)
			if got := data(); !maps.Equal(got, wanted) {
				t.Errorf("%s: got %v, want %v", what, got, wanted)
			}
		}
		k.delete(configMaps, "kube-system", authenticationName)
		want("deleted", nil)
		change(func(d map[string]string) { clear(d) })
		want("emptied", nil)
		change(func(d map[string]string) {
			d["client-ca-file"] = expired + other
			d["requestheader-allowed-names"] = `["another"]`
			d["requestheader-uid-headers"] = `["X-Remote-Uid"]`
			d["unknown"] = "x"
		})
		added := map[string]string{"client-ca-file": other + users, "requestheader-allowed-names": `["another","front-proxy-client"]`, "requestheader-uid-headers": `["X-Remote-Uid"]`}
		want("of another server", added)

		// Unreadable data stays until someone repairs it.
		change(func(d map[string]string) {
			d["requestheader-group-headers"] = "X-Group"
			delete(d, "requestheader-username-headers")
		})
		if got := data(); got["requestheader-group-headers"] != "X-Group" || got["requestheader-username-headers"] != "" {
			t.Errorf("what cannot be read was replaced: %v", got)
		}
		change(func(d map[string]string) { delete(d, "requestheader-group-headers") })
		want("mended", added)
	})
}

// TestFlowControlIsKept: missing objects are created again, mandatory specs are corrected, and suggested
// ones only if nobody wants to keep the change.
func TestFlowControlIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeping(t, Authentication{})
		levels, schemas := flowcontrolv1.SchemeGroupVersion.WithResource("prioritylevelconfigurations"), flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas")
		for name, gvr := range map[string]schema.GroupVersionResource{"exempt": levels, "system": levels, "catch-all": schemas, "probes": schemas} {
			k.delete(gvr, "", name)
			if k.get(gvr, "", name) == nil {
				t.Errorf("%s %s has not come back", gvr.Resource, name)
			}
		}
		precedence := func() int32 {
			t.Helper()
			return k.get(schemas, "", "probes").(*flowcontrolv1.FlowSchema).Spec.MatchingPrecedence
		}
		set := func(precedence int32, annotation string) {
			t.Helper()
			k.change(schemas, "", "probes", func(obj runtime.Object) {
				s := obj.(*flowcontrolv1.FlowSchema)
				s.Spec.MatchingPrecedence = precedence
				s.Annotations = map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: annotation}
			})
		}
		original := precedence()
		if set(77, "true"); precedence() != original {
			t.Error("a suggested schema that may be updated was not")
		}
		if set(77, "false"); precedence() != 77 {
			t.Error("a suggested schema that may not be updated was")
		}
		if set(78, "what"); precedence() != 78 || k.get(schemas, "", "probes").GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey] != "false" {
			t.Error("a suggested schema that somebody has changed was updated")
		}
		k.change(levels, "", "exempt", func(obj runtime.Object) {
			p := obj.(*flowcontrolv1.PriorityLevelConfiguration)
			p.Spec.Exempt.NominalConcurrencyShares = new(int32(5))
			p.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = "false"
		})
		exempt := k.get(levels, "", "exempt").(*flowcontrolv1.PriorityLevelConfiguration)
		if *exempt.Spec.Exempt.NominalConcurrencyShares != 5 || exempt.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] != "true" {
			t.Errorf("the exempt level is %+v", exempt)
		}
		for name, annotations := range map[string]map[string]string{"mine": nil, "old": {flowcontrolv1.AutoUpdateAnnotationKey: "true"}} {
			s := k.get(schemas, "", "probes").DeepCopyObject().(*flowcontrolv1.FlowSchema)
			s.ObjectMeta = metav1.ObjectMeta{Name: name, Annotations: annotations}
			if created, err := k.seed(schemas, s); err != nil || !created {
				t.Fatal(err)
			}
			if is := k.get(schemas, "", name); (is == nil) != (annotations != nil) {
				t.Errorf("%s is %v", name, is)
			}
		}
	})
}

// TestRolesAreBootstrappedOnce: as in kube-apiserver, roles are created at the start only.
func TestRolesAreBootstrappedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeping(t, Authentication{})
		roles := rbacv1.SchemeGroupVersion.WithResource("clusterroles")
		k.delete(roles, "", "cluster-admin")
		<-time.After(time.Hour)
		if k.get(roles, "", "cluster-admin") != nil {
			t.Error("cluster-admin has come back")
		}
	})
}

// TestRegistrations checks the cases of checkAPIService of kube-aggregator: rows are the APIService
// that there is, columns the one that there should be.
func TestRegistrations(t *testing.T) {
	const none, unmanaged = "none", "unmanaged"
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	of := func(label string, priority int32) *apiregistrationv1.APIService {
		if label == none {
			return nil
		}
		a, _ := apiregistration.Local(gv)
		a.Spec.GroupPriorityMinimum = priority
		a.Labels = map[string]string{apiregistration.ManagedLabel: label}
		if label == unmanaged {
			a.Labels = nil
		}
		return a
	}
	for _, tt := range []struct {
		current string
		atStart bool
		synced  bool
		// the result for the APIService if the desired one is missing, managed on start, or managed
		want [3]string
	}{
		{none, false, false, [3]string{"", "created", "created"}},
		{none, false, true, [3]string{"", "", "created"}},
		{unmanaged, false, false, [3]string{"kept", "kept", "kept"}},
		{unmanaged, true, true, [3]string{"kept", "kept", "kept"}},
		{"onstart", false, false, [3]string{"kept", "kept", "kept"}},
		{"onstart", true, false, [3]string{"", "updated", "updated"}},
		{"onstart", true, true, [3]string{"kept", "kept", "kept"}},
		{"true", false, false, [3]string{"", "updated", "updated"}},
		{"true", true, true, [3]string{"", "kept", "updated"}},
	} {
		for i, desired := range []string{none, "onstart", "true"} {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeping(t, Authentication{})
				r := &registrations{objects: k.objects, atStart: sets.New[string](), synced: sets.New[string]()}
				is, want := of(tt.current, 7), of(desired, 8)
				const name = "v1.example.com"
				if tt.atStart {
					r.atStart.Insert(name)
				}
				if tt.synced {
					r.synced.Insert(name)
				}
				k.stop() // so that only the test registers
				if is != nil {
					if created, err := k.seed(apiServices, is); err != nil || !created {
						t.Fatal(err)
					}
					is = k.get(apiServices, "", name).(*apiregistrationv1.APIService)
				}
				if is != nil || want != nil {
					if err := r.check(want, is); err != nil {
						t.Fatal(err)
					}
				}
				got := ""
				if obj := k.get(apiServices, "", name); obj != nil {
					got = "kept"
					switch {
					case is == nil:
						got = "created"
					case obj.(*apiregistrationv1.APIService).Spec.GroupPriorityMinimum == 8:
						got = "updated"
					}
				}
				if got != tt.want[i] {
					t.Errorf("%s, at start %v, synced %v; desired %s: it was %q, want %q", tt.current, tt.atStart, tt.synced, desired, got, tt.want[i])
				}
			})
		}
	}
}
