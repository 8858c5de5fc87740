package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"flyball.dev/cmd/flyball/internal/apply"
	"flyball.dev/ctrl/client"
)

// installer installs the definitions, webhook configurations and roles of a project. The API server calls the webhooks
// on this machine, where the operator serves them.
type installer struct {
	client      client.Client
	definitions dynamic.ResourceInterface
	manifests   *reader
	asAdmin     bool                      // whether the operator is an administrator in any case
	account     *account                  // of the operator, or nil for an administrator
	lines       []string                  // about the manifests, the last time
	address     string                    // of the operator's webhook server
	ca          []byte                    // verifies its certificate
	done        map[string]installed      // by kind, namespace and name
	convert     map[schema.GroupKind]bool // the kinds with conversion webhooks
}

// newInstaller returns an installer with an administrator's client.
func newInstaller(cfg *rest.Config, manifests *reader) (*installer, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(apiextensionsv1.AddToScheme(scheme), admissionv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme),
		corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	d, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	definitions := d.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	return &installer{client: c, definitions: definitions, manifests: manifests, done: map[string]installed{}}, nil
}

// installedKinds are the kinds that are installed.
var installedKinds = map[metav1.TypeMeta]func() client.Object{
	typeMeta(apiextensionsv1.SchemeGroupVersion, "CustomResourceDefinition"):   func() client.Object { return &apiextensionsv1.CustomResourceDefinition{} },
	typeMeta(admissionv1.SchemeGroupVersion, "MutatingWebhookConfiguration"):   func() client.Object { return &admissionv1.MutatingWebhookConfiguration{} },
	typeMeta(admissionv1.SchemeGroupVersion, "ValidatingWebhookConfiguration"): func() client.Object { return &admissionv1.ValidatingWebhookConfiguration{} },
	typeMeta(corev1.SchemeGroupVersion, "ServiceAccount"):                      func() client.Object { return &corev1.ServiceAccount{} },
	typeMeta(rbacv1.SchemeGroupVersion, "Role"):                                func() client.Object { return &rbacv1.Role{} },
	typeMeta(rbacv1.SchemeGroupVersion, "RoleBinding"):                         func() client.Object { return &rbacv1.RoleBinding{} },
	typeMeta(rbacv1.SchemeGroupVersion, "ClusterRole"):                         func() client.Object { return &rbacv1.ClusterRole{} },
	typeMeta(rbacv1.SchemeGroupVersion, "ClusterRoleBinding"):                  func() client.Object { return &rbacv1.ClusterRoleBinding{} },
}

func typeMeta(group schema.GroupVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: group.String(), Kind: kind}
}

// installed is the installed state of an object.
type installed struct {
	content []byte        // of the manifest, in JSON
	answer  client.Object // of the API server
}

// source is an object with its file.
type source struct {
	file   string
	object client.Object
}

// install installs changed objects, and returns one line for each change. If the API server rejects an object, the
// error names the file; other objects may still be installed.
func (in *installer) install(ctx context.Context) (changes []string, err error) {
	sources, lines, err := in.read()
	for _, line := range lines {
		if !slices.Contains(in.lines, line) {
			changes = append(changes, line)
		}
	}
	in.lines = lines
	if err != nil {
		return changes, err
	}
	var errs []error
	for _, s := range sources {
		kind := s.object.GetObjectKind().GroupVersionKind().Kind
		name := kind + " " + s.object.GetName()
		key := kind + " " + client.ObjectKeyFromObject(s.object).String()
		content, err := json.Marshal(s.object)
		if err != nil {
			return changes, err
		}
		current, err := in.isInstalled(ctx, s.object, in.done[key], content)
		if current {
			continue
		}
		what := ""
		if err == nil {
			what, err = in.ensure(ctx, s.object)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the API server rejects it: %s: %w", s.file, err))
			continue
		}
		in.done[key] = installed{content, s.object}
		if !isRole(s) || what == "updated" { // all roles together are a line
			changes = append(changes, fmt.Sprintf("%s %s", name, what))
		}
		if crd, ok := s.object.(*apiextensionsv1.CustomResourceDefinition); ok && what == "updated" {
			changes = append(changes, in.invalidObjects(ctx, crd)...)
		}
	}
	return changes, errors.Join(errs...)
}

// isInstalled reports whether an object has the same content as at the last installation, and has not changed in the
// API server since: make undeploy, for example, may have deleted it.
func (in *installer) isInstalled(ctx context.Context, obj client.Object, last installed, content []byte) (bool, error) {
	if !bytes.Equal(last.content, content) {
		return false, nil
	}
	now := obj.DeepCopyObject().(client.Object)
	err := in.client.Get(ctx, client.ObjectKeyFromObject(obj), now)
	return err == nil && now.GetUID() == last.answer.GetUID() && now.GetGeneration() == last.answer.GetGeneration(), client.IgnoreNotFound(err)
}

// establishTimeout is how long the API server may take to serve a definition.
const establishTimeout = 10 * time.Second

// ensure creates an object or updates it, and waits until a definition is established.
func (in *installer) ensure(ctx context.Context, obj client.Object) (what string, err error) {
	if err := in.ensureNamespace(ctx, obj.GetNamespace()); err != nil {
		return "", err
	}
	existing := obj.DeepCopyObject().(client.Object)
	switch err = in.client.Get(ctx, client.ObjectKeyFromObject(obj), existing); {
	case apierrors.IsNotFound(err):
		what, err = "created", in.client.Create(ctx, obj)
	case err == nil:
		obj.SetResourceVersion(existing.GetResourceVersion())
		what, err = "updated", in.client.Update(ctx, obj)
	}
	if _, ok := obj.(*apiextensionsv1.CustomResourceDefinition); err != nil || !ok {
		return what, err
	}
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	// The control plane writes the status together with the definition, so any conflict concerns the new names.
	return what, apply.WaitEstablished(ctx, in.definitions, obj.GetName(), "")
}

// ensureNamespace creates a namespace if it does not exist.
func (in *installer) ensureNamespace(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	err := in.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// invalidObjects returns a line for each stored object that a new definition no longer admits. The objects stay, and
// the API server accepts invalid fields that do not change; but nobody could create such an object again.
func (in *installer) invalidObjects(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (lines []string) {
	const limit = 100
	for _, version := range crd.Spec.Versions {
		if !version.Storage || !version.Served {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.ListKind})
		if err := in.client.List(ctx, list, client.Limit(limit)); err != nil {
			return []string{fmt.Sprintf("the stored objects of %s cannot be checked: %v", crd.Name, err)}
		}
		for _, stored := range list.Items {
			copied := stored.DeepCopy()
			copied.Object["metadata"] = map[string]any{}
			copied.SetNamespace(stored.GetNamespace())
			copied.SetName("flyball-dev-check")
			copied.SetLabels(stored.GetLabels())
			copied.SetAnnotations(stored.GetAnnotations())
			if err := in.client.Create(ctx, copied, client.DryRunAll); apierrors.IsInvalid(err) {
				message := strings.ReplaceAll(err.Error(), `"flyball-dev-check"`, fmt.Sprintf("%q", stored.GetName()))
				lines = append(lines, "a stored object does not satisfy the new definition: "+message)
			}
		}
	}
	return lines
}
