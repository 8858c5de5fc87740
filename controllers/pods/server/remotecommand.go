package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	constants "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/klog/v2"

	"flyball.dev/controllers/pods/runtime"
)

// exec executes a command.
//
//upstream:pkg/kubelet/server.Server.getExec
//upstream:k8s.io/cri-streaming/pkg/streaming/remotecommand.ServeExec
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	s.connect(w, r, func(ctx context.Context, streams runtime.Streams) *metav1.Status {
		code, err := s.o.Runtime.Exec(ctx, podOf(r), r.PathValue("container"), r.URL.Query()["command"], streams)
		switch {
		case err != nil:
			return internalError(fmt.Errorf("error executing command in container: %w", err))
		case code != 0:
			return &metav1.Status{
				Status: metav1.StatusFailure, Reason: constants.NonZeroExitCodeReason,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: constants.ExitCodeCauseType, Message: strconv.Itoa(code)}}},
				Message: fmt.Sprintf("command terminated with non-zero exit code: exit status %d", code),
			}
		}
		return &metav1.Status{Status: metav1.StatusSuccess}
	})
}

// attach connects a client to the main process of a container.
//
//upstream:pkg/kubelet/server.Server.getAttach
//upstream:k8s.io/cri-streaming/pkg/streaming/remotecommand.ServeAttach
func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	s.connect(w, r, func(ctx context.Context, streams runtime.Streams) *metav1.Status {
		if err := s.o.Runtime.Attach(ctx, podOf(r), r.PathValue("container"), streams); err != nil {
			return internalError(fmt.Errorf("error attaching to container: %w", err))
		}
		return &metav1.Status{Status: metav1.StatusSuccess}
	})
}

// connect calls a function with the streams of a client. The context ends when the client goes.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, call func(context.Context, runtime.Streams) *metav1.Status) {
	o, err := streamOptionsOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	session, ok := open(w, r, o)
	if !ok {
		return
	}
	defer session.end()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-session.u.gone:
			cancel()
		case <-r.Context().Done():
			session.u.close() // a write to a client that does not read must end
		case <-stop:
		}
	}()
	status := call(ctx, session.Streams)
	if status.Status == metav1.StatusFailure && status.Reason == metav1.StatusReasonInternalError {
		klog.FromContext(r.Context()).V(2).Info("A stream failed", "path", r.URL.Path, "err", status.Message)
	}
	session.status(status)
	if ctx.Err() == nil {
		session.u.finish()
	}
}

// internalError returns the status of an error.
//
//upstream:k8s.io/cri-streaming/pkg/streaming/remotecommand.newInternalError
func internalError(err error) *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: err.Error()}}},
		Message: fmt.Sprintf("Internal error occurred: %v", err),
	}
}
