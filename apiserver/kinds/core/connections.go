package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/podspec"
)

// reasonNotImplemented is the reason of the Status that refuses a connection to a container.
const reasonNotImplemented metav1.StatusReason = "NotImplemented"

// errNoContainer returns the error for a request that needs a running container. The argument what says what
// the object lacks.
func errNoContainer(resource, name, what string) error {
	kind := strings.TrimSuffix(resource, "s")
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: reasonNotImplemented,
		Message: fmt.Sprintf("%s %q %s: this control plane runs no containers, as docs/pods.md explains", kind, name, what),
		Details: &metav1.StatusDetails{Kind: resource, Name: name},
	}}
}

// upgradeMethods are the methods that open a connection: GET for WebSockets, POST for SPDY.
//
//upstream:pkg/registry/core/pod/rest.upgradeableMethods
var upgradeMethods = []string{http.MethodGet, http.MethodPost}

// proxyMethods are the methods that a proxy forwards.
//
//upstream:pkg/registry/core/pod/rest.proxyMethods
//upstream:pkg/registry/core/node/rest.proxyMethods
//upstream:pkg/registry/core/service.proxyMethods
var proxyMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}

// connectionREST is a subresource for connections to the processes of an object. No process runs, so
// check refuses each connection.
type connectionREST struct {
	options func() runtime.Object // returns new options
	methods []string
	path    bool // there is a path below it, which is in the options
	// check returns the error for a request: the invalid part, or the reason to refuse a valid request.
	check func(ctx context.Context, name string, options runtime.Object) error
}

var _ rest.Connecter = (*connectionREST)(nil)

func (r *connectionREST) New() runtime.Object      { return r.options() }
func (r *connectionREST) Destroy()                 {}
func (r *connectionREST) ConnectMethods() []string { return r.methods }

func (r *connectionREST) NewConnectOptions() (_ runtime.Object, path bool, key string) {
	if r.path {
		key = "path"
	}
	return r.options(), r.path, key
}

// Connect returns the error of the check.
func (r *connectionREST) Connect(ctx context.Context, name string, options runtime.Object, _ rest.Responder) (http.Handler, error) {
	return nil, r.check(ctx, name, options)
}

// podConnections returns the subresources for connections to the containers of a pod.
//
//upstream:pkg/registry/core/pod/rest.ExecREST
//upstream:pkg/registry/core/pod/rest.AttachREST
//upstream:pkg/registry/core/pod/rest.PortForwardREST
//upstream:pkg/registry/core/pod/rest.ProxyREST
//upstream:pkg/registry/core/pod.streamLocation
//upstream:pkg/registry/core/pod.PortForwardLocation
//upstream:pkg/registry/core/pod.ResourceLocation
func podConnections(pods kinds.Stored[*corev1.Pod], access authorizer.UnconditionalAuthorizer) map[string]rest.Storage {
	upgrade := func(what string, options func() runtime.Object, container func(runtime.Object) string) rest.Storage {
		return &connectionREST{options: options, methods: upgradeMethods,
			check: func(ctx context.Context, name string, options runtime.Object) error {
				if err := mayCreate(ctx, access); err != nil {
					return err
				}
				pod, err := pods.Get(ctx, name)
				if err == nil && container != nil {
					err = hasContainer(pod, container(options))
				}
				if err == nil && pod.Spec.NodeName == "" {
					err = apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", name))
				}
				if err != nil {
					return err
				}
				return errNoContainer("pods", name, what)
			}}
	}
	return map[string]rest.Storage{
		"log": &logREST{pods},
		"exec": upgrade("cannot execute a command", func() runtime.Object { return &corev1.PodExecOptions{} },
			func(o runtime.Object) string { return o.(*corev1.PodExecOptions).Container }),
		"attach": upgrade("has no process to attach to", func() runtime.Object { return &corev1.PodAttachOptions{} },
			func(o runtime.Object) string { return o.(*corev1.PodAttachOptions).Container }),
		"portforward": upgrade("listens on no port", func() runtime.Object { return &corev1.PodPortForwardOptions{} }, nil),
		"proxy": proxyTo("pods", "listens on no port", func() runtime.Object { return &corev1.PodProxyOptions{} },
			func(ctx context.Context, name, _ string) error { return ignoring(pods.Get(ctx, name)) }),
	}
}

// nodeProxy returns the subresource nodes/proxy.
//
//upstream:pkg/registry/core/node/rest.ProxyREST
//upstream:pkg/registry/core/node.ResourceLocation
func nodeProxy(nodes kinds.Stored[*corev1.Node]) map[string]rest.Storage {
	return map[string]rest.Storage{"proxy": proxyTo("nodes", "has no kubelet", func() runtime.Object { return &corev1.NodeProxyOptions{} },
		func(ctx context.Context, name, _ string) error { return ignoring(nodes.Get(ctx, name)) })}
}

// serviceProxy returns the subresource services/proxy.
//
//upstream:pkg/registry/core/service.ProxyREST
//upstream:pkg/registry/core/service/storage.REST.ResourceLocation
func serviceProxy(services kinds.Stored[*corev1.Service]) map[string]rest.Storage {
	return map[string]rest.Storage{"proxy": proxyTo("services", "has no pod that listens on a port", func() runtime.Object { return &corev1.ServiceProxyOptions{} },
		func(ctx context.Context, name, port string) error {
			_, err := services.Get(ctx, name)
			if _, numeric := strconv.ParseInt(port, 10, 64); numeric != nil && apierrors.IsNotFound(err) {
				return apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
			}
			return err
		})}
}

// ignoring returns the error of a read, without the object.
func ignoring[T any](_ T, err error) error { return err }

// proxyTo returns the subresource proxy of a resource. A name may have a scheme and a port:
// https:NAME:443.
func proxyTo(resource, what string, options func() runtime.Object, get func(ctx context.Context, name, port string) error) rest.Storage {
	return &connectionREST{options: options, methods: proxyMethods, path: true,
		check: func(ctx context.Context, id string, _ runtime.Object) error {
			_, name, port, valid := utilnet.SplitSchemeNamePort(id)
			if !valid {
				return apierrors.NewBadRequest(fmt.Sprintf("invalid %s request %q", strings.TrimSuffix(resource, "s"), id))
			}
			if err := get(ctx, name, port); err != nil {
				return err
			}
			return errNoContainer(resource, name, what)
		}}
}

// mayCreate returns an error if the user may not create the subresource of a request. A client opens a
// WebSocket with GET, for which the verb get suffices, so mayCreate asks the authorizer for the verb
// create.
//
//upstream:pkg/registry/core/pod/rest.ensureAuthorizedForVerb
func mayCreate(ctx context.Context, access authorizer.UnconditionalAuthorizer) error {
	attributes, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if attributes.GetVerb() == "create" {
		return nil
	}
	decision, reason, err := access.Authorize(ctx, creating{attributes})
	switch {
	case err != nil:
		return err
	case decision != authorizer.DecisionAllow:
		gr := schema.GroupResource{Group: attributes.GetAPIGroup(), Resource: attributes.GetResource()}
		return apierrors.NewForbidden(gr, attributes.GetName(), errors.New(reason))
	}
	return nil
}

// creating has the attributes of a request, with the verb create.
//
//upstream:pkg/registry/core/pod/rest.overrideVerb
type creating struct{ authorizer.Attributes }

func (creating) GetVerb() string { return "create" }

// hasContainer returns an error if the pod has no container of the name, or if the name is empty and
// the pod has several containers.
//
//upstream:pkg/registry/core/pod.validateContainer
func hasContainer(pod *corev1.Pod, name string) error {
	var names []string
	podspec.VisitContainers(&pod.Spec, func(name string, _ **corev1.SecurityContext) { names = append(names, name) })
	switch {
	case slices.Contains(names, name):
		return nil
	case name != "":
		return apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	case len(pod.Spec.Containers) > 1:
		return apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, names))
	}
	return nil
}
