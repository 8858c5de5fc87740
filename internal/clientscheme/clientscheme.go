// Package clientscheme has the kinds of client-go's scheme, for parts of a process that run beside the program of a user.
//
// The scheme of client-go is a variable that programs add their kinds to, whenever they like: a test may do so after it has started a
// control plane. A scheme has no lock, so only the program itself may read that one.
package clientscheme

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// Scheme returns the scheme, which must not be changed.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	return scheme
})

// Codecs returns the codecs of the scheme.
var Codecs = sync.OnceValue(func() serializer.CodecFactory { return serializer.NewCodecFactory(Scheme()) })
