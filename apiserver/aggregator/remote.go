package aggregator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"flyball.dev/apiserver/resource"
)

const (
	// checkTimeout is how long a Service may take to answer an availability check.
	checkTimeout = 5 * time.Second
	// maxDocument is the maximum size of a Service's documents, in bytes.
	maxDocument = 32 << 20
)

// remote is the group version of an extension API server.
//
//upstream:k8s.io/kube-aggregator/pkg/apiserver.proxyHandlingInfo
type remote struct {
	name      string
	gv        schema.GroupVersion
	uid       string
	service   apiregistrationv1.ServiceReference
	spec      apiregistrationv1.APIServiceSpec
	transport *http.Transport
	passed    atomic.Bool

	// The resources and the documents in the catalog. Only one goroutine may use them at a time.
	resources []metav1.APIResource
	openAPI   openAPI
}

// newRemote returns the remote of an APIService. It is unavailable until its first check.
func newRemote(c Config, s *apiregistrationv1.APIService) *remote {
	r := &remote{
		name: s.Name, gv: schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}, uid: string(s.UID),
		service: *s.Spec.Service, spec: s.Spec,
	}
	settings := &tls.Config{
		ServerName: r.service.Name + "." + r.service.Namespace + ".svc", InsecureSkipVerify: s.Spec.InsecureSkipTLSVerify,
		MinVersion: tls.VersionTLS12,
	}
	if len(s.Spec.CABundle) > 0 {
		settings.RootCAs = x509.NewCertPool()
		settings.RootCAs.AppendCertsFromPEM(s.Spec.CABundle)
	}
	if pair, err := tls.X509KeyPair(c.Certificate, c.Key); err == nil {
		settings.Certificates = []tls.Certificate{pair}
	}
	r.transport = &http.Transport{DialContext: c.Dial, TLSClientConfig: settings, TLSHandshakeTimeout: 10 * time.Second}
	return r
}

// same reports whether the remote was made for this APIService with its current spec.
func (r *remote) same(s *apiregistrationv1.APIService) bool {
	return r.uid == string(s.UID) && reflect.DeepEqual(r.spec, s.Spec)
}

func (r *remote) available() bool { return r.passed.Load() }

// check checks whether a remote is available, and updates its condition and its resources in the catalog.
//
//upstream:k8s.io/kube-aggregator/pkg/controllers/status/remote.AvailableConditionController.sync
func (a *Aggregator) check(ctx context.Context, r *remote) {
	condition := apiregistrationv1.APIServiceCondition{Type: apiregistrationv1.Available,
		Status: apiregistrationv1.ConditionFalse, LastTransitionTime: metav1.Now()}
	var list metav1.APIResourceList
	condition.Reason, condition.Message = a.checkService(r)
	if condition.Reason == "" {
		condition.Status, condition.Reason, condition.Message = apiregistrationv1.ConditionTrue, "Passed", "all checks passed"
		if err := a.get(ctx, r, "/apis/"+r.gv.String(), &list); err != nil {
			condition.Status, condition.Reason, condition.Message = apiregistrationv1.ConditionFalse, "FailedDiscoveryCheck", err.Error()
			r.transport.CloseIdleConnections()
		}
	}
	if ctx.Err() != nil {
		return
	}
	passed := condition.Status == apiregistrationv1.ConditionTrue
	if passed {
		a.publish(ctx, r, list.APIResources)
	} else {
		a.withdraw(r)
	}
	r.passed.Store(passed)
	a.setCondition(ctx, r.name, condition)
}

// setCondition sets the condition Available of an APIService.
//
//upstream:k8s.io/kube-aggregator/pkg/controllers/status/remote.AvailableConditionController.updateAPIServiceStatus
//upstream:k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper.SetAPIServiceCondition
func (a *Aggregator) setCondition(ctx context.Context, name string, condition apiregistrationv1.APIServiceCondition) {
	if err := a.config.UpdateStatus(ctx, name, func(s *apiregistrationv1.APIService) {
		helper.SetAPIServiceCondition(s, condition)
	}); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		klog.ErrorS(err, "The status of an APIService cannot be updated", "name", name)
	}
}

// checkService returns the reason and the message why a Service cannot be reached, or empty strings.
//
//upstream:k8s.io/kube-aggregator/pkg/controllers/status/remote.AvailableConditionController.sync
func (a *Aggregator) checkService(r *remote) (reason, message string) {
	namespace, name, port := r.service.Namespace, r.service.Name, *r.service.Port
	service, err := a.config.Services.Get(namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return "ServiceNotFound", fmt.Sprintf("service/%s in %q is not present", name, namespace)
	case err != nil:
		return "ServiceAccessError", fmt.Sprintf("service/%s in %q cannot be checked due to: %v", name, namespace, err)
	}
	if service.Spec.Type != corev1.ServiceTypeClusterIP || a.config.Services.OnLoopback(service) {
		return "", ""
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return "ServicePortError", fmt.Sprintf("service/%s in %q is not listening on port %d", name, namespace, port)
	}
	endpoints, err := a.config.Services.EndpointSlices(namespace, name)
	switch {
	case err != nil:
		return "EndpointsAccessError", fmt.Sprintf("service/%s in %q cannot be checked due to: %v", name, namespace, err)
	case len(endpoints) == 0:
		return "EndpointsNotFound", fmt.Sprintf("cannot find endpointslices for service/%s in %q", name, namespace)
	case !hasReady(endpoints, service.Spec.Ports[i].Name):
		return "MissingEndpoints", fmt.Sprintf("endpointslices for service/%s in %q have no addresses with port name %q",
			name, namespace, service.Spec.Ports[i].Name)
	}
	return "", ""
}

// hasReady reports whether there is a ready endpoint with the named port.
//
//upstream:k8s.io/kube-aggregator/pkg/controllers/status/remote.hasAvailableEndpoint
func hasReady(endpoints []discoveryv1.EndpointSlice, port string) bool {
	for _, s := range endpoints {
		named := slices.ContainsFunc(s.Ports, func(p discoveryv1.EndpointPort) bool { return p.Name != nil && *p.Name == port })
		ready := slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
			return e.Conditions.Ready == nil || *e.Conditions.Ready
		})
		if named && ready {
			return true
		}
	}
	return false
}

// get reads a JSON document of a Service, with the aggregator's own identity.
func (a *Aggregator) get(ctx context.Context, r *remote, path string, into any) error {
	location, err := a.config.Services.ResolveEndpoint(r.service.Namespace, r.service.Name, *r.service.Port)
	if err != nil {
		return err
	}
	location.Path = path
	body, err := a.fetch(ctx, r, location.String())
	if err != nil {
		return err
	}
	if raw, ok := into.(*[]byte); ok {
		*raw = body
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("failing or missing response from %v: %w", location, err)
	}
	return nil
}

// fetch reads a document of at most maxDocument bytes.
func (a *Aggregator) fetch(ctx context.Context, r *remote, location string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return nil, err
	}
	get.Header.Set("Accept", "application/json")
	transport.SetAuthProxyHeaders(get, "system:kube-aggregator", "", []string{user.SystemPrivilegedGroup}, nil)
	client := &http.Client{Transport: r.transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	response, err := client.Do(get)
	if err != nil {
		return nil, fmt.Errorf("failing or missing response from %v: %w", location, err)
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("failing or missing response from %v: bad status from %v: %d", location, location, response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	if err == nil && len(body) > maxDocument {
		err = errors.New("the response is too large")
	}
	if err != nil {
		return nil, fmt.Errorf("failing or missing response from %v: %w", location, err)
	}
	return body, nil
}

// publish adds the resources of a remote to the catalog if they have changed. Resources that the server itself serves
// in that group version take precedence.
func (a *Aggregator) publish(ctx context.Context, r *remote, resources []metav1.APIResource) {
	document := openAPI{group: r.gv.Group}
	_ = a.get(ctx, r, "/openapi/v2", &document.v2) // not every server has them
	_ = a.get(ctx, r, "/openapi/v3/apis/"+r.gv.String(), &document.v3)
	if r.resources != nil && reflect.DeepEqual(r.resources, resources) && reflect.DeepEqual(r.openAPI, document) {
		return
	}
	r.resources, r.openAPI = resources, document
	if !a.servedLocally(r.gv) {
		a.config.Catalog.Set(source(r.gv), catalogued(r.gv, resources, document)...)
	}
}

// withdraw marks the group version of an unavailable remote as stale.
func (a *Aggregator) withdraw(r *remote) {
	r.resources = nil
	if !a.servedLocally(r.gv) {
		a.config.Catalog.SetStale(source(r.gv), r.gv)
	}
}

// servedLocally reports whether the server itself serves resources of a group version.
func (a *Aggregator) servedLocally(gv schema.GroupVersion) bool {
	for _, g := range a.config.Catalog.Snapshot().Versions() {
		for _, v := range g.Versions {
			if v.GroupVersion == gv {
				return !v.Remote()
			}
		}
	}
	return false
}

// catalogued converts the resources of a discovery document for the catalog.
func catalogued(gv schema.GroupVersion, list []metav1.APIResource, document openAPI) (all []*resource.Resource) {
	byName := map[string]*resource.Resource{}
	for _, entry := range list {
		kind := schema.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: entry.Kind}
		if entry.Version != "" {
			kind.Group, kind.Version = entry.Group, entry.Version
		}
		r := &resource.Resource{
			GroupVersion: gv, Kind: kind, Name: entry.Name, Singular: entry.SingularName, ShortNames: entry.ShortNames,
			Categories: entry.Categories, Namespaced: entry.Namespaced, Verbs: entry.Verbs,
			StorageVersionHash: entry.StorageVersionHash, Remote: true, OpenAPI: document,
		}
		if parent, sub, ok := strings.Cut(entry.Name, "/"); ok {
			r.Name = sub
			if p := byName[parent]; p != nil {
				p.Subresources = append(p.Subresources, r)
			}
			continue
		}
		byName[r.Name] = r
		all = append(all, r)
	}
	return all
}

// openAPI holds the OpenAPI documents of a remote as its server sent them: one of version 2 for all its groups, and one
// of version 3 for the group version.
type openAPI struct {
	group  string
	v2, v3 []byte
}

// V2 returns the part of the document about the group. The result is empty if the server has no valid document.
func (o openAPI) V2() (*spec.Swagger, error) {
	document := &spec.Swagger{}
	if err := document.UnmarshalJSON(o.v2); err != nil || document.Paths == nil {
		return &spec.Swagger{SwaggerProps: spec.SwaggerProps{Paths: &spec.Paths{}}}, nil
	}
	return aggregator.FilterSpecByPathsWithoutSideEffects(document, []string{"/apis/" + o.group + "/"}), nil
}

// V3 returns the document. The result is empty if the server has no valid document.
func (o openAPI) V3() (*spec3.OpenAPI, error) {
	document := &spec3.OpenAPI{}
	if err := json.Unmarshal(o.v3, document); err != nil {
		document = &spec3.OpenAPI{}
	}
	if document.Paths == nil {
		document.Paths = &spec3.Paths{}
	}
	if document.Components == nil {
		document.Components = &spec3.Components{}
	}
	return document, nil
}
