package tour

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	tenancyv1 "flyball.dev/examples/applicationnamespace/api/v1"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
)

// world is the state that the steps share.
type world struct {
	*example.World
	c        client.WithWatch
	operator *example.Operator
}

// start starts the operator.
func (w *world) start(ctx context.Context) (err error) {
	w.operator, err = w.Start(ctx)
	return err
}

// newApp returns an ApplicationNamespace for the Namespace of that name.
func newApp(name, namespace string, policy tenancyv1.DeletionPolicy) *tenancyv1.ApplicationNamespace {
	return &tenancyv1.ApplicationNamespace{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: tenancyv1.ApplicationNamespaceSpec{
			NamespaceName:  namespace,
			Labels:         map[string]string{"team": name},
			DeletionPolicy: policy,
		},
	}
}

// get reads an ApplicationNamespace.
func (w *world) get(ctx context.Context, name string) (*tenancyv1.ApplicationNamespace, error) {
	app := &tenancyv1.ApplicationNamespace{}
	return app, w.c.Get(ctx, client.ObjectKey{Name: name}, app)
}

// readyWith waits until the condition Ready is that, for the present generation.
func (w *world) readyWith(ctx context.Context, name string, status metav1.ConditionStatus, reason string) error {
	app := &tenancyv1.ApplicationNamespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return await.Object(ctx, w.c, app, func(app *tenancyv1.ApplicationNamespace) string {
		ready := meta.FindStatusCondition(app.Status.Conditions, tenancyv1.ConditionReady)
		switch {
		case ready == nil || app.Status.ObservedGeneration != app.Generation || ready.ObservedGeneration != app.Generation:
			return name + " was not observed"
		case ready.Status != status || ready.Reason != reason:
			return fmt.Sprintf("%s: Ready is %s, %s: %s", name, ready.Status, ready.Reason, ready.Message)
		}
		return ""
	})
}

// owned waits until the Namespace has that ApplicationNamespace as its controller and these labels,
// and returns it.
func (w *world) owned(ctx context.Context, namespace, owner string, labels map[string]string) (*corev1.Namespace, error) {
	app, err := w.get(ctx, owner)
	if err != nil {
		return nil, err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	return ns, await.Object(ctx, w.c, ns, func(ns *corev1.Namespace) string {
		if !metav1.IsControlledBy(ns, app) || len(ns.OwnerReferences) != 1 {
			return fmt.Sprintf("the owners of Namespace %s are %v", namespace, ns.OwnerReferences)
		}
		for k, v := range labels {
			if ns.Labels[k] != v {
				return fmt.Sprintf("the labels of Namespace %s are %v", namespace, ns.Labels)
			}
		}
		return ""
	})
}

// patchNamespace merges a patch into a Namespace, as a user would.
func (w *world) patchNamespace(ctx context.Context, name, patch string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return w.c.Patch(ctx, ns, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("user"))
}

// event waits for an event about the ApplicationNamespace.
func (w *world) event(ctx context.Context, name, eventType, reason string) error {
	return await.Event(ctx, w.c, metav1.NamespaceDefault, func(e *corev1.Event) bool {
		return e.InvolvedObject.Name == name && e.Type == eventType && e.Reason == reason
	})
}

// kept returns an error if the Namespace is another one than before, or is being deleted.
func (w *world) kept(ctx context.Context, before *corev1.Namespace) error {
	ns := &corev1.Namespace{}
	if err := w.c.Get(ctx, client.ObjectKeyFromObject(before), ns); err != nil {
		return err
	}
	if ns.UID != before.UID || ns.DeletionTimestamp != nil {
		return errors.New("the Namespace was deleted")
	}
	return nil
}
