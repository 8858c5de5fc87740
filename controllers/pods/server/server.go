// Package server is the HTTP server of kubelet's stand-in: a handler with kubelet's paths, for the containers of a
// [runtime.Runtime]. The API server calls it in the process, and a client reaches it by the proxy of a node.
//
// Commands, attached processes and forwarded ports are served over SPDY and over WebSockets, in all versions of the
// protocols that clients of Kubernetes have. When a client goes, its command ends; an attached process goes on.
//
// Concurrency: a request needs some goroutines of its own. They end before ServeHTTP returns, or with the connection, which
// ServeHTTP closes.
//
// The package speaks SPDY and WebSockets itself, on k8s.io/streaming: the servers of k8s.io/cri-streaming leave
// goroutines behind when a client creates streams that nobody expects, and do not tell a command that its client has
// gone.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/runtime"
)

// idleTimeout is how long a connection may be idle, as in kubelet.
//
//upstream:pkg/kubelet/apis/config/v1beta1.SetDefaults_KubeletConfiguration
const idleTimeout = 4 * time.Hour

// creationTimeout is how long a client may take to create its streams.
const creationTimeout = 30 * time.Second

// Options are the parts that a server uses.
type Options struct {
	// Runtime has the containers of all nodes.
	Runtime runtime.Runtime
	// Pod returns a pod of the node, or a NotFound error.
	Pod func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// Pods returns the pods of the node, for the path /pods.
	Pods func(r *http.Request) (*corev1.PodList, error)
}

// Server is a handler with the paths of a kubelet.
type Server struct {
	o   Options
	mux *http.ServeMux
}

// New returns a server.
//
//upstream:pkg/kubelet/server.Server.InstallAuthNotRequiredHandlers
//upstream:pkg/kubelet/server.Server.InstallAuthRequiredHandlers
func New(o Options) *Server {
	s := &Server{o: o, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET /healthz", healthy)
	s.mux.HandleFunc("GET /healthz/ping", healthy)
	s.mux.HandleFunc("GET /healthz/log", healthy)
	s.mux.HandleFunc("GET /healthz/syncloop", healthy)
	s.mux.HandleFunc("GET /pods", s.listPods)
	s.mux.HandleFunc("GET /pods/{$}", s.listPods)
	s.mux.HandleFunc("GET /runningpods/{$}", s.listPods)
	s.mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.containerLogs)
	s.mux.HandleFunc("POST /run/{namespace}/{pod}/{container}", s.ofNode(s.run))
	s.mux.HandleFunc("POST /run/{namespace}/{pod}/{uid}/{container}", s.ofNode(s.run))
	for _, method := range []string{"GET ", "POST "} {
		s.mux.HandleFunc(method+"/exec/{namespace}/{pod}/{container}", s.ofNode(s.exec))
		s.mux.HandleFunc(method+"/exec/{namespace}/{pod}/{uid}/{container}", s.ofNode(s.exec))
		s.mux.HandleFunc(method+"/attach/{namespace}/{pod}/{container}", s.ofNode(s.attach))
		s.mux.HandleFunc(method+"/attach/{namespace}/{pod}/{uid}/{container}", s.ofNode(s.attach))
		s.mux.HandleFunc(method+"/portForward/{namespace}/{pod}", s.ofNode(s.portForward))
		s.mux.HandleFunc(method+"/portForward/{namespace}/{pod}/{uid}", s.ofNode(s.portForward))
	}
	return s
}

// ofNode returns a handler that knows the pods of the node alone. A user may have the rights for the proxy of one node.
func (s *Server) ofNode(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch _, err := s.o.Pod(r.Context(), r.PathValue("namespace"), r.PathValue("pod")); {
		case apierrors.IsNotFound(err):
			http.Error(w, "pod does not exist", http.StatusNotFound)
		case err != nil:
			fail(w, err)
		default:
			next(w, r)
		}
	}
}

// ServeHTTP serves a request with a path of kubelet.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func healthy(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// podOf returns the pod that a path names.
func podOf(r *http.Request) runtime.PodRef {
	return runtime.PodRef{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod"), UID: types.UID(r.PathValue("uid"))}
}

// fail answers with an error as text, as kubelet does.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if s := apierrors.APIStatus(nil); errors.As(err, &s) && s.Status().Code != 0 {
		code = int(s.Status().Code)
	}
	http.Error(w, err.Error(), code)
}

// listPods answers with the pods of the node.
func (s *Server) listPods(w http.ResponseWriter, r *http.Request) {
	list := &corev1.PodList{}
	if s.o.Pods != nil {
		var err error
		if list, err = s.o.Pods(r); err != nil {
			fail(w, err)
			return
		}
	}
	list.TypeMeta = metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// run executes a command, and answers with its output.
//
//upstream:pkg/kubelet/server.Server.getRun
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	var out limitedBuffer
	command := strings.Split(r.FormValue("cmd"), " ")
	code, err := s.o.Runtime.Exec(r.Context(), podOf(r), r.PathValue("container"), command, runtime.Streams{Stdout: &out, Stderr: &out})
	switch {
	case err != nil:
		fail(w, err)
	case code != 0:
		http.Error(w, fmt.Sprintf("command '%s' exited with %d: %s", strings.Join(command, " "), code, out.text()), http.StatusInternalServerError)
	default:
		_, _ = io.WriteString(w, out.text())
	}
}

// containerLogs answers with the log of a container.
//
//upstream:pkg/kubelet/server.Server.getContainerLogs
func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	o, err := logOptions(r)
	if err != nil {
		http.Error(w, `{"message": "Unable to decode query."}`, http.StatusBadRequest)
		return
	}
	container := r.PathValue("container")
	pod, err := s.o.Pod(r.Context(), r.PathValue("namespace"), r.PathValue("pod"))
	switch {
	case apierrors.IsNotFound(err):
		http.Error(w, fmt.Sprintf("pod %q does not exist", r.PathValue("pod")), http.StatusNotFound)
		return
	case err != nil:
		fail(w, err)
		return
	case podstate.Container(&pod.Spec, container) == nil:
		http.Error(w, fmt.Sprintf("container %q not found in pod %q", container, pod.Name), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	out := &flushed{w: w, flush: http.NewResponseController(w)}
	if err := s.o.Runtime.Logs(r.Context(), podOf(r), container, o, out); err != nil && !out.written {
		fail(w, err)
	}
}

// logOptions returns the options in a query.
func logOptions(r *http.Request) (*corev1.PodLogOptions, error) {
	q := r.URL.Query()
	o := &corev1.PodLogOptions{}
	for name, to := range map[string]*bool{"follow": &o.Follow, "previous": &o.Previous, "timestamps": &o.Timestamps} {
		if value := q.Get(name); value != "" {
			is, err := strconv.ParseBool(value)
			if err != nil {
				return nil, err
			}
			*to = is
		}
	}
	if tail := q.Get("tail"); tail != "" && tail != "all" {
		q.Set("tailLines", tail)
	}
	for name, to := range map[string]**int64{"sinceSeconds": &o.SinceSeconds, "tailLines": &o.TailLines, "limitBytes": &o.LimitBytes} {
		if value := q.Get(name); value != "" {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("%s=%q is not a number", name, value)
			}
			*to = &n
		}
	}
	if value := q.Get("sinceTime"); value != "" {
		t, err := time.Parse(time.RFC3339, value)
		if err != nil {
			return nil, err
		}
		o.SinceTime = &metav1.Time{Time: t}
	}
	return o, nil
}

// flushed is a response that is sent with each write.
type flushed struct {
	w       io.Writer
	flush   *http.ResponseController
	written bool
}

func (f *flushed) Write(p []byte) (int, error) {
	f.written = true
	n, err := f.w.Write(p)
	if err == nil {
		_ = f.flush.Flush() // fails if the transport buffers the response
	}
	return n, err
}
