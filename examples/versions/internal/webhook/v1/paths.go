package v1

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/ctrl/webhook/admission"
	netv1 "flyball.dev/examples/versions/api/v1"
	"flyball.dev/examples/versions/api/v1alpha1"
	"flyball.dev/examples/versions/api/v1beta1"
)

// paths are where the fields of a Proxy are in one version.
type paths struct{ host, port, maxConnections, balancing, retries *field.Path }

// pathsOf returns the paths in the version of a request, so that users find the fields of an error
// in what they have written. The objects of the request are converted, and do not say.
func pathsOf(ctx context.Context) paths {
	version := netv1.GroupVersion.Version
	if request, err := admission.RequestFromContext(ctx); err == nil && request.RequestKind != nil {
		version = request.RequestKind.Version
	}
	return pathsIn(version)
}

// pathsIn returns the paths in a version.
func pathsIn(version string) paths {
	spec := field.NewPath("spec")
	p := paths{
		host:           spec.Child("host"),
		port:           spec.Child("port"),
		maxConnections: spec.Child("maxConnections"),
		balancing:      spec.Child("balancing"),
		retries:        spec.Child("retries"),
	}
	switch version {
	case v1alpha1.GroupVersion.Version:
		p.host, p.port = spec.Child("target"), spec.Child("target")
		fallthrough
	case v1beta1.GroupVersion.Version:
		p.maxConnections = spec.Child("connections")
		p.retries = field.NewPath("metadata", "annotations").Key(netv1.RetriesAnnotation)
	}
	return p
}
