// Package scheme registers a package's API types with a [runtime.Scheme].
//
// An API package declares its group and version once and lists its types:
//
//	var (
//		GroupVersion  = schema.GroupVersion{Group: "example.com", Version: "v1"}
//		SchemeBuilder = &scheme.Builder{GroupVersion: GroupVersion}
//		AddToScheme   = SchemeBuilder.AddToScheme
//	)
//
//	func init() { SchemeBuilder.Register(&AppService{}, &AppServiceList{}) }
//
// and a program creates the scheme that it needs:
//
//	s := runtime.NewScheme()
//	err := errors.Join(clientgoscheme.AddToScheme(s), examplev1.AddToScheme(s))
package scheme

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Builder collects the types of one group and version. It is filled during
// package initialization and is not safe for concurrent use while Register is
// called.
type Builder struct {
	GroupVersion schema.GroupVersion
	runtime.SchemeBuilder
}

// Register adds types under the builder's group and version, and returns the
// builder.
func (bld *Builder) Register(object ...runtime.Object) *Builder {
	bld.SchemeBuilder.Register(func(s *runtime.Scheme) error {
		s.AddKnownTypes(bld.GroupVersion, object...)
		metav1.AddToGroupVersion(s, bld.GroupVersion)
		return nil
	})
	return bld
}

// RegisterAll adds everything that b has registered so far, each under b's
// group and version, and returns the builder.
func (bld *Builder) RegisterAll(b *Builder) *Builder {
	bld.SchemeBuilder = append(bld.SchemeBuilder, b.SchemeBuilder...)
	return bld
}

// AddToScheme adds all registered types to s.
func (bld *Builder) AddToScheme(s *runtime.Scheme) error {
	return bld.SchemeBuilder.AddToScheme(s)
}

// Build returns a new scheme that holds the registered types.
func (bld *Builder) Build() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, bld.AddToScheme(s)
}
