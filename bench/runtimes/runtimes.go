// Package runtimes is the API that the benchmarks use of a controller runtime.
//
// Its two implementations are the same source text with different imports, since both runtimes have
// the same API: every benchmark makes the same calls on both sides.
package runtimes

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Types for which each runtime has a name of its own.
type (
	// Key is a client.ObjectKey.
	Key = types.NamespacedName
	// Object is a client.Object.
	Object interface {
		metav1.Object
		runtime.Object
	}
	// ObjectList is a client.ObjectList.
	ObjectList interface {
		metav1.ListInterface
		runtime.Object
	}
)

// Runtime is a controller runtime.
type Runtime interface {
	Name() string
	// NewQueue returns a queue, which has metrics if it has a name.
	NewQueue(name string, limiter workqueue.TypedRateLimiter[Key]) Queue
	NewCache(Server) (Cache, error)
	NewManager(Server) (Manager, error)
	// NewWebhooks returns what a webhook server serves: a validator of pods at ValidatePath and a
	// defaulter that sets their hostname at DefaultPath.
	NewWebhooks(scheme *runtime.Scheme, hostname string) http.Handler
	// NewFake returns a fake client with these objects. It returns managed fields. The status of the
	// kinds of withStatus is a subresource.
	NewFake(scheme *runtime.Scheme, objects, withStatus []Object) Fake
}

// Fake is a client of package fake.
type Fake interface {
	Reader
	Create(context.Context, Object) error
	Update(context.Context, Object) error
	UpdateStatus(context.Context, Object) error
	UpdateScale(ctx context.Context, obj, scale Object) error
	Patch(ctx context.Context, obj Object, t types.PatchType, patch []byte, owner string) error
	PatchStatus(ctx context.Context, obj Object, t types.PatchType, patch []byte) error
	Apply(ctx context.Context, obj *unstructured.Unstructured, owner string, force bool) error
	Delete(context.Context, Object) error
	DeleteAllOf(ctx context.Context, obj Object, s Selection) error
}

// The paths of webhooks.
const (
	ValidatePath = "/validate"
	DefaultPath  = "/default"
)

// Server is the API server that a runtime connects to.
type Server struct {
	Config *rest.Config
	Scheme *runtime.Scheme
	// Mapper maps kinds to resources. If nil, discovery does.
	Mapper meta.RESTMapper
	// Namespace restricts the runtime to one, if it is not empty.
	Namespace string
}

// Queue is a priorityqueue.PriorityQueue.
type Queue interface {
	workqueue.TypedRateLimitingInterface[Key]
	AddWithPriority(Key, int)
}

// Reader reads from a cache.
type Reader interface {
	Get(ctx context.Context, key Key, out Object) error
	List(ctx context.Context, out ObjectList, s Selection) error
}

// Selection selects the objects to list. The zero Selection selects all.
type Selection struct {
	Namespace string
	Labels    labels.Selector
	Fields    fields.Selector
	// Shared asks for the cache's own objects instead of copies.
	Shared bool
}

// Cache is a cache.Cache.
type Cache interface {
	Reader
	// Watch creates the informer of a kind without waiting for it.
	Watch(ctx context.Context, obj Object) error
	// Handle is Watch with a handler for the events.
	Handle(ctx context.Context, obj Object, handler toolscache.ResourceEventHandler) error
	Index(ctx context.Context, obj Object, field string, values func(Object) []string) error
	Start(ctx context.Context) error
	WaitForSync(ctx context.Context) bool
}

// Manager is a manager.Manager.
type Manager interface {
	// Reader reads from the manager's cache.
	Reader
	Update(ctx context.Context, obj Object) error
	UpdateStatus(ctx context.Context, obj Object) error
	// Add adds a controller.
	Add(Controller) error
	Start(ctx context.Context) error
}

// Controller is a controller as a builder makes it.
type Controller struct {
	Name string
	For  Object
	Owns []Object
	// Workers is how many requests are reconciled at once.
	Workers int
	// Updated reports whether an object that was updated is to be reconciled.
	// Nil means always.
	Updated   func(Object) bool
	Reconcile func(ctx context.Context, key Key) error
}
