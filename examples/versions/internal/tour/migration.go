package tour

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	v1 "flyball.dev/examples/versions/api/v1"
	"flyball.dev/examples/versions/api/v1alpha1"
	"flyball.dev/examples/versions/config"
	"flyball.dev/examples/versions/internal/controller"
)

// old is the number of Proxies of the first release. They are more than a page.
const old = 5

// Proxies of the first release with a special name.
const (
	legacy  = "legacy"  // has become invalid since
	leaving = "leaving" // is being deleted, so that the controller never writes it
)

// firstRelease replaces the definition by the one of the first release, and creates Proxies.
func (w *world) firstRelease(ctx context.Context) error {
	crd, err := w.current(ctx)
	if err != nil {
		return err
	}
	w.definition = crd.DeepCopy()
	if err := w.Client.Delete(ctx, crd); err != nil {
		return err
	}
	if err := await.Gone(ctx, w.Client, crd); err != nil {
		return err
	}
	first := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}, Spec: w.definition.Spec}
	first.Spec.Versions = slices.DeleteFunc(slices.Clone(first.Spec.Versions), func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name != v1alpha1.GroupVersion.Version
	})
	only := &first.Spec.Versions[0]
	only.Storage, only.Deprecated, only.DeprecationWarning = true, false, nil
	if err := w.Client.Create(ctx, first); err != nil {
		return err
	}
	if err := w.storedVersions(ctx, "v1alpha1"); err != nil {
		return err
	}
	for i := range old {
		proxy := &v1alpha1.Proxy{ObjectMeta: named(fmt.Sprintf("old-%d", i))}
		proxy.Spec.Target = fmt.Sprintf("old-%d.example.com:8080", i)
		if err := w.Client.Create(ctx, proxy); err != nil {
			return err
		}
	}
	invalid := &v1alpha1.Proxy{ObjectMeta: named(legacy), Spec: v1alpha1.ProxySpec{Target: "Legacy_Host:8080"}}
	if err := w.Client.Create(ctx, invalid); err != nil {
		return err
	}
	deleted := &v1alpha1.Proxy{ObjectMeta: named(leaving), Spec: v1alpha1.ProxySpec{Target: "leaving.example.com:8080"}}
	deleted.Finalizers = []string{"net.example.com/tour"}
	if err := w.Client.Create(ctx, deleted); err != nil {
		return err
	}
	return w.Client.Delete(ctx, deleted)
}

// current reads the definition.
func (w *world) current(ctx context.Context) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: controller.ProxyDefinition}}
	return crd, w.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd)
}

// storedVersions waits until the definition is established and has those stored versions.
func (w *world) storedVersions(ctx context.Context, want ...string) error {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: controller.ProxyDefinition}}
	return await.Object(ctx, w.Client, crd, func(d *apiextensionsv1.CustomResourceDefinition) string {
		established := slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
		if !established || !slices.Equal(d.Status.StoredVersions, want) {
			return fmt.Sprintf("the stored versions are %v, want %v", d.Status.StoredVersions, want)
		}
		return ""
	})
}

// newRelease updates the definition, together with the patch that makes the operator convert.
func (w *world) newRelease(ctx context.Context) error {
	content, err := config.Files.ReadFile("crd/patches/webhook_in_proxies.yaml")
	if err != nil {
		return err
	}
	patch := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, patch); err != nil {
		return err
	}
	crd, err := w.current(ctx)
	if err != nil {
		return err
	}
	crd.Spec.Versions, crd.Spec.Conversion = w.definition.Spec.Versions, patch.Spec.Conversion
	if err := w.Client.Update(ctx, crd); err != nil {
		return err
	}
	return w.storedVersions(ctx, "v1alpha1", "v1")
}

func (w *world) unconverted(ctx context.Context) error {
	list := &v1alpha1.ProxyList{}
	if err := w.list(ctx, list); err != nil {
		return err
	}
	if len(list.Items) != old+2 {
		return fmt.Errorf("there are %d Proxies in v1alpha1, want %d", len(list.Items), old+2)
	}
	return unconvertible(w.list(ctx, &v1.ProxyList{}))
}

// unconvertible returns an error if err is not the API server's when it cannot call the conversion
// webhook.
func unconvertible(err error) error {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Code != http.StatusInternalServerError ||
		!strings.Contains(err.Error(), "conversion webhook for net.example.com/v1") {
		return fmt.Errorf("the API server answered %v", err)
	}
	return nil
}

// remove removes v1alpha1 from the versions of the definition.
func (w *world) remove(ctx context.Context) error {
	crd, err := w.current(ctx)
	if err != nil {
		return err
	}
	crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == v1alpha1.GroupVersion.Version
	})
	return w.Client.Update(ctx, crd)
}

func (w *world) needed(ctx context.Context) error {
	err := w.remove(ctx)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "status.storedVersions[0]: Invalid value: \"v1alpha1\"") ||
		!strings.Contains(err.Error(), "must remain in spec.versions until a storage migration") {
		return fmt.Errorf("the API server answered %v", err)
	}
	return nil
}

// migrated starts the operator and waits for the migration. Also the Proxy that has become invalid
// is migrated. Whether an object was rewritten by the migration, or its status by the controller
// before that, makes no difference.
func (w *world) migrated(ctx context.Context) (err error) {
	before := &v1alpha1.ProxyList{}
	if err := w.list(ctx, before); err != nil {
		return err
	}
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	if err := w.storedVersions(ctx, "v1"); err != nil {
		return err
	}
	for _, proxy := range before.Items {
		if proxy.Name != leaving {
			if err := w.ready(ctx, proxy.Name); err != nil {
				return err
			}
		}
		now := &v1.Proxy{}
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(&proxy), now); err != nil {
			return err
		}
		if now.ResourceVersion == proxy.ResourceVersion || now.UID != proxy.UID || *now.Spec.Port != 8080 ||
			!strings.HasPrefix(proxy.Spec.Target, now.Spec.Host+":") {
			return fmt.Errorf("the Proxy %s was not migrated: %+v", proxy.Name, now)
		}
	}
	return await.Event(ctx, w.Client, metav1.NamespaceDefault, func(e *corev1.Event) bool {
		return e.Reason == "StorageVersionMigrated" && strings.HasPrefix(e.Message, fmt.Sprintf("%d objects", len(before.Items)))
	})
}

// idempotent makes the operator migrate objects again: once to have the defaults everywhere, and
// again, when no object is written any more.
func (w *world) idempotent(ctx context.Context) error {
	var before []string
	for range 2 {
		if err := w.claimOld(ctx); err != nil {
			return err
		}
		after, err := w.idle(ctx)
		if err != nil {
			return err
		}
		if before != nil && !slices.Equal(before, after) {
			return errors.New("some Proxies were written again")
		}
		before = after
	}
	return nil
}

// claimOld adds v1alpha1 to the stored versions, as an operator finds them that was stopped in the
// middle of a migration.
func (w *world) claimOld(ctx context.Context) error {
	crd, err := w.current(ctx)
	if err != nil {
		return err
	}
	crd.Status.StoredVersions = []string{"v1alpha1", "v1"}
	return w.Client.Status().Update(ctx, crd)
}

// idle waits until the migration is complete and the operator has nothing to do, and returns the
// resource versions of all Proxies.
func (w *world) idle(ctx context.Context) ([]string, error) {
	if err := w.storedVersions(ctx, "v1"); err != nil {
		return nil, err
	}
	if err := w.operator.Idle(ctx); err != nil {
		return nil, err
	}
	return w.resourceVersions(ctx)
}

// resourceVersions returns the resource versions of all Proxies.
func (w *world) resourceVersions(ctx context.Context) ([]string, error) {
	all, err := w.all(ctx)
	versions := make([]string, len(all))
	for i := range all {
		versions[i] = all[i].ResourceVersion
	}
	return versions, err
}

// stopped stops the operator. In v1, nothing needs to be converted. What the API server has
// converted before, it may still have in its cache, so an object is changed before it is read.
func (w *world) stopped(ctx context.Context) error {
	if _, err := w.idle(ctx); err != nil {
		return err
	}
	if err := w.operator.Stop(); err != nil {
		return err
	}
	all, err := w.all(ctx)
	if err != nil {
		return err
	}
	if len(all) <= old {
		return fmt.Errorf("there are %d Proxies", len(all))
	}
	proxy := &all[0]
	before := client.MergeFrom(proxy.DeepCopy())
	meta.SetStatusCondition(&proxy.Status.Conditions, metav1.Condition{
		Type: "Seen", Status: metav1.ConditionTrue, Reason: "Tour", ObservedGeneration: proxy.Generation,
	})
	if err := w.Client.Status().Patch(ctx, proxy, before); err != nil {
		return err // no admission webhook is for the status
	}
	alpha := &v1alpha1.Proxy{ObjectMeta: named(proxy.Name)}
	if err := unconvertible(w.Client.Get(ctx, client.ObjectKeyFromObject(alpha), alpha)); err != nil {
		return err
	}
	if err := unconvertible(w.list(ctx, &v1alpha1.ProxyList{})); err != nil {
		return err
	}
	err = w.patch(ctx, proxy, `{"metadata":{"labels":{"a":"b"}}}`)
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `failed calling webhook "mproxy-v1.kb.io"`) {
		return fmt.Errorf("the API server answered %v", err)
	}
	return nil
}

// restarted starts the operator after it was stopped in the middle of a migration.
func (w *world) restarted(ctx context.Context) error {
	before, err := w.resourceVersions(ctx)
	if err != nil {
		return err
	}
	if err := w.claimOld(ctx); err != nil {
		return err
	}
	if w.operator, err = w.Start(ctx); err != nil {
		return err
	}
	after, err := w.idle(ctx)
	if err == nil && !slices.Equal(before, after) {
		err = errors.New("some Proxies were written again")
	}
	return err
}

// removed removes v1alpha1. The API server would not read objects that are stored in a version that the
// definition does not have.
func (w *world) removed(ctx context.Context) error {
	before, err := w.resourceVersions(ctx)
	if err != nil {
		return err
	}
	if err := w.remove(ctx); err != nil {
		return err
	}
	err = w.list(ctx, &v1alpha1.ProxyList{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("v1alpha1 is served: %v", err)
	}
	after, err := w.resourceVersions(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(before, after) {
		return fmt.Errorf("there were %d Proxies and are %d, or some have changed", len(before), len(after))
	}
	return w.configured(ctx)
}

// configured creates a Proxy and waits for its ConfigMap.
func (w *world) configured(ctx context.Context) error {
	proxy := &v1.Proxy{ObjectMeta: named("last"), Spec: v1.ProxySpec{Host: "last.example.com"}}
	if err := w.Client.Create(ctx, proxy); err != nil {
		return err
	}
	if err := w.ready(ctx, "last"); err != nil {
		return err
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: example.Namespace, Name: "last-proxy"}}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(cm), cm); err != nil {
		return err
	}
	if !strings.HasPrefix(cm.Data[controller.ConfigKey], "upstream last.example.com:80\n") {
		return fmt.Errorf("the ConfigMap has %q", cm.Data)
	}
	return nil
}
