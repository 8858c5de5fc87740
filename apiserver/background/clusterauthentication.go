package background

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/util/cert"

	"flyball.dev/apiserver/store"
)

// authenticationName is the name of the ConfigMap in kube-system that tells extension API servers how to authenticate
// users.
const authenticationName = "extension-apiserver-authentication"

// The keys of the ConfigMap.
const (
	clientCAKey = "client-ca-file"
	proxyCAKey  = "requestheader-client-ca-file"
)

// headerKeys are the keys with lists of header names. They have no effect without the CA of the proxy. An optional key
// is left out when its list is empty.
var headerKeys = map[string]struct{ mayBeMissing bool }{
	"requestheader-allowed-names":        {},
	"requestheader-extra-headers-prefix": {},
	"requestheader-group-headers":        {},
	"requestheader-username-headers":     {},
	"requestheader-uid-headers":          {mayBeMissing: true},
}

// expirySlack is how long an expired certificate is kept.
const expirySlack = 5 * time.Minute

// Authentication is how extension API servers authenticate users. The server publishes it if it has an authority.
type Authentication struct {
	// ClientCA signs the client certificates of users, and ProxyCA the one of the server, with the common name ProxyName.
	// They are PEM-encoded.
	ClientCA, ProxyCA []byte
	ProxyName         string
}

// data returns the data that the ConfigMap must have, or nothing.
func (a *Authentication) data() map[string]string {
	required := map[string]string{}
	if len(a.ClientCA) > 0 {
		required[clientCAKey] = string(a.ClientCA)
	}
	if len(a.ProxyCA) > 0 {
		required[proxyCAKey] = string(a.ProxyCA)
		required["requestheader-allowed-names"] = `["` + a.ProxyName + `"]`
		required["requestheader-extra-headers-prefix"] = `["X-Remote-Extra-"]`
		required["requestheader-group-headers"] = `["X-Remote-Group"]`
		required["requestheader-username-headers"] = `["X-Remote-User"]`
	}
	return required
}

// keepAuthentication creates the ConfigMap that tells extension API servers how to authenticate users. Until the server
// stops, it restores missing data whenever the ConfigMap changes.
func (c *Controllers) keepAuthentication() error {
	required := c.config.Authentication.data()
	if len(required) == 0 {
		return nil
	}
	changed, err := c.loops.changes([]string{store.Key(corev1.Resource("configmaps"), metav1.NamespaceSystem, authenticationName)})
	if err != nil {
		return err
	}
	c.loops.keep("authentication of extension API servers", changed, func() error {
		return c.objects.reconcileAuthentication(c.loops.stopping, required)
	})
	return nil
}

// reconcileAuthentication brings the ConfigMap up to date.
//
//upstream:pkg/controlplane/controller/clusterauthenticationtrust.Controller.syncConfigMap
//upstream:pkg/controlplane/controller/clusterauthenticationtrust.writeConfigMap
func (o *objects) reconcileAuthentication(ctx context.Context, required map[string]string) error {
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	obj, err := o.registry(configMaps).(rest.Getter).Get(
		request.WithNamespace(ctx, metav1.NamespaceSystem), authenticationName, &metav1.GetOptions{})
	switch {
	case errors.IsNotFound(err):
		obj = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: authenticationName}}
	case err != nil:
		return err
	}
	current := obj.(*corev1.ConfigMap)
	data, err := combineAuthentication(current.Data, required, time.Now())
	switch {
	case err != nil:
		return err
	case current.ResourceVersion == "":
		current.Data = data
		_, err := o.seed(configMaps, current)
		return err
	case maps.Equal(data, current.Data):
		return nil
	}
	err = o.replace(configMaps, metav1.NamespaceSystem, authenticationName, func(obj runtime.Object) {
		if is := obj.(*corev1.ConfigMap); is.ResourceVersion == current.ResourceVersion {
			is.Data = data
		}
	})
	if errors.IsInvalid(err) && strings.Contains(err.Error(), "Too long") { // the present value leaves no room
		return cmp.Or(o.remove(configMaps, metav1.NamespaceSystem, authenticationName, nil), err)
	}
	return ignoreChanged(err)
}

// combineAuthentication returns the data of the ConfigMap: the union of existing and required values, without
// duplicates, expired certificates and other keys.
//
//upstream:pkg/controlplane/controller/clusterauthenticationtrust.combinedClusterAuthenticationInfo
//upstream:pkg/controlplane/controller/clusterauthenticationtrust.getConfigMapDataFor
func combineAuthentication(existing, required map[string]string, now time.Time) (map[string]string, error) {
	data := map[string]string{}
	for _, key := range []string{clientCAKey, proxyCAKey} {
		bundle, err := combineBundles(existing[key], required[key], now)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if bundle != "" {
			data[key] = bundle
		}
	}
	for key, list := range headerKeys {
		combined, err := combineLists(existing[key], required[key])
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", key, err)
		case data[proxyCAKey] != "" && (len(combined) > 0 || !list.mayBeMissing):
			text, err := json.Marshal(combined)
			if err != nil {
				return nil, err
			}
			data[key] = string(text)
		}
	}
	return data, nil
}

// combineBundles returns the unexpired certificates of two PEM bundles.
//
//upstream:pkg/controlplane/controller/clusterauthenticationtrust.combineCertLists
//upstream:pkg/controlplane/controller/clusterauthenticationtrust.filterExpiredCerts
func combineBundles(a, b string, now time.Time) (string, error) {
	var all []*x509.Certificate
	for _, bundle := range []string{a, b} {
		if bundle == "" {
			continue
		}
		certificates, err := cert.ParseCertsPEM([]byte(bundle))
		if err != nil {
			return "", err
		}
		for _, c := range certificates {
			if c.NotAfter.After(now.Add(-expirySlack)) && !slices.ContainsFunc(all, c.Equal) {
				all = append(all, c)
			}
		}
	}
	text, err := cert.EncodeCertificates(all...)
	return string(text), err
}

// combineLists returns the union of two JSON lists of strings.
//
//upstream:pkg/controlplane/controller/clusterauthenticationtrust.combineUniqueStringSlices
func combineLists(a, b string) ([]string, error) {
	all := []string{}
	for _, text := range []string{a, b} {
		if text == "" {
			continue
		}
		var list []string
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, err
		}
		for _, s := range list {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all, nil
}
