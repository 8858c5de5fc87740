package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// staleConflict is how long an old conflict of names may remain after a change, before it counts as a conflict of the
// new names. API servers write the status some time after the definition.
const staleConflict = 2 * time.Second

// WaitEstablished waits until a definition is served, or ctx ends. If another definition has its names, WaitEstablished
// fails immediately. formerConflict is the message of a conflict of names from before the change, if any: the status
// may not be up to date yet.
func WaitEstablished(ctx context.Context, definitions dynamic.ResourceInterface, name, formerConflict string) error {
	wait := func(ctx context.Context, former string) error {
		return waitFor(ctx, definitions, name, func(e watch.Event) (bool, error) {
			if e.Type == watch.Deleted {
				return false, errors.New("it was deleted")
			}
			if conflict := namesConflict(e.Object); conflict != "" && conflict != former {
				return false, errors.New(conflict)
			}
			return condition(e.Object, "Established", "True") != nil && namesConflict(e.Object) == "", nil
		})
	}
	if formerConflict != "" {
		short, cancel := context.WithTimeout(ctx, staleConflict)
		defer cancel()
		if err := wait(short, formerConflict); err == nil || short.Err() == nil {
			return err
		}
	}
	return wait(ctx, "")
}

// namesConflict returns the reason why the names of a definition are not accepted, or "".
func namesConflict(definition runtime.Object) string {
	c := condition(definition, "NamesAccepted", "False")
	if c == nil {
		return ""
	}
	if message, _ := c["message"].(string); message != "" {
		return message
	}
	return "its names are not accepted"
}

// condition returns the condition of an object with a type and a status, or nil.
func condition(object runtime.Object, kind, status string) map[string]any {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind && c["status"] == status {
			return c
		}
	}
	return nil
}

// waitFor waits until done returns true or an error for an event of an object, or ctx ends. The first event has the
// current state of the object. If the object does not exist, the error is NotFound.
func waitFor(ctx context.Context, objects dynamic.ResourceInterface, name string, done func(watch.Event) (bool, error)) error {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	for {
		list, err := objects.List(ctx, options)
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return apierrors.NewNotFound(schema.GroupResource{}, name)
		}
		if ok, err := done(watch.Event{Type: watch.Added, Object: &list.Items[0]}); ok || err != nil {
			return err
		}
		following := options // without a gap, in which the object could be deleted
		following.ResourceVersion = list.GetResourceVersion()
		w, err := objects.Watch(ctx, following)
		if err != nil {
			return err
		}
		ok, err := func() (bool, error) {
			defer w.Stop()
			for e := range w.ResultChan() {
				if ok, err := done(e); ok || err != nil {
					return ok, err
				}
			}
			return false, nil
		}()
		if ok || err != nil {
			return err
		}
		select { // the server has ended the watch
		case <-ctx.Done():
			return fmt.Errorf("it takes too long: %w", context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
