package core

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	streamer "k8s.io/apiserver/pkg/registry/generic/rest"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"flyball.dev/apiserver/kinds"
)

// logREST is the subresource pods/log.
//
//upstream:pkg/registry/core/pod/rest.LogREST
type logREST struct {
	pods        kinds.Stored[*corev1.Pod]
	connections *Connections
}

var (
	_ rest.GetterWithOptions = (*logREST)(nil)
	_ rest.StorageMetadata   = (*logREST)(nil)
)

func (r *logREST) New() runtime.Object               { return &corev1.Pod{} }
func (r *logREST) Destroy()                          {}
func (r *logREST) ProducesMIMETypes(string) []string { return []string{"text/plain"} }
func (r *logREST) ProducesObject(string) any         { return "" }

func (r *logREST) NewGetOptions() (_ runtime.Object, path bool, key string) {
	return &corev1.PodLogOptions{}, false, ""
}

// Get returns the log of a container, which is empty if the pod has no node. A warning says why nothing writes the log of a
// container.
//
//upstream:pkg/registry/core/pod/rest.LogREST.Get
//upstream:pkg/registry/core/pod.LogLocation
func (r *logREST) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	o, ok := options.(*corev1.PodLogOptions)
	if !ok {
		return nil, fmt.Errorf("invalid options object: %#v", options)
	}
	if errs := validateLogOptions(o); len(errs) > 0 {
		return nil, errors.NewInvalid(corev1.SchemeGroupVersion.WithKind("PodLogOptions").GroupKind(), name, errs)
	}
	pod, err := r.pods.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	container, err := containerOf(pod, o.Container)
	switch {
	case err != nil:
		return nil, err
	case pod.Spec.NodeName == "":
		return &streamer.LocationStreamer{}, nil
	}
	k, err := r.connections.kubeletOf(ctx, pod)
	if err != nil {
		return nil, err
	}
	// The errors concern the whole log: the response to a followed log begins before the first line.
	one := &corev1.PodLogOptions{Previous: o.Previous, TailLines: new(int64), LimitBytes: new(int64(1))}
	if err := k.Logs(ctx, pod, container, one, io.Discard); err != nil {
		return nil, err
	}
	if has, err := k.HasLog(ctx, pod, container); err == nil && !has {
		warning.AddWarning(ctx, "", fmt.Sprintf("nothing executes container %q of pod %q, so its log is empty: the shell of this control plane does not "+
			"know its command; docs/pods.md#logs tells how to script it", container, name))
	}
	return &logStream{kubelet: k, pod: pod, container: container, options: o}, nil
}

// logStream is the log of a container, as the response of a request.
type logStream struct {
	streamer.LocationStreamer // an object without a kind
	kubelet                   Kubelet
	pod                       *corev1.Pod
	container                 string
	options                   *corev1.PodLogOptions
}

var _ rest.ResourceStreamer = (*logStream)(nil)

// InputStream returns the log. A goroutine writes it until the log ends, the stream is closed or ctx ends.
func (s *logStream) InputStream(ctx context.Context, _, _ string) (stream io.ReadCloser, flush bool, mimeType string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	reader, writer := io.Pipe()
	go func() {
		defer cancel()
		_ = writer.CloseWithError(s.kubelet.Logs(ctx, s.pod, s.container, s.options, writer))
	}()
	stop := context.AfterFunc(ctx, func() { _ = reader.CloseWithError(context.Cause(ctx)) })
	return &logReader{reader, func() { stop(); cancel() }}, s.options.Follow, "text/plain", nil
}

// logReader is a log. Closing it ends the goroutine that writes it.
type logReader struct {
	*io.PipeReader
	end func()
}

func (r *logReader) Close() error {
	r.end()
	return r.PipeReader.Close()
}

// validateLogOptions checks the options of a log, with the feature gate PodLogsQuerySplitStreams off.
//
//upstream:pkg/apis/core/validation.ValidatePodLogOptions
func validateLogOptions(o *corev1.PodLogOptions) (errs field.ErrorList) {
	if n := o.TailLines; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *n, "must be greater than or equal to 0"))
	}
	if n := o.LimitBytes; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *n, "must be greater than 0"))
	}
	switch n := o.SinceSeconds; {
	case n != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case n != nil && *n < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *n, "must be greater than 0"))
	}
	if o.Stream != nil {
		errs = append(errs, field.Forbidden(field.NewPath("stream"), "may not be specified"))
	}
	return errs
}
