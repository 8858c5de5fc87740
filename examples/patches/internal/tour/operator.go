package tour

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	patchesv1 "flyball.dev/examples/patches/api/v1"
)

// methods are all methods.
var methods = []patchesv1.Method{patchesv1.Update, patchesv1.RetryOnConflict, patchesv1.Merge,
	patchesv1.MergeWithLock, patchesv1.StrategicMerge, patchesv1.JSON, patchesv1.Apply}

// nameOf returns the name of the Deployment and the Override of a method.
func nameOf(m patchesv1.Method) string { return "by-" + strings.ToLower(string(m)) }

// forced is the name of the Deployment and the Override of the method Apply with force.
const forced = "by-apply-force"

// overridden are the variables after an Override was written.
var overridden = map[string]string{"LEVEL": "info", "REGION": "eu"}

// names returns the names of the Overrides of all methods.
func names() []string {
	all := []string{forced}
	for _, m := range methods {
		all = append(all, nameOf(m))
	}
	return all
}

// allMethods creates a Deployment and an Override for each method.
func (w *world) allMethods(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	overrides := []*patchesv1.Override{newOverride(forced, patchesv1.Apply)}
	overrides[0].Spec.Force = true
	for _, m := range methods {
		overrides = append(overrides, newOverride(nameOf(m), m))
	}
	for _, o := range overrides {
		o.Spec.Image = "app:1" // which the user has set: there is nothing to take over yet
		if err := w.c.Create(ctx, newDeployment(o.Name), user); err != nil {
			return err
		}
		if err := w.c.Create(ctx, o); err != nil {
			return err
		}
	}
	for _, name := range names() {
		if err := w.container(ctx, name, "app:1", overridden); err != nil {
			return err
		}
		if _, err := w.ready(ctx, name, metav1.ConditionTrue, patchesv1.ReasonWritten); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) idle(ctx context.Context) error {
	if err := w.NoWrites(ctx, func() error {
		for _, name := range names() {
			if err := w.userPatch(ctx, name, `{"metadata":{"annotations":{"note":"by the user"}}}`); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return w.NoWrites(ctx, func() error {
		if err := w.operator.Stop(); err != nil {
			return err
		}
		return w.start(ctx)
	})
}

// userChanges lets the user change the image that was overridden.
func (w *world) userChanges(ctx context.Context) error {
	for _, name := range names() {
		if err := w.userPatch(ctx, name, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app:9"}]}}}}`); err != nil {
			return err
		}
	}
	refusing := nameOf(patchesv1.Apply)
	for _, name := range names() {
		if name == refusing {
			continue
		}
		if err := w.container(ctx, name, "app:1", overridden); err != nil {
			return err
		}
	}
	message, err := w.ready(ctx, refusing, metav1.ConditionFalse, patchesv1.ReasonFieldConflict)
	if err != nil {
		return err
	}
	const want = `Apply failed with 1 conflict: conflict with "user" using apps/v1: .spec.template.spec.containers[name="app"].image`
	if message != want {
		return fmt.Errorf("the condition says %q, want %q", message, want)
	}
	if err := await.Event(ctx, w.c, example.Namespace, func(e *corev1.Event) bool {
		return e.InvolvedObject.Name == refusing && e.Reason == patchesv1.ReasonFieldConflict && e.Message == want
	}); err != nil {
		return err
	}
	waiting, err := manager.WaitIdle(ctx, w.operator.Manager)
	if err == nil && len(waiting) > 0 {
		err = fmt.Errorf("it tries again: %v", waiting)
	}
	if err != nil {
		return err
	}
	return w.container(ctx, refusing, "app:9", overridden)
}

// resolve lets the user return to the value that is applied, and then change it again, after which
// force is set.
func (w *world) resolve(ctx context.Context) error {
	name := nameOf(patchesv1.Apply)
	if err := w.userPatch(ctx, name, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app:1"}]}}}}`); err != nil {
		return err
	}
	if _, err := w.ready(ctx, name, metav1.ConditionTrue, patchesv1.ReasonWritten); err != nil {
		return err
	}
	if err := w.userPatch(ctx, name, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app:9"}]}}}}`); err != nil {
		return err
	}
	if _, err := w.ready(ctx, name, metav1.ConditionFalse, patchesv1.ReasonFieldConflict); err != nil {
		return err
	}
	if err := w.change(ctx, name, func(s *patchesv1.OverrideSpec) { s.Force = true }); err != nil {
		return err
	}
	if _, err := w.ready(ctx, name, metav1.ConditionTrue, patchesv1.ReasonWritten); err != nil {
		return err
	}
	return w.container(ctx, name, "app:1", overridden)
}

func (w *world) removeVariable(ctx context.Context) error {
	for _, name := range names() {
		if err := w.change(ctx, name, func(s *patchesv1.OverrideSpec) { delete(s.Env, "REGION") }); err != nil {
			return err
		}
	}
	for _, name := range names() {
		if _, err := w.ready(ctx, name, metav1.ConditionTrue, patchesv1.ReasonWritten); err != nil {
			return err
		}
		want := overridden
		if name == forced || name == nameOf(patchesv1.Apply) {
			want = map[string]string{"LEVEL": "info"}
		}
		if err := w.container(ctx, name, "app:1", want); err != nil {
			return err
		}
	}
	return nil
}

// concurrently lets the user change an annotation of each Deployment while the Overrides change the
// image.
func (w *world) concurrently(ctx context.Context) error {
	const changes, images = 40, 5
	var group sync.WaitGroup
	failures := make([]error, 2)
	group.Go(func() {
		for i := 1; i <= changes && failures[0] == nil; i++ {
			failures[0] = w.userPatch(ctx, names()[i%len(names())], fmt.Sprintf(`{"metadata":{"annotations":{"n-%d":"%d"}}}`, i, i))
		}
	})
	group.Go(func() {
		for i := range images {
			for _, name := range names() {
				failures[1] = errors.Join(failures[1], w.change(ctx, name, func(s *patchesv1.OverrideSpec) {
					s.Image = fmt.Sprintf("app:1.%d", i)
				}))
			}
		}
	})
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	notes := 0
	for _, name := range names() {
		if _, err := w.ready(ctx, name, metav1.ConditionTrue, patchesv1.ReasonWritten); err != nil {
			return err
		}
		d, err := w.get(ctx, name)
		if err != nil {
			return err
		}
		if got := imagesOf(d); got[0] != fmt.Sprintf("app:1.%d", images-1) || got[1] != "log:1" {
			return fmt.Errorf("%s has the images %v", name, got)
		}
		for key := range d.Annotations {
			if strings.HasPrefix(key, "n-") {
				notes++
			}
		}
	}
	if notes != changes {
		return fmt.Errorf("%d of %d changes of the user are left", notes, changes)
	}
	return nil
}

// awaitDeployment creates an Override before its Deployment, and deletes the Deployment after it was
// written.
func (w *world) awaitDeployment(ctx context.Context) error {
	const name = "later"
	for _, m := range []patchesv1.Method{patchesv1.Apply, patchesv1.Update} {
		o := newOverride(name, m)
		o.Spec.Image = "app:1"
		if err := w.c.Create(ctx, o); err != nil {
			return err
		}
		if _, err := w.ready(ctx, name, metav1.ConditionFalse, patchesv1.ReasonDeploymentNotFound); err != nil {
			return err
		}
		d := newDeployment(name)
		if err := w.c.Get(ctx, client.ObjectKeyFromObject(d), &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Deployment: %v", err)
		}
		if err := w.c.Create(ctx, d, user); err != nil {
			return err
		}
		if err := w.container(ctx, name, "app:1", overridden); err != nil {
			return err
		}
		if err := w.c.Delete(ctx, d); err != nil {
			return err
		}
		if _, err := w.ready(ctx, name, metav1.ConditionFalse, patchesv1.ReasonDeploymentNotFound); err != nil {
			return err
		}
		if err := w.c.Delete(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) reject(ctx context.Context) error {
	o := newOverride("rejected", patchesv1.Merge)
	o.Spec.Force = true
	err := refused(w.c.Create(ctx, o), http.StatusUnprocessableEntity, `Override.patches.example.com "rejected" is invalid: `+
		`spec: Invalid value: force is for the method Apply only`)
	if err != nil {
		return err
	}
	err = w.change(ctx, nameOf(patchesv1.Merge), func(s *patchesv1.OverrideSpec) { s.Method = patchesv1.Apply })
	return refused(err, http.StatusUnprocessableEntity, fmt.Sprintf(`Override.patches.example.com %q is invalid: `+
		`spec.method: Invalid value: "Apply": is immutable`, nameOf(patchesv1.Merge)))
}
