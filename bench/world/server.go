package world

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/bench/runtimes"
	"flyball.dev/controlplane"
)

// Server is an API server with a namespace of its own for everything that is
// measured on it.
type Server struct {
	// Kubeconfig reaches it over HTTPS.
	Kubeconfig []byte
	// Namespace holds everything.
	Namespace string

	config    *rest.Config
	client    *kubernetes.Clientset
	inProcess *kubernetes.Clientset
	stop      func() error
	pods      int // how many there are
}

// StartServer starts a control plane in this process, without controllers,
// behind HTTPS on loopback.
func StartServer(ctx context.Context) (*Server, error) {
	plane, err := controlplane.Start(ctx, controlplane.Options{Listen: "127.0.0.1:0", WithoutControllers: true})
	if err != nil {
		return nil, err
	}
	s, err := NewServer(ctx, plane.Kubeconfig())
	if err != nil {
		plane.Stop()
		return nil, err
	}
	s.stop = plane.Stop
	s.inProcess, err = clientFor(plane.Config())
	return s, err
}

// NewServer uses the server that a kubeconfig names.
func NewServer(ctx context.Context, kubeconfig []byte) (*Server, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.QPS = -1
	s := &Server{Kubeconfig: kubeconfig, config: config, stop: func() error { return nil }}
	if s.client, err = clientFor(config); err != nil {
		return nil, err
	}
	ns, err := s.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "flyball-bench-"}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot make a namespace: %w", err)
	}
	s.Namespace = ns.Name
	return s, nil
}

func clientFor(config *rest.Config) (*kubernetes.Clientset, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	return kubernetes.NewForConfig(config)
}

// Close deletes the namespace, and stops the server if StartServer started it.
func (s *Server) Close() error {
	err := s.client.CoreV1().Namespaces().Delete(context.Background(), s.Namespace, metav1.DeleteOptions{})
	if stopErr := s.stop(); err == nil {
		err = stopErr
	}
	return err
}

// HTTPS is how a runtime reaches the server. On somebody else's server it sees
// the namespace alone.
func (s *Server) HTTPS() runtimes.Server {
	server := runtimes.Server{Config: s.config, Scheme: Scheme}
	if s.inProcess == nil {
		server.Namespace = s.Namespace
	}
	return server
}

// Client is an ordinary client over HTTPS, for what the runtimes do not do.
func (s *Server) Client() *kubernetes.Clientset { return s.client }

// InProcess is a client without a socket, or nil if the server is another
// process.
func (s *Server) InProcess() *kubernetes.Clientset { return s.inProcess }

// Parallel calls f with every number below n, on 8 goroutines at once, and
// returns the first error.
func Parallel(ctx context.Context, n int, f func(ctx context.Context, n int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var hands sync.WaitGroup
	for range 8 {
		hands.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	hands.Wait()
	return context.Cause(ctx)
}

// NeedPods makes sure that there are the first n pods, which no scheduler and no
// controller takes care of.
func (s *Server) NeedPods(ctx context.Context, n int) error {
	err := Parallel(ctx, n-s.pods, func(ctx context.Context, i int) error { return s.CreatePod(ctx, s.client, s.pods+i) })
	if err == nil {
		s.pods = max(s.pods, n)
	}
	return err
}

// CreatePod creates the nth pod through a client.
func (s *Server) CreatePod(ctx context.Context, client kubernetes.Interface, n int) error {
	pod := Pod(n)
	pod.Namespace = s.Namespace
	pod.UID, pod.ManagedFields, pod.OwnerReferences, pod.Status = "", nil, nil, corev1.PodStatus{}
	pod.Spec.NodeName, pod.Spec.SchedulerName = "", "nobody"
	_, err := client.CoreV1().Pods(s.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// Clear deletes everything in the namespace that was created by this package or
// its users.
func (s *Server) Clear(ctx context.Context) error {
	s.pods = 0
	core := s.client.CoreV1()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	return errors.Join(
		core.Pods(s.Namespace).DeleteCollection(ctx, now, metav1.ListOptions{}),
		core.ConfigMaps(s.Namespace).DeleteCollection(ctx, now, metav1.ListOptions{}),
		core.Secrets(s.Namespace).DeleteCollection(ctx, now, metav1.ListOptions{}),
	)
}
