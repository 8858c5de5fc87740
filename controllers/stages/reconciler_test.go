package stages

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/yaml"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/controller"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/ctrl/source"
)

// stored has a stage of ConfigMaps, and a ConfigMap.
type stored struct {
	client.Reader
	err error // of a list of ConfigMaps
}

func (s *stored) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	text := "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}"
	if into.GetObjectKind().GroupVersionKind().Kind == "StageList" {
		text = "{metadata: {name: s}, spec: {resourceRef: {apiGroup: v1, kind: ConfigMap}, selector: {matchLabels: {a: b}}, next: {delete: true}}}"
	} else if s.err != nil {
		return s.err
	}
	list := into.(*unstructured.UnstructuredList)
	list.Items = []unstructured.Unstructured{{}}
	return yaml.Unmarshal([]byte(text), &list.Items[0].Object)
}

func (s *stored) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, "")
}

// watching is a controller that counts its watches.
type watching struct {
	controller.TypedController[jobKey]
	err     error
	watches int
}

func (w *watching) Watch(source.TypedSource[jobKey]) error {
	w.watches++
	return w.err
}

// TestFailuresOfStages: a watch that has failed is tried again, and the objects of a kind with changed stages are enqueued
// although the first attempts have failed.
func TestFailuresOfStages(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[jobKey]())
	defer queue.ShutDown()
	reader, watches := &stored{}, &watching{}
	p := &player{library: newLibrary(), jobs: map[jobKey]*job{}}
	p.catalog = &catalog{library: p.library, reader: reader, mapper: meta.ToRESTMapperWithContext(mapper), failed: map[string]*failure{}}
	r := &reconciler{player: p, others: &others{player: p, reader: reader, controller: watches, queue: queue, watched: map[schema.GroupVersionKind]bool{}}}
	failed := errors.New("failed")
	for _, tt := range []struct {
		when           string
		watch, list    error
		want           error
		watches, queue int
	}{
		{"a watch fails", failed, nil, failed, 1, 0},
		{"a list fails", nil, failed, failed, 2, 0},
		{"all is well", nil, nil, nil, 2, 1},
		{"nothing has changed", nil, failed, nil, 2, 1},
	} {
		watches.err, reader.err = tt.watch, tt.list
		_, err := r.Reconcile(t.Context(), reconcile.Request{})
		if !errors.Is(err, tt.want) || watches.watches != tt.watches || queue.Len() != tt.queue {
			t.Errorf("%s: %v, %d watches, %d objects in the queue", tt.when, err, watches.watches, queue.Len())
		}
	}
}
