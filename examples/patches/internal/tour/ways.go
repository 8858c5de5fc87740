package tour

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	patchesv1 "flyball.dev/examples/patches/api/v1"
	"flyball.dev/examples/patches/internal/write"
)

// refused returns an error if err is not an answer of the API with that code and message.
func refused(err error, code int32, message string) error {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Code != code || status.Status().Message != message {
		return fmt.Errorf("the API server returned %v, want %d: %s", err, code, message)
	}
	return nil
}

// staleMessage is the answer to a write that has an old resource version.
func staleMessage(name string) string {
	return fmt.Sprintf("Operation cannot be fulfilled on deployments.apps %q: the object has been modified; "+
		"please apply your changes to the latest version and try again", name)
}

func (w *world) updateStale(ctx context.Context) error {
	const name = "update"
	copied, err := w.stale(ctx, name)
	if err != nil {
		return err
	}
	err = write.Update(ctx, w.c, copied, wanted)
	if err := refused(err, http.StatusConflict, staleMessage(name)); err != nil {
		return err
	}
	return w.has(ctx, name, "kept", "app:1", "log:2")
}

func (w *world) retry(ctx context.Context) error {
	const name = "retry"
	copied, err := w.stale(ctx, name)
	if err != nil {
		return err
	}
	if err := write.UpdateWithRetry(ctx, w.c, w.c, copied, wanted); err != nil {
		return err
	}
	return w.has(ctx, name, "kept", "app:2", "log:2")
}

// mergeStale loses the change of the user's in the list. Nobody is told.
func (w *world) mergeStale(ctx context.Context) error {
	const name = "merge"
	copied, err := w.stale(ctx, name)
	if err != nil {
		return err
	}
	if err := write.Merge(ctx, w.c, copied, wanted); err != nil {
		return err
	}
	return w.has(ctx, name, "kept", "app:2", "log:1")
}

func (w *world) mergeLocked(ctx context.Context) error {
	const name = "merge-with-lock"
	copied, err := w.stale(ctx, name)
	if err != nil {
		return err
	}
	err = write.MergeWithLock(ctx, w.c, copied, wanted)
	if err := refused(err, http.StatusConflict, staleMessage(name)); err != nil {
		return err
	}
	return w.has(ctx, name, "kept", "app:1", "log:2")
}

func (w *world) strategicMergeStale(ctx context.Context) error {
	const name = "strategic-merge"
	copied, err := w.stale(ctx, name)
	if err != nil {
		return err
	}
	if err := write.StrategicMerge(ctx, w.c, copied, wanted); err != nil {
		return err
	}
	return w.has(ctx, name, "kept", "app:2", "log:2")
}

func (w *world) strategicMergeCustom(ctx context.Context) error {
	o := newOverride("custom", patchesv1.Merge)
	if err := w.c.Create(ctx, o); err != nil {
		return err
	}
	before := o.DeepCopy()
	o.Spec.Image = "app:3"
	err := w.c.Patch(ctx, o, client.StrategicMergeFrom(before))
	if err := refused(err, http.StatusUnsupportedMediaType, "the body of the request was in an unknown format - "+
		"accepted media types include: application/json-patch+json, application/merge-patch+json, "+
		"application/apply-patch+yaml"); err != nil {
		return err
	}
	return w.c.Delete(ctx, o)
}

// moved creates a Deployment and returns a copy that is stale: the user has since put another
// container before the first.
func (w *world) moved(ctx context.Context, name string) (*appsv1.Deployment, error) {
	copied, err := w.stale(ctx, name)
	if err != nil {
		return nil, err
	}
	patch := `[{"op":"add","path":"/spec/template/spec/containers/0","value":{"name":"proxy","image":"proxy:1"}}]`
	return copied, w.c.Patch(ctx, copied.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(patch)), user)
}

func (w *world) jsonStale(ctx context.Context) error {
	const name = "json"
	copied, err := w.moved(ctx, name)
	if err != nil {
		return err
	}
	err = write.JSON(ctx, w.c, copied, wanted)
	if err := refused(err, http.StatusUnprocessableEntity,
		"the server rejected our request due to an error in our request"); err != nil {
		return err
	}
	if err := w.has(ctx, name, "kept", "proxy:1", "app:1", "log:2"); err != nil {
		return err
	}
	current, err := w.get(ctx, name)
	if err != nil {
		return err
	}
	if err := write.JSON(ctx, w.c, current, wanted); err != nil {
		return err
	}
	return w.has(ctx, name, "kept", "proxy:1", "app:2", "log:2")
}

func (w *world) jsonWithoutTest(ctx context.Context) error {
	const name = "json-without-test"
	copied, err := w.moved(ctx, name)
	if err != nil {
		return err
	}
	patch := `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"app:2"}]`
	if err := w.c.Patch(ctx, copied, client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		return err
	}
	return w.has(ctx, name, "kept", "app:2", "app:1", "log:2")
}

// ownedFields returns the managed fields of our manager, or "".
func ownedFields(d *appsv1.Deployment, operation metav1.ManagedFieldsOperationType) string {
	i := slices.IndexFunc(d.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == string(write.Manager) && f.Operation == operation
	})
	if i < 0 {
		return ""
	}
	return d.ManagedFields[i].FieldsV1.GetRawString()
}

// applied is the Deployment of the steps about server-side apply.
const applied = "apply"

// apply adds a container to a Deployment of the user's by server-side apply.
func (w *world) apply(ctx context.Context) error {
	copied, err := w.stale(ctx, applied)
	if err != nil {
		return err
	}
	added := write.Container{Name: "metrics", Image: "metrics:1", Env: map[string]string{"PORT": "9090"}}
	if err := write.Apply(ctx, w.c, client.ObjectKeyFromObject(copied), added, false); err != nil {
		return err
	}
	d, err := w.get(ctx, applied)
	if err != nil {
		return err
	}
	const want = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"metrics\"}":{".":{},` +
		`"f:env":{"k:{\"name\":\"PORT\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{}}}}}}}`
	if got := ownedFields(d, metav1.ManagedFieldsOperationApply); got != want {
		return fmt.Errorf("the managed fields are %s", got)
	}
	return w.has(ctx, applied, "kept", "app:1", "log:2", "metrics:1")
}

// applyConflict applies fields that the user has set: to other values, to the same, and to others by
// force.
func (w *world) applyConflict(ctx context.Context) error {
	d, err := w.get(ctx, applied)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(d)
	err = write.Apply(ctx, w.c, key, write.Container{Name: "app", Image: "app:2", Env: map[string]string{"LEVEL": "debug"}}, false)
	if err := refused(err, http.StatusConflict, `Apply failed with 2 conflicts: conflicts with "user" using apps/v1:`+"\n"+
		`- .spec.template.spec.containers[name="app"].image`+"\n"+
		`- .spec.template.spec.containers[name="app"].env[name="LEVEL"].value`); err != nil {
		return err
	}
	if !write.IsFieldConflict(err) || write.IsFieldConflict(apierrors.NewConflict(patchesv1.GroupVersion.WithResource("overrides").GroupResource(), "a", nil)) {
		return errors.New("conflicts of fields and of versions are not distinguished")
	}
	same := write.Container{Name: "app", Image: "app:1", Env: map[string]string{"LEVEL": "info"}}
	if err := write.Apply(ctx, w.c, key, same, false); err != nil {
		return fmt.Errorf("the same values: %w", err)
	}
	if err := w.has(ctx, applied, "kept", "app:1", "log:2"); err != nil {
		return fmt.Errorf("the container that is not applied any more: %w", err)
	}
	forced := write.Container{Name: "log", Image: "log:3"}
	if err := write.Apply(ctx, w.c, key, forced, true); err != nil {
		return err
	}
	return w.has(ctx, applied, "kept", "app:1", "log:3")
}

// giveUpForced gives up the image that was taken over by force. It has no other owner any more, so it
// would be removed, which the Deployment does not permit; until the user owns it again.
func (w *world) giveUpForced(ctx context.Context) error {
	d, err := w.get(ctx, applied)
	if err != nil {
		return err
	}
	key, less := client.ObjectKeyFromObject(d), write.Container{Name: "app", Image: "app:1"}
	if err := refused(write.Apply(ctx, w.c, key, less, false), http.StatusUnprocessableEntity,
		`Deployment.apps "apply" is invalid: spec.template.spec.containers[1].image: Required value`); err != nil {
		return err
	}
	if err := w.has(ctx, applied, "kept", "app:1", "log:3"); err != nil {
		return err
	}
	if err := w.userPatch(ctx, applied, `{"spec":{"template":{"spec":{"containers":[{"name":"log","image":"log:4"}]}}}}`); err != nil {
		return err
	}
	if err := write.Apply(ctx, w.c, key, less, false); err != nil {
		return err
	}
	return w.has(ctx, applied, "kept", "app:1", "log:4")
}

// giveUp applies two variables, and then none. The user has set one of them to the same value.
func (w *world) giveUp(ctx context.Context) error {
	d, err := w.get(ctx, applied)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(d)
	shared := write.Container{Name: "app", Image: "app:1", Env: map[string]string{"LEVEL": "info", "REGION": "eu"}}
	if err := write.Apply(ctx, w.c, key, shared, false); err != nil {
		return err
	}
	if d, err = w.get(ctx, applied); err != nil {
		return err
	}
	if got := env(d); got["REGION"] != "eu" {
		return fmt.Errorf("the variables are %v", got)
	}
	shared.Env = nil
	if err := write.Apply(ctx, w.c, key, shared, false); err != nil {
		return err
	}
	if d, err = w.get(ctx, applied); err != nil {
		return err
	}
	if got := env(d); len(got) != 1 || got["LEVEL"] != "info" {
		return fmt.Errorf("the variables are %v, of which the user has set LEVEL", got)
	}
	if got := ownedFields(d, metav1.ManagedFieldsOperationApply); strings.Contains(got, "f:env") {
		return fmt.Errorf("the managed fields are %s", got)
	}
	return nil
}
