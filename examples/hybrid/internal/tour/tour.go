// Package tour changes flags at the flag service and in the cluster, and checks against the API what
// becomes of them.
package tour

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	v1 "flyball.dev/examples/hybrid/api/v1"
	"flyball.dev/examples/hybrid/internal/controller"
	"flyball.dev/examples/hybrid/internal/flagservice"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
)

// The intervals of the tour: one that comes often, and one that never comes.
const (
	often = 20 * time.Millisecond
	never = time.Hour
)

// Steps returns the steps in order; each starts where the one before it has ended.
func Steps(shared *example.World, server *flagservice.Server) []example.Step {
	w := &world{World: shared, server: server}
	step := example.NewStep
	return []example.Step{
		step("FeatureFlags are created: a ConfigMap has the flags of the project", w.create),
		step("no event, but time: a flag changes at the flag service, and soon in the ConfigMap", w.time),
		step("20 polls of an unchanged project write nothing", w.idle),
		step("an event, and no time: the ConfigMap is changed by a user, and restored at once", w.event),
		step("the ConfigMap is deleted by a user: created again", w.deleted),
		step("the flag service is down: the status says so, and the ConfigMap stays", w.down),
		step("it is up again: the flags of now are copied", w.up),
		step("a project that does not exist is a condition, and no retry", w.noProject),
		step("a ConfigMap of somebody else is left alone", w.nameTaken),
		step("an interval of a nanosecond is rejected, as it would be a loop of requests", w.rejected),
		step("the FeatureFlags are deleted: the ConfigMap is garbage collected", w.collected),
	}
}

// world is the state that the steps share.
type world struct {
	*example.World
	server *flagservice.Server
	flags  *v1.FeatureFlags
}

// newFlags returns FeatureFlags.
func newFlags(name, project string, interval time.Duration) *v1.FeatureFlags {
	return &v1.FeatureFlags{
		ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: name},
		Spec:       v1.FeatureFlagsSpec{Project: project, Interval: metav1.Duration{Duration: interval}},
	}
}

// copied waits until the ConfigMap has those values, and returns it.
func (w *world) copied(ctx context.Context, values map[string]string) (found *corev1.ConfigMap, err error) {
	return found, await.Until(ctx, w.Client, &corev1.ConfigMapList{}, func(all []*corev1.ConfigMap) string {
		for _, cm := range all {
			if cm.Name != w.flags.Name {
				continue
			}
			found = cm
			if !maps.Equal(cm.Data, values) || !metav1.IsControlledBy(cm, w.flags) {
				return fmt.Sprintf("the ConfigMap has %v, want %v", cm.Data, values)
			}
			return ""
		}
		return "there is no ConfigMap"
	}, client.InNamespace(example.Namespace))
}

// condition waits until the condition Synced has that status and reason, of this generation.
func (w *world) condition(ctx context.Context, flags *v1.FeatureFlags, status metav1.ConditionStatus, reason string) error {
	generation := flags.Generation
	return await.Object(ctx, w.Client, flags, func(f *v1.FeatureFlags) string {
		c := meta.FindStatusCondition(f.Status.Conditions, v1.ConditionSynced)
		if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration < generation ||
			f.Status.ObservedGeneration < generation {
			return fmt.Sprintf("Synced is %+v, want %s because of %s", c, status, reason)
		}
		return ""
	})
}

// setInterval changes the interval, and waits until the controller has observed it.
func (w *world) setInterval(ctx context.Context, interval time.Duration) error {
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.flags), w.flags); err != nil {
		return err
	}
	before := client.MergeFrom(w.flags.DeepCopy())
	w.flags.Spec.Interval.Duration = interval
	if err := w.Client.Patch(ctx, w.flags, before); err != nil {
		return err
	}
	generation := w.flags.Generation
	return await.Object(ctx, w.Client, w.flags, func(f *v1.FeatureFlags) string {
		if f.Status.ObservedGeneration < generation {
			return "the new interval has not been observed"
		}
		return ""
	})
}

func (w *world) create(ctx context.Context) error {
	if _, err := w.Start(ctx); err != nil {
		return err
	}
	w.server.Set("tour", map[string]string{"dark-mode": "off"})
	w.flags = newFlags("flags", "tour", often)
	if err := w.Client.Create(ctx, w.flags); err != nil {
		return err
	}
	if _, err := w.copied(ctx, map[string]string{"dark-mode": "off"}); err != nil {
		return err
	}
	return w.condition(ctx, w.flags, metav1.ConditionTrue, controller.ReasonUpToDate)
}

func (w *world) time(ctx context.Context) error {
	flags := map[string]string{"dark-mode": "on", "new-checkout": "off"}
	w.server.Set("tour", flags)
	_, err := w.copied(ctx, flags)
	return err
}

// idle counts requests to the flag service, and checks that they wrote nothing.
func (w *world) idle(ctx context.Context) error {
	cm, err := w.copied(ctx, map[string]string{"dark-mode": "on", "new-checkout": "off"})
	if err != nil {
		return err
	}
	revision := cm.Annotations[controller.RevisionAnnotation]
	if err := await.Object(ctx, w.Client, w.flags, func(f *v1.FeatureFlags) string {
		if f.Status.Revision != revision {
			return fmt.Sprintf("the status has revision %s, want %s", f.Status.Revision, revision)
		}
		return ""
	}); err != nil {
		return err
	}
	if err := w.server.WaitForRequests(ctx, 20); err != nil {
		return err
	}
	now, flags := &corev1.ConfigMap{}, &v1.FeatureFlags{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(cm), now); err != nil {
		return err
	}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(w.flags), flags); err != nil {
		return err
	}
	if now.ResourceVersion != cm.ResourceVersion || flags.ResourceVersion != w.flags.ResourceVersion {
		return fmt.Errorf("something was written: %v, %v", now, flags)
	}
	return nil
}

func (w *world) event(ctx context.Context) error {
	if err := w.setInterval(ctx, never); err != nil {
		return err
	}
	want := map[string]string{"dark-mode": "on", "new-checkout": "off"}
	cm, err := w.copied(ctx, want)
	if err != nil {
		return err
	}
	before := client.MergeFrom(cm.DeepCopy())
	cm.Data = map[string]string{"dark-mode": "off", "extra": "on"}
	if err := w.Client.Patch(ctx, cm, before); err != nil {
		return err
	}
	_, err = w.copied(ctx, want)
	return err
}

func (w *world) deleted(ctx context.Context) error {
	want := map[string]string{"dark-mode": "on", "new-checkout": "off"}
	cm, err := w.copied(ctx, want)
	if err != nil {
		return err
	}
	if err := w.Client.Delete(ctx, cm); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.Client, cm); err != nil {
		return err
	}
	_, err = w.copied(ctx, want)
	return err
}

func (w *world) down(ctx context.Context) error {
	w.server.SetDown(true)
	w.server.Set("tour", map[string]string{"dark-mode": "auto"})
	if err := w.setInterval(ctx, often); err != nil {
		return err
	}
	if err := w.condition(ctx, w.flags, metav1.ConditionFalse, controller.ReasonUnavailable); err != nil {
		return err
	}
	_, err := w.copied(ctx, map[string]string{"dark-mode": "on", "new-checkout": "off"})
	return err
}

func (w *world) up(ctx context.Context) error {
	w.server.SetDown(false)
	if _, err := w.copied(ctx, map[string]string{"dark-mode": "auto"}); err != nil {
		return err
	}
	return w.condition(ctx, w.flags, metav1.ConditionTrue, controller.ReasonUpToDate)
}

func (w *world) noProject(ctx context.Context) error {
	flags := newFlags("lost", "lost", never)
	if err := w.Client.Create(ctx, flags); err != nil {
		return err
	}
	if err := w.condition(ctx, flags, metav1.ConditionFalse, controller.ReasonNoProject); err != nil {
		return err
	}
	err := w.Client.Get(ctx, client.ObjectKeyFromObject(flags), &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("there is a ConfigMap: %v", err)
	}
	return nil
}

func (w *world) nameTaken(ctx context.Context) error {
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "theirs"}}
	theirs.Data = map[string]string{"mine": "yes"}
	flags := newFlags("theirs", "tour", never)
	for _, obj := range []client.Object{theirs, flags} {
		if err := w.Client.Create(ctx, obj); err != nil {
			return err
		}
	}
	if err := w.condition(ctx, flags, metav1.ConditionFalse, controller.ReasonNameTaken); err != nil {
		return err
	}
	now := &corev1.ConfigMap{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(theirs), now); err != nil {
		return err
	}
	if now.ResourceVersion != theirs.ResourceVersion {
		return fmt.Errorf("the ConfigMap was changed: %v", now)
	}
	return nil
}

func (w *world) rejected(ctx context.Context) error {
	for _, interval := range []time.Duration{0, time.Nanosecond, -time.Hour} {
		if err := w.Client.Create(ctx, newFlags("restless", "tour", interval)); !apierrors.IsInvalid(err) {
			return fmt.Errorf("to the interval %v, the API server answered %v", interval, err)
		}
	}
	if err := w.Client.Create(ctx, newFlags("long", strings.Repeat("a", 64), never)); !apierrors.IsInvalid(err) {
		return fmt.Errorf("to a long name of a project, the API server answered %v", err)
	}
	return nil
}

func (w *world) collected(ctx context.Context) error {
	cm, err := w.copied(ctx, map[string]string{"dark-mode": "auto"})
	if err != nil {
		return err
	}
	if err := w.Client.Delete(ctx, w.flags); err != nil {
		return err
	}
	return await.Gone(ctx, w.Client, cm)
}
