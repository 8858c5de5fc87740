package tour

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/client"
	tenancyv1 "flyball.dev/examples/applicationnamespace/api/v1"
	"flyball.dev/examples/applicationnamespace/internal/controller"
	"flyball.dev/examples/internal/await"
)

// The ApplicationNamespaces of the scenario, which are also the teams in the labels. payments has a
// Namespace of its own name; legacy and rival name the Namespace that was there before.
const (
	payments = "payments"
	legacy   = "legacy"
	rival    = "rival"
	existing = "shop"
)

func (w *world) create(ctx context.Context) error {
	if err := w.c.Create(ctx, newApp(payments, payments, tenancyv1.Delete)); err != nil {
		return err
	}
	if err := w.readyWith(ctx, payments, metav1.ConditionTrue, tenancyv1.ReasonActive); err != nil {
		return err
	}
	if _, err := w.owned(ctx, payments, payments, map[string]string{"team": payments}); err != nil {
		return err
	}
	return w.event(ctx, payments, corev1.EventTypeNormal, "Created")
}

// adopt creates a Namespace with a ConfigMap, and then an ApplicationNamespace for it.
func (w *world) adopt(ctx context.Context) error {
	before := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: existing, Labels: map[string]string{"since": "2019"}}}
	if err := w.c.Create(ctx, before); err != nil {
		return err
	}
	if err := w.c.Create(ctx, content(existing)); err != nil {
		return err
	}
	if err := w.c.Create(ctx, newApp(legacy, existing, "")); err != nil {
		return err
	}
	if err := w.readyWith(ctx, legacy, metav1.ConditionTrue, tenancyv1.ReasonActive); err != nil {
		return err
	}
	ns, err := w.owned(ctx, existing, legacy, map[string]string{"team": legacy, "since": "2019"})
	if err != nil {
		return err
	}
	if ns.UID != before.UID {
		return errors.New("the Namespace was replaced")
	}
	app, err := w.get(ctx, legacy)
	if err == nil && app.Spec.DeletionPolicy != tenancyv1.Retain {
		err = fmt.Errorf("the default policy is %q", app.Spec.DeletionPolicy)
	}
	return errors.Join(err, w.event(ctx, legacy, corev1.EventTypeNormal, "Adopted"), w.contentKept(ctx))
}

// content returns a ConfigMap that must not get lost.
func content(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "precious"}}
}

// contentKept returns an error if the ConfigMap in the Namespace that was adopted does not exist.
func (w *world) contentKept(ctx context.Context) error {
	return w.c.Get(ctx, client.ObjectKeyFromObject(content(existing)), &corev1.ConfigMap{})
}

// idle causes reconciles in which nothing has to be done, by events and by a new operator.
func (w *world) idle(ctx context.Context) error {
	if err := w.NoWrites(ctx, func() error {
		return errors.Join(
			w.patchNamespace(ctx, payments, `{"metadata":{"annotations":{"note":"by a user"}}}`),
			w.patchNamespace(ctx, existing, `{"metadata":{"annotations":{"note":"by a user"}}}`))
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

func (w *world) restoreLabel(ctx context.Context) error {
	if err := w.patchNamespace(ctx, existing, `{"metadata":{"labels":{"team":"intruders","tier":"gold"}}}`); err != nil {
		return err
	}
	_, err := w.owned(ctx, existing, legacy, map[string]string{"team": legacy, "tier": "gold", "since": "2019"})
	return err
}

func (w *world) giveUpLabel(ctx context.Context) error {
	app, err := w.get(ctx, legacy)
	if err != nil {
		return err
	}
	before := client.MergeFrom(app.DeepCopy())
	app.Spec.Labels = nil
	if err := w.c.Patch(ctx, app, before); err != nil {
		return err
	}
	if err := w.readyWith(ctx, legacy, metav1.ConditionTrue, tenancyv1.ReasonActive); err != nil {
		return err
	}
	ns, err := w.owned(ctx, existing, legacy, map[string]string{"tier": "gold", "since": "2019"})
	if err == nil && ns.Labels["team"] != "" {
		err = fmt.Errorf("the labels are %v", ns.Labels)
	}
	return err
}

func (w *world) restoreOwner(ctx context.Context) error {
	if err := w.patchNamespace(ctx, existing, `{"metadata":{"ownerReferences":null}}`); err != nil {
		return err
	}
	_, err := w.owned(ctx, existing, legacy, nil)
	return err
}

// refuse creates an ApplicationNamespace for a Namespace that another one controls, and checks that
// neither writes when the Namespace changes.
func (w *world) refuse(ctx context.Context) error {
	if err := w.c.Create(ctx, newApp(rival, existing, tenancyv1.Retain)); err != nil {
		return err
	}
	if err := w.readyWith(ctx, rival, metav1.ConditionFalse, tenancyv1.ReasonControlledByAnother); err != nil {
		return err
	}
	if err := w.event(ctx, rival, corev1.EventTypeWarning, tenancyv1.ReasonControlledByAnother); err != nil {
		return err
	}
	if err := w.NoWrites(ctx, func() error {
		for i := range 20 {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"note":"%d"}}}`, i)
			if err := w.patchNamespace(ctx, existing, patch); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	_, err := w.owned(ctx, existing, legacy, nil)
	return err
}

func (w *world) rejectForeground(ctx context.Context) error {
	before, err := w.owned(ctx, existing, legacy, nil)
	if err != nil {
		return err
	}
	app, err := w.get(ctx, legacy)
	if err != nil {
		return err
	}
	err = w.c.Delete(ctx, app, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the deletionPolicy is Retain") {
		return fmt.Errorf("the deletion returned %v", err)
	}
	if app, err = w.get(ctx, legacy); err == nil && app.DeletionTimestamp != nil {
		err = errors.New("it is being deleted")
	}
	return errors.Join(err, w.kept(ctx, before))
}

func (w *world) handOver(ctx context.Context) error {
	before, err := w.owned(ctx, existing, legacy, nil)
	if err != nil {
		return err
	}
	first, err := w.get(ctx, legacy)
	if err != nil {
		return err
	}
	if err := w.c.Delete(ctx, first); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.c, first); err != nil {
		return err
	}
	if err := w.readyWith(ctx, rival, metav1.ConditionTrue, tenancyv1.ReasonActive); err != nil {
		return err
	}
	if _, err := w.owned(ctx, existing, rival, map[string]string{"team": rival, "since": "2019"}); err != nil {
		return err
	}
	return errors.Join(w.kept(ctx, before), w.contentKept(ctx), w.event(ctx, legacy, corev1.EventTypeNormal, "Released"))
}

func (w *world) recreate(ctx context.Context) error {
	before, err := w.owned(ctx, payments, payments, nil)
	if err != nil {
		return err
	}
	if err := w.c.Delete(ctx, before); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.c, before); err != nil {
		return err
	}
	if err := await.Until(ctx, w.c, &corev1.NamespaceList{}, func(all []*corev1.Namespace) string {
		for _, ns := range all {
			if ns.Name == payments && ns.UID != before.UID {
				return ""
			}
		}
		return "the Namespace was not created again"
	}); err != nil {
		return err
	}
	if _, err := w.owned(ctx, payments, payments, map[string]string{"team": payments}); err != nil {
		return err
	}
	return w.readyWith(ctx, payments, metav1.ConditionTrue, tenancyv1.ReasonActive)
}

// releaseLate deletes an ApplicationNamespace with the policy Retain while no operator runs.
func (w *world) releaseLate(ctx context.Context) error {
	before, err := w.owned(ctx, existing, rival, nil)
	if err != nil {
		return err
	}
	if err := w.operator.Stop(); err != nil {
		return err
	}
	app, err := w.get(ctx, rival)
	if err != nil {
		return err
	}
	if err := w.c.Delete(ctx, app); err != nil {
		return err
	}
	waiting, err := w.get(ctx, rival)
	if err != nil {
		return fmt.Errorf("it did not wait for the operator: %w", err)
	}
	if waiting.DeletionTimestamp == nil || waiting.Finalizers[0] != controller.Finalizer {
		return fmt.Errorf("its finalizers are %v", waiting.Finalizers)
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.c, app); err != nil {
		return err
	}
	ns := &corev1.Namespace{}
	if err := w.c.Get(ctx, client.ObjectKeyFromObject(before), ns); err != nil {
		return err
	}
	if len(ns.OwnerReferences) > 0 || ns.Labels["team"] != rival {
		return fmt.Errorf("the Namespace has the owners %v and the labels %v", ns.OwnerReferences, ns.Labels)
	}
	return errors.Join(w.kept(ctx, before), w.contentKept(ctx))
}

// collect deletes an ApplicationNamespace with the policy Delete. Its Namespace is not empty.
func (w *world) collect(ctx context.Context) error {
	ns, err := w.owned(ctx, payments, payments, nil)
	if err != nil {
		return err
	}
	inside := content(payments)
	if err := w.c.Create(ctx, inside); err != nil {
		return err
	}
	app, err := w.get(ctx, payments)
	if err != nil {
		return err
	}
	if err := w.c.Delete(ctx, app); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.c, app); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.c, ns); err != nil {
		return err
	}
	if err := w.c.Get(ctx, client.ObjectKeyFromObject(inside), inside); !apierrors.IsNotFound(err) {
		return fmt.Errorf("its content still exists: %v", err)
	}
	return nil
}

// deleteNew creates an ApplicationNamespace with the policy Delete, deletes it with that propagation,
// and waits until it is gone. It returns its Namespace, as it was before.
func (w *world) deleteNew(ctx context.Context, name string, propagation metav1.DeletionPropagation) (*corev1.Namespace, error) {
	app := newApp(name, name, tenancyv1.Delete)
	if err := w.c.Create(ctx, app); err != nil {
		return nil, err
	}
	if err := w.readyWith(ctx, name, metav1.ConditionTrue, tenancyv1.ReasonActive); err != nil {
		return nil, err
	}
	ns, err := w.owned(ctx, name, name, nil)
	if err != nil {
		return nil, err
	}
	if err := w.c.Delete(ctx, app, client.PropagationPolicy(propagation)); err != nil {
		return nil, err
	}
	return ns, await.Gone(ctx, w.c, app)
}

func (w *world) foreground(ctx context.Context) error {
	ns, err := w.deleteNew(ctx, "foreground", metav1.DeletePropagationForeground)
	if err != nil {
		return err
	}
	return await.Gone(ctx, w.c, ns)
}

func (w *world) orphan(ctx context.Context) error {
	ns, err := w.deleteNew(ctx, "orphan", metav1.DeletePropagationOrphan)
	if err != nil {
		return err
	}
	if err := w.kept(ctx, ns); err != nil {
		return err
	}
	return await.Object(ctx, w.c, ns, func(ns *corev1.Namespace) string {
		if len(ns.OwnerReferences) > 0 {
			return fmt.Sprintf("the Namespace has the owners %v", ns.OwnerReferences)
		}
		return ""
	})
}

func (w *world) rejectProtected(ctx context.Context) error {
	return w.NoWrites(ctx, func() error {
		for _, namespace := range []string{metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease", metav1.NamespaceDefault} {
			err := w.c.Create(ctx, newApp("greedy", namespace, tenancyv1.Delete))
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.namespaceName") ||
				!strings.Contains(err.Error(), "must not be a namespace of Kubernetes") {
				return fmt.Errorf("%s: the create returned %v", namespace, err)
			}
		}
		for _, labels := range []map[string]string{
			{corev1.LabelMetadataName: "another"}, {"team": strings.Repeat("a", 64)}, {strings.Repeat("a", 318): ""},
		} {
			app := newApp("labelled", "labelled", tenancyv1.Delete)
			app.Spec.Labels = labels
			if err := w.c.Create(ctx, app); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.labels") {
				return fmt.Errorf("labels %v: the create returned %v", labels, err)
			}
		}
		return nil
	})
}

func (w *world) rejectRename(ctx context.Context) error {
	app := newApp("fixed", "fixed", tenancyv1.Delete)
	if err := w.c.Create(ctx, app); err != nil {
		return err
	}
	if err := w.readyWith(ctx, app.Name, metav1.ConditionTrue, tenancyv1.ReasonActive); err != nil {
		return err
	}
	before := client.MergeFrom(app.DeepCopy())
	app.Spec.NamespaceName = "another"
	err := w.c.Patch(ctx, app, before)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.namespaceName: Invalid value: \"another\": is immutable") {
		return fmt.Errorf("the patch returned %v", err)
	}
	return nil
}
