package inprocess

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Observable is a transport to an API server that a client may observe without a watch of each resource.
type Observable interface {
	// Observer returns the observer for the user of the transport, or nil if the server has none.
	Observer() Observer
}

// ObserverOf returns an observer of the API server of config, or nil if there is none. There is none if config says more about
// the user than its transport does.
func ObserverOf(config *rest.Config) Observer {
	o, ok := config.Transport.(Observable)
	if !ok || config.WrapTransport != nil || config.Impersonate.UserName != "" || config.BearerToken != "" || config.BearerTokenFile != "" ||
		config.Username != "" {
		return nil
	}
	return o.Observer()
}

// Observer observes the objects in the storage of an API server. It is safe for concurrent use.
type Observer interface {
	// Stores reports whether the server stores the objects of a group version itself. An extension API server stores
	// the others.
	Stores(gv schema.GroupVersion) bool
	// Replaced returns a channel that is closed when the served resources are no longer the ones at the time of the call.
	Replaced() <-chan struct{}
	// Observe returns a stream of the changes from now on, without any resource. The context bounds the call.
	Observe(ctx context.Context) (Stream, error)
}

// Stream passes on the changes of stored objects. Each change is passed on once. The changes of all resources are in the
// order in which they were stored. Only one goroutine may use a stream at a time. The caller must close it.
//
// A stream has the permissions of its user. A user who may not list and watch a resource cannot add it, and a stream ends
// some minutes after its user has lost a permission.
type Stream interface {
	// Add calls visit for each stored object of a resource, all at one revision. Next then passes on the changes after that
	// revision. Adding a resource again lists it again. After an error the stream is without the resource.
	Add(ctx context.Context, resource schema.GroupVersionResource, visit func(*metav1.PartialObjectMetadata)) error
	// Remove ends the changes of a resource.
	Remove(resource schema.GroupResource)
	// Next calls visit for the next changes, without waiting, and reports whether there may be more. An error ends the
	// stream: the changes after the last one are lost.
	Next(ctx context.Context, visit func(Change)) (more bool, err error)
	// Ready receives a value when Next may have changes again after it reported that there were no more.
	Ready() <-chan struct{}
	// Close releases the stream.
	Close()
}

// Change is the change of a stored object.
type Change struct {
	Resource schema.GroupResource
	// Object has the identity of the object, its resource version, labels, finalizers, owner references and deletion
	// timestamp. It is valid until visit returns, must not be changed, and shares strings with the stored object.
	Object  *metav1.PartialObjectMetadata
	Deleted bool
	// Err says that the change cannot be read. The stream is without the resource then.
	Err error
}
