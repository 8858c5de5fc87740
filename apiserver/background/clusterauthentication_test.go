package background

import (
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
	"k8s.io/apimachinery/pkg/runtime"
)

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
