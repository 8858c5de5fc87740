package core

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	translator "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/podspec"
)

// Kubelet is the kubelet of a node. Its handler has kubelet's paths. Its methods may be called from several goroutines at
// once.
type Kubelet interface {
	http.Handler
	// HasLog reports whether something writes the log of a container.
	HasLog(ctx context.Context, pod *corev1.Pod, container string) (bool, error)
	// Logs writes the log of a container, as the options say.
	Logs(ctx context.Context, pod *corev1.Pod, container string, o *corev1.PodLogOptions, w io.Writer) error
	// Dial connects to a port of a pod.
	Dial(ctx context.Context, pod *corev1.Pod, port int32) (net.Conn, error)
}

// Connections lead from the API server to nodes and pods. Nil functions find nothing.
type Connections struct {
	// Kubelet returns the kubelet of a node, or nil if the API server cannot reach it.
	Kubelet func(node *corev1.Node) Kubelet
	// Node returns a node.
	Node func(ctx context.Context, name string) (*corev1.Node, error)
	// EndpointSlices returns the slices of a Service.
	EndpointSlices func(namespace, service string) ([]discoveryv1.EndpointSlice, error)
	// Pod returns a pod.
	Pod func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
}

// kubeletOf returns the kubelet of the node of a pod, or an error.
//
//upstream:pkg/kubelet/client.NodeConnectionInfoGetter.GetConnectionInfo
func (c *Connections) kubeletOf(ctx context.Context, pod *corev1.Pod) (Kubelet, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}
	if c != nil && c.Node != nil {
		var err error
		if node, err = c.Node(ctx, pod.Spec.NodeName); err != nil {
			return nil, err
		}
	}
	return c.kubelet(node)
}

// DialPod connects to a port of a pod, for a webhook or an extension API server in it.
func (c *Connections) DialPod(ctx context.Context, namespace, name string, port int32) (net.Conn, error) {
	pod, err := c.Pod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	k, err := c.kubeletOf(ctx, pod)
	if err != nil {
		return nil, err
	}
	conn, err := k.Dial(ctx, pod, port)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: this control plane runs no containers; docs/webhooks.md#services tells how a process or a test serves a Service", err)
	}
	return conn, err
}

// kubelet returns the kubelet of a node, or an error.
func (c *Connections) kubelet(node *corev1.Node) (Kubelet, error) {
	if c != nil && c.Kubelet != nil {
		if k := c.Kubelet(node); k != nil {
			return k, nil
		}
	}
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: reasonNotImplemented,
		Message: fmt.Sprintf("the kubelet of node %q is stopped, or does not belong to this control plane: the API server connects to no other kubelet, as docs/pods.md explains", node.Name),
		Details: &metav1.StatusDetails{Kind: "nodes", Name: node.Name},
	}}
}

// reasonNotImplemented is the reason of the Status that refuses a connection to a node.
const reasonNotImplemented metav1.StatusReason = "NotImplemented"

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

// connectionREST is a subresource for connections to an object.
type connectionREST struct {
	options func() runtime.Object // returns new options
	methods []string
	path    bool // there is a path below it, which is in the options
	// connect returns the handler of a connection.
	connect func(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error)
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

// Connect returns the handler of a connection.
func (r *connectionREST) Connect(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
	return r.connect(ctx, name, options, responder)
}

// stream are the parts of a path and a query of kubelet.
type stream struct {
	container string // "" for the pod
	running   bool   // the container must run
	path      string
	query     url.Values
}

// podConnections returns the subresources for connections to the containers of a pod.
//
//upstream:pkg/registry/core/pod/rest.ExecREST
//upstream:pkg/registry/core/pod/rest.AttachREST
//upstream:pkg/registry/core/pod/rest.PortForwardREST
//upstream:pkg/registry/core/pod/rest.ProxyREST
//upstream:pkg/registry/core/pod.streamLocation
//upstream:pkg/registry/core/pod.PortForwardLocation
func podConnections(pods kinds.Stored[*corev1.Pod], access authorizer.UnconditionalAuthorizer, c *Connections) map[string]rest.Storage {
	upgrade := func(options func() runtime.Object, of func(pod *corev1.Pod, o runtime.Object) (stream, error)) rest.Storage {
		return &connectionREST{options: options, methods: upgradeMethods,
			connect: func(ctx context.Context, name string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
				if err := mayCreate(ctx, access); err != nil {
					return nil, err
				}
				pod, err := pods.Get(ctx, name)
				if err != nil {
					return nil, err
				}
				s, err := of(pod, options)
				if err == nil && pod.Spec.NodeName == "" {
					err = apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", name))
				}
				if err != nil {
					return nil, err
				}
				k, err := c.kubeletOf(ctx, pod)
				if err != nil {
					return nil, err
				}
				return toKubelet(k, pod, s, responder), nil
			}}
	}
	return map[string]rest.Storage{
		"log": &logREST{pods, c},
		"exec": upgrade(func() runtime.Object { return &corev1.PodExecOptions{} }, func(pod *corev1.Pod, options runtime.Object) (stream, error) {
			o := options.(*corev1.PodExecOptions)
			container, err := containerOf(pod, o.Container)
			q := streamQuery(o.Stdin, o.Stdout, o.Stderr, o.TTY)
			q["command"] = o.Command
			return stream{container, true, "exec", q}, err
		}),
		"attach": upgrade(func() runtime.Object { return &corev1.PodAttachOptions{} }, func(pod *corev1.Pod, options runtime.Object) (stream, error) {
			o := options.(*corev1.PodAttachOptions)
			container, err := containerOf(pod, o.Container)
			return stream{container, true, "attach", streamQuery(o.Stdin, o.Stdout, o.Stderr, o.TTY)}, err
		}),
		"portforward": upgrade(func() runtime.Object { return &corev1.PodPortForwardOptions{} }, func(_ *corev1.Pod, options runtime.Object) (stream, error) {
			q := url.Values{}
			for _, port := range options.(*corev1.PodPortForwardOptions).Ports {
				q.Add("port", strconv.Itoa(int(port)))
			}
			return stream{"", false, "portForward", q}, nil
		}),
		"proxy": podProxy(pods, c),
	}
}

// streamQuery returns the query of kubelet for the streams of a process.
//
//upstream:pkg/registry/core/pod.streamParams
func streamQuery(stdin, stdout, stderr, tty bool) url.Values {
	q := url.Values{}
	for name, is := range map[string]bool{"input": stdin, "output": stdout, "error": stderr, "tty": tty} {
		if is {
			q.Set(name, "1")
		}
	}
	return q
}

// toKubelet returns the handler of a stream. The kubelet upgrades the connection itself; a WebSocket that tunnels SPDY ends
// here.
func toKubelet(k Kubelet, pod *corev1.Pod, s stream, responder rest.Responder) http.Handler {
	var direct http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { k.ServeHTTP(w, kubeletRequest(r, pod, s)) })
	if s.path == "portForward" {
		tunneled := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			k.ServeHTTP(&tunnelWriter{ResponseWriter: w}, kubeletRequest(r, pod, s))
		})
		direct = translator.NewTranslatingHandler(direct, translator.NewTunnelingHandler(tunneled), wsstream.IsWebSocketRequestWithTunnelingProtocol)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !httpstream.IsUpgradeRequest(r):
			responder.Error(apierrors.NewBadRequest("Upgrade request required"))
		case s.running && !runs(pod, s.container):
			// kubelet's response, in its words and as text
			http.Error(w, fmt.Sprintf("container not found (%q)", s.container), http.StatusInternalServerError)
		default:
			direct.ServeHTTP(w, r)
		}
	})
}

// kubeletRequest returns the request to a kubelet for a stream.
func kubeletRequest(r *http.Request, pod *corev1.Pod, s stream) *http.Request {
	to := r.Clone(r.Context())
	to.URL = &url.URL{Path: fmt.Sprintf("/%s/%s/%s/%s", s.path, pod.Namespace, pod.Name, pod.UID), RawQuery: s.query.Encode()}
	if s.container != "" {
		to.URL.Path += "/" + s.container
	}
	return to
}

// tunnelWriter is the ResponseWriter of a handler that upgrades a connection within a WebSocket. The tunnel takes the
// response from the connection, as a proxy would write it.
type tunnelWriter struct {
	http.ResponseWriter
	upgrades bool
}

// WriteHeader keeps the status of an upgrade back until Hijack.
func (t *tunnelWriter) WriteHeader(code int) {
	if code == http.StatusSwitchingProtocols {
		t.upgrades = true
		return
	}
	t.ResponseWriter.WriteHeader(code)
}

// Hijack implements [http.Hijacker].
func (t *tunnelWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	hijacker, ok := t.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, http.ErrNotSupported
	}
	conn, buffered, err := hijacker.Hijack()
	if err != nil || !t.upgrades {
		return conn, buffered, err
	}
	var text bytes.Buffer
	text.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = t.Header().Write(&text)
	text.WriteString("\r\n")
	_, err = conn.Write(text.Bytes())
	return conn, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)), err
}

// runs reports whether a container of a pod runs.
func runs(pod *corev1.Pod, container string) bool {
	s := &pod.Status
	for _, list := range [...][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		if slices.ContainsFunc(list, func(c corev1.ContainerStatus) bool { return c.Name == container && c.State.Running != nil }) {
			return true
		}
	}
	return false
}

// podProxy returns the subresource pods/proxy. A name may have a scheme and a port: https:NAME:443.
//
//upstream:pkg/registry/core/pod.ResourceLocation
func podProxy(pods kinds.Stored[*corev1.Pod], c *Connections) rest.Storage {
	return proxyTo(func() runtime.Object { return &corev1.PodProxyOptions{} }, func(ctx context.Context, id, path string, responder rest.Responder) (http.Handler, error) {
		scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
		if !valid {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", id))
		}
		pod, err := pods.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		if port == "" {
			for i := range pod.Spec.Containers {
				if ports := pod.Spec.Containers[i].Ports; len(ports) > 0 {
					port = strconv.Itoa(int(ports[0].ContainerPort))
					break
				}
			}
		}
		if ip := net.ParseIP(pod.Status.PodIP); ip == nil || !ip.IsGlobalUnicast() {
			return nil, apierrors.NewBadRequest("address not allowed")
		}
		return c.toPod(ctx, pod, scheme, port, path, responder)
	})
}

// toPod returns a proxy to a port of a pod, or to the default port of the scheme.
func (c *Connections) toPod(ctx context.Context, pod *corev1.Pod, scheme, port, path string, responder rest.Responder) (http.Handler, error) {
	k, err := c.kubeletOf(ctx, pod)
	if err != nil {
		return nil, err
	}
	return toAddress(pod.Status.PodIP, scheme, port, path, responder, func(ctx context.Context, port int32) (net.Conn, error) {
		return k.Dial(ctx, pod, port)
	})
}

// toAddress returns a proxy to a port of an address, or to the default port of the scheme. A port that is no number is a bad
// request. A number that is no port is refused when the proxy connects.
func toAddress(ip, scheme, port, path string, responder rest.Responder, dial func(ctx context.Context, port int32) (net.Conn, error)) (http.Handler, error) {
	if strings.Trim(port, "0123456789") != "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid port %q", port))
	}
	location := &url.URL{Scheme: scheme, Host: strings.TrimSuffix(net.JoinHostPort(ip, port), ":"), Path: path}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			number, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				return nil, &net.OpError{Op: "dial", Net: network, Err: &net.AddrError{Err: "invalid port", Addr: port}}
			}
			conn, err := dial(ctx, int32(number))
			if errors.Is(err, syscall.ECONNREFUSED) {
				err = &net.OpError{Op: "dial", Net: network, Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: int(number)}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			}
			return conn, err
		},
		// The certificates of pods have no names that the API server could verify, as on a cluster.
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}
	return proxy.NewUpgradeAwareHandler(location, transport, true, false, proxy.NewErrorResponder(responder)), nil
}

// kubeletPort is the port of a kubelet that has not written another one to the status of its node.
//
//upstream:pkg/cluster/ports.KubeletPort
const kubeletPort = 10250

// nodeProxy returns a constructor of the subresource nodes/proxy. A node listens on the port of its kubelet alone.
//
//upstream:pkg/registry/core/node/rest.ProxyREST
//upstream:pkg/registry/core/node.ResourceLocation
func nodeProxy(c *Connections) func(kinds.Stored[*corev1.Node]) map[string]rest.Storage {
	return func(nodes kinds.Stored[*corev1.Node]) map[string]rest.Storage {
		return map[string]rest.Storage{"proxy": proxyTo(func() runtime.Object { return &corev1.NodeProxyOptions{} },
			func(ctx context.Context, id, path string, responder rest.Responder) (http.Handler, error) {
				scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
				if !valid {
					return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid node request %q", id))
				}
				node, err := nodes.Get(ctx, name)
				if err != nil {
					return nil, err
				}
				k, err := c.kubelet(node)
				if err != nil {
					return nil, err
				}
				own := cmp.Or(node.Status.DaemonEndpoints.KubeletEndpoint.Port, kubeletPort)
				if port != "" && port != strconv.Itoa(int(own)) {
					refused := func(context.Context, int32) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
					return toAddress(addressCell(node, corev1.NodeInternalIP), scheme, port, path, responder, refused)
				}
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if path == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
						to := url.URL{Path: r.URL.Path + "/", RawQuery: r.URL.RawQuery}
						http.Redirect(w, r, to.String(), http.StatusMovedPermanently)
						return
					}
					to := r.Clone(r.Context())
					to.URL = &url.URL{Path: "/" + strings.TrimPrefix(path, "/"), RawQuery: r.URL.RawQuery}
					k.ServeHTTP(w, to)
				}), nil
			})}
	}
}

// serviceProxy returns a constructor of the subresource services/proxy. The proxy leads to ready endpoints that are pods.
//
//upstream:pkg/registry/core/service.ProxyREST
//upstream:pkg/registry/core/service/storage.REST.ResourceLocation
func serviceProxy(c *Connections) func(kinds.Stored[*corev1.Service]) map[string]rest.Storage {
	return func(services kinds.Stored[*corev1.Service]) map[string]rest.Storage {
		return map[string]rest.Storage{"proxy": proxyTo(func() runtime.Object { return &corev1.ServiceProxyOptions{} },
			func(ctx context.Context, id, path string, responder rest.Responder) (http.Handler, error) {
				scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
				if !valid {
					return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", id))
				}
				if number, err := strconv.ParseInt(port, 10, 64); err == nil {
					service, err := services.Get(ctx, name)
					if err != nil {
						return nil, err
					}
					i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int64(p.Port) == number })
					if i < 0 {
						return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, name))
					}
					port = service.Spec.Ports[i].Name
				}
				pod, target, err := c.endpoint(ctx, name, port)
				if err != nil {
					return nil, err
				}
				return c.toPod(ctx, pod, scheme, strconv.Itoa(int(target)), path, responder)
			})}
	}
}

// endpoint returns a random pod behind a Service, and the port of the pod for a port of the Service.
//
//upstream:k8s.io/apiserver/pkg/util/proxy.RandomEndpoint
//upstream:pkg/registry/core/service/storage.isValidAddress
func (c *Connections) endpoint(ctx context.Context, service, port string) (pod *corev1.Pod, target int32, err error) {
	none := apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service))
	if c == nil || c.EndpointSlices == nil {
		return nil, 0, none
	}
	namespace := request.NamespaceValue(ctx)
	all, err := c.EndpointSlices(namespace, service)
	if err != nil {
		return nil, 0, apierrors.NewInternalError(err)
	}
	type candidate struct {
		pod  *corev1.ObjectReference
		ip   string
		port int32
	}
	var ready []candidate
	for i := range all {
		for _, p := range all[i].Ports {
			if p.Port == nil || p.Name == nil || *p.Name != port {
				continue
			}
			for _, e := range all[i].Endpoints {
				is := e.Conditions.Ready == nil || *e.Conditions.Ready
				if is && e.TargetRef != nil && e.TargetRef.Kind == "Pod" && e.TargetRef.Namespace == namespace && len(e.Addresses) > 0 {
					ready = append(ready, candidate{e.TargetRef, e.Addresses[0], *p.Port})
				}
			}
		}
	}
	rand.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	for _, e := range ready {
		pod, err := c.Pod(ctx, namespace, e.pod.Name)
		if err == nil && slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == e.ip }) {
			return pod, e.port, nil
		}
	}
	return nil, 0, none
}

// proxyTo returns a subresource proxy, with a function that returns the handler for a name and a path.
func proxyTo(options func() runtime.Object, to func(ctx context.Context, id, path string, responder rest.Responder) (http.Handler, error)) rest.Storage {
	return &connectionREST{options: options, methods: proxyMethods, path: true,
		connect: func(ctx context.Context, id string, options runtime.Object, responder rest.Responder) (http.Handler, error) {
			path := ""
			switch o := options.(type) {
			case *corev1.PodProxyOptions:
				path = o.Path
			case *corev1.NodeProxyOptions:
				path = o.Path
			case *corev1.ServiceProxyOptions:
				path = o.Path
			}
			return to(ctx, id, utilnet.JoinPreservingTrailingSlash("", path), responder) // an empty path is redirected to /
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

// containerOf returns the name of a container, or an error if the pod has no container of the name, or if the name is
// empty and the pod has several containers.
//
//upstream:pkg/registry/core/pod.validateContainer
func containerOf(pod *corev1.Pod, name string) (string, error) {
	var names []string
	podspec.VisitContainers(&pod.Spec, func(name string, _ **corev1.SecurityContext) { names = append(names, name) })
	switch {
	case slices.Contains(names, name):
		return name, nil
	case name != "":
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	case len(pod.Spec.Containers) > 1:
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, names))
	}
	return pod.Spec.Containers[0].Name, nil
}
