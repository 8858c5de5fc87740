package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

const createFirst = "its CustomResourceDefinition must be created first"

// installer writes the objects of webhooks. It uses unstructured objects, so that the scheme of the
// manager need not have their types.
type installer struct {
	client client.Client
	prefix string
	url    string // without path
	ca     []byte
	// selectors are the fields of every admission webhook that restrict for which objects it is called.
	selectors map[string]any
	dryRun    bool
}

// install writes the objects for hooks. If the API server refuses one of them, it writes none:
// webhooks of an operator that does not run would refuse every request that they are called for.
func (i *installer) install(ctx context.Context, hooks []Hook) error {
	dryRun := *i
	dryRun.dryRun = true
	if err := dryRun.write(ctx, hooks); err != nil {
		return err
	}
	return i.write(ctx, hooks)
}

// write writes the objects for hooks.
func (i *installer) write(ctx context.Context, hooks []Hook) error {
	admission := map[HookType][]any{}
	names := map[string]int{}
	mapper := meta.ToRESTMapperWithContext(i.client.RESTMapper())
	for _, h := range hooks {
		mapping, err := mapper.RESTMappingWithContext(ctx, h.Kind.GroupKind(), h.Kind.Version)
		if meta.IsNoMatchError(err) {
			err = fmt.Errorf("%w: %s", err, createFirst)
		}
		if err != nil {
			return fmt.Errorf("%s webhook %s: %w", h.Type, h.Path, err)
		}
		if h.Type == Conversion {
			err = i.installConversion(ctx, mapping.Resource.GroupResource(), h)
			if err != nil {
				return fmt.Errorf("%s webhook of %s: %w", h.Type, h.Kind.GroupKind(), err)
			}
			continue
		}
		name := webhookName(h)
		names[name]++
		if n := names[name]; n > 1 {
			name += fmt.Sprintf("-%d", n)
		}
		admission[h.Type] = append(admission[h.Type], i.webhookEntry(name+".kb.io", h, mapping.Resource))
	}
	return errors.Join(i.applyConfiguration(ctx, Mutating, admission[Mutating]), i.applyConfiguration(ctx, Validating, admission[Validating]))
}

// applyConfiguration creates or updates the configuration for the webhooks of a type. Server-side
// apply removes webhooks from it that were applied before and are not among them any more.
func (i *installer) applyConfiguration(ctx context.Context, hookType HookType, webhooks []any) error {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("admissionregistration.k8s.io/v1")
	obj.SetKind(string(hookType) + "WebhookConfiguration")
	obj.SetName(i.prefix + strings.ToLower(string(hookType)) + "-webhook-configuration")
	before, err := i.getApplied(ctx, obj)
	if err != nil || before == nil && len(webhooks) == 0 {
		return err
	}
	if webhooks == nil {
		webhooks = []any{} // nil would be encoded as null, which is not an empty list
	}
	obj.Object["webhooks"] = webhooks
	opts := []client.ApplyOption{i.owner(), client.ForceOwnership}
	if i.dryRun {
		opts = append(opts, client.DryRunAll)
	}
	if err := i.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), opts...); err != nil {
		return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	if i.dryRun {
		return nil
	}
	logger := log().WithValues("kind", obj.GetKind(), "name", obj.GetName())
	after := namesOfWebhooks(obj)
	removed := slices.DeleteFunc(namesOfWebhooks(before), func(name string) bool { return slices.Contains(after, name) })
	if len(removed) > 0 {
		logger.Info("Removed webhooks that were installed before; if they belong to another operator, "+
			"set NamePrefix in webhook.Install", "webhooks", removed)
	}
	logger.Info("Installed webhooks", "webhooks", len(webhooks))
	return nil
}

// namesOfWebhooks returns the names of the webhooks in a configuration, which may be nil.
func namesOfWebhooks(configuration *unstructured.Unstructured) (names []string) {
	if configuration == nil {
		return nil
	}
	webhooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	for _, w := range webhooks {
		if w, ok := w.(map[string]any); ok {
			names = append(names, fmt.Sprint(w["name"]))
		}
	}
	return names
}

// owner returns the field manager of the installed objects.
func (i *installer) owner() client.FieldOwner {
	return client.FieldOwner(i.prefix + "flyball-webhooks")
}

// getApplied returns the stored state of obj if it has fields that an installer has applied, and
// nil if it has none or does not exist.
func (i *installer) getApplied(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	existing := obj.DeepCopy()
	if err := i.client.Get(ctx, client.ObjectKeyFromObject(obj), existing); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	isOwner := func(f metav1.ManagedFieldsEntry) bool { return f.Manager == string(i.owner()) }
	if !slices.ContainsFunc(existing.GetManagedFields(), isOwner) {
		return nil, nil
	}
	return existing, nil
}

// webhookEntry returns the entry of an admission webhook in its configuration.
func (i *installer) webhookEntry(name string, h Hook, resource schema.GroupVersionResource) map[string]any {
	operations := []any{"CREATE", "UPDATE"}
	if h.Type == Validating {
		operations = append(operations, "DELETE")
	}
	entry := map[string]any{
		"name":                    name,
		"admissionReviewVersions": []any{"v1"},
		"sideEffects":             "None",
		"failurePolicy":           "Fail",
		"clientConfig":            i.clientConfig(h),
		"rules": []any{map[string]any{
			"apiGroups":   []any{resource.Group},
			"apiVersions": []any{resource.Version},
			"resources":   []any{resource.Resource},
			"operations":  operations,
		}},
	}
	maps.Copy(entry, i.selectors)
	return entry
}

// webhookName returns the first label of the name of an admission webhook.
func webhookName(h Hook) string {
	return strings.ToLower(string(h.Type[:1])+h.Kind.Kind) + "-" + h.Kind.Version
}

// clientConfig returns the URL of a webhook and the CA bundle to verify it with.
func (i *installer) clientConfig(h Hook) map[string]any {
	return map[string]any{"url": i.url + h.Path, "caBundle": base64.StdEncoding.EncodeToString(i.ca)}
}

// installConversion makes a webhook the conversion of a CustomResourceDefinition.
func (i *installer) installConversion(ctx context.Context, resource schema.GroupResource, h Hook) error {
	config := i.clientConfig(h)
	config["service"] = nil // url and service exclude each other, and the patch is merged
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"conversion": map[string]any{
		"strategy": "Webhook",
		"webhook":  map[string]any{"conversionReviewVersions": []any{"v1"}, "clientConfig": config},
	}}})
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(resource.String())
	opts := []client.PatchOption{i.owner()}
	if i.dryRun {
		opts = append(opts, client.DryRunAll)
	}
	err = i.client.Patch(ctx, crd, client.RawPatch(types.MergePatchType, patch), opts...)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %s", err, createFirst)
	}
	if err == nil && !i.dryRun {
		log().Info("Installed a conversion webhook", "crd", crd.GetName())
	}
	return err
}
