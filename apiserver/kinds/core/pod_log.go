package core

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	streamer "k8s.io/apiserver/pkg/registry/generic/rest"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/kinds"
)

// logREST is the subresource pods/log.
//
//upstream:pkg/registry/core/pod/rest.LogREST
type logREST struct{ pods kinds.Stored[*corev1.Pod] }

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

// Get returns an empty log if the pod has no node. Otherwise it returns an error, since no container runs.
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
	if err == nil {
		err = hasContainer(pod, o.Container)
	}
	switch {
	case err != nil:
		return nil, err
	case pod.Spec.NodeName == "":
		return &streamer.LocationStreamer{}, nil
	}
	return nil, errNoContainer("pods", name, "has no log")
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
