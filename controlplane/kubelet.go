package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/controllers/pods"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/controllers/pods/server"
)

// kubelets are the kubelets of the nodes of a control plane. The API server calls them in the process.
type kubelets struct {
	transport http.RoundTripper // reads pods
	simulates func(*corev1.Node) bool

	mu      sync.Mutex
	runtime runtime.Runtime // nil before the controllers start
	nodes   map[string]*kubelet
}

// of returns the kubelet of a node, or nil if another process has it, it is stopped, or the pods controller does not run.
func (k *kubelets) of(node *corev1.Node) core.Kubelet {
	if !k.simulates(node) || node.Annotations[pods.KubeletAnnotation] == pods.KubeletStopped {
		return nil
	}
	name := node.Name
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runtime == nil {
		return nil
	}
	if k.nodes[name] == nil {
		if k.nodes == nil {
			k.nodes = map[string]*kubelet{}
		}
		of := k.runtime
		k.nodes[name] = &kubelet{of, server.New(server.Options{Runtime: of,
			Pod: func(ctx context.Context, namespace, pod string) (*corev1.Pod, error) {
				return k.pod(ctx, name, namespace, pod)
			},
			Pods: func(r *http.Request) (*corev1.PodList, error) { return k.pods(r.Context(), name) }})}
	}
	return k.nodes[name]
}

// set sets the runtime with the containers of the nodes.
func (k *kubelets) set(r runtime.Runtime) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.runtime, k.nodes = r, nil
}

// pods returns the pods of a node.
func (k *kubelets) pods(ctx context.Context, node string) (*corev1.PodList, error) {
	list := &corev1.PodList{}
	query := url.Values{"fieldSelector": {"spec.nodeName=" + node}}
	return list, k.get(ctx, "/api/v1/pods?"+query.Encode(), list)
}

// pod returns a pod of a node, or a NotFound error.
func (k *kubelets) pod(ctx context.Context, node, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := k.get(ctx, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/pods/"+url.PathEscape(name), pod); err != nil {
		return nil, err
	}
	if pod.Spec.NodeName != node {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	return pod, nil
}

// get reads an object, or a list.
func (k *kubelets) get(ctx context.Context, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://flyball.local"+path, nil)
	if err != nil {
		return err
	}
	response, err := k.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return json.NewDecoder(response.Body).Decode(into)
	}
	status := metav1.Status{}
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return fmt.Errorf("%s: status %d", path, response.StatusCode)
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// kubelet is the kubelet of a node.
type kubelet struct {
	runtime runtime.Runtime
	*server.Server
}

var _ core.Kubelet = (*kubelet)(nil)

// refTo returns the reference to a pod.
func refTo(pod *corev1.Pod) runtime.PodRef {
	return runtime.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

func (k *kubelet) HasLog(ctx context.Context, pod *corev1.Pod, container string) (bool, error) {
	return k.runtime.HasLog(ctx, refTo(pod), container)
}

func (k *kubelet) Logs(ctx context.Context, pod *corev1.Pod, container string, o *corev1.PodLogOptions, w io.Writer) error {
	return k.runtime.Logs(ctx, refTo(pod), container, o, w)
}

func (k *kubelet) Dial(ctx context.Context, pod *corev1.Pod, port int32) (net.Conn, error) {
	return k.runtime.Dial(ctx, refTo(pod), port)
}

// connectPods completes the options of the pods controller, so that the API server reaches the containers.
func (c *ControlPlane) connectPods(o *pods.Options) {
	given := o.OnRuntime
	o.OnRuntime = func(r runtime.Runtime) {
		c.kubelets.set(r)
		if given != nil {
			given(r)
		}
	}
}
