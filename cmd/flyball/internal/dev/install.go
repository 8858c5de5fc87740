package dev

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"flyball.dev/cmd/flyball/internal/apply"
	"flyball.dev/cmd/flyball/internal/projectfile"
	"flyball.dev/ctrl/client"
)

// installer installs the definitions and webhook configurations of a project. The webhooks are
// called where the operator serves them on this machine.
type installer struct {
	client      client.Client
	definitions dynamic.ResourceInterface
	crds        string                          // the folder of the CRDs
	webhooks    string                          // the folder of the webhook configurations
	address     string                          // of the operator's webhook server
	ca          []byte                          // what its certificate is verified with
	done        map[string]installed            // by kind and name
	convert     map[schema.GroupKind]bool       // the kinds with conversion webhooks
	scheme      map[string]func() client.Object // the kinds that are installed
}

// newInstaller returns an installer with a client of an administrator.
func newInstaller(cfg *rest.Config, crds, webhooks string) (*installer, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(apiextensionsv1.AddToScheme(scheme), admissionv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme)); err != nil {
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
	return &installer{client: c, definitions: definitions, crds: crds, webhooks: webhooks, done: map[string]installed{}, scheme: map[string]func() client.Object{
		"CustomResourceDefinition":       func() client.Object { return &apiextensionsv1.CustomResourceDefinition{} },
		"MutatingWebhookConfiguration":   func() client.Object { return &admissionv1.MutatingWebhookConfiguration{} },
		"ValidatingWebhookConfiguration": func() client.Object { return &admissionv1.ValidatingWebhookConfiguration{} },
	}}, nil
}

// installed is an object as it was installed.
type installed struct {
	content []byte        // of the manifest, in JSON
	answer  client.Object // of the API server
}

// source is an object with the file that it is from.
type source struct {
	file   string
	object client.Object
}

// install installs what has changed since the last time, and returns what it was, a line each. The
// error of an object that the API server rejects has its file. Then others may be installed.
func (in *installer) install(ctx context.Context) (changes []string, err error) {
	sources, err := in.read()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, s := range sources {
		kind := s.object.GetObjectKind().GroupVersionKind().Kind
		key := kind + " " + s.object.GetName()
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
			errs = append(errs, fmt.Errorf("%s: %w", s.file, err))
			continue
		}
		in.done[key] = installed{content, s.object}
		changes = append(changes, fmt.Sprintf("%s %s", key, what))
		if crd, ok := s.object.(*apiextensionsv1.CustomResourceDefinition); ok && what == "updated" {
			changes = append(changes, in.invalidObjects(ctx, crd)...)
		}
	}
	return changes, errors.Join(errs...)
}

// isInstalled reports whether an object has the content that was installed last, and is still the same
// in the API server: make undeploy, for one, may have deleted it.
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
	// The control plane writes the status with the definition, so that a conflict is one of the new names.
	return what, apply.WaitEstablished(ctx, in.definitions, obj.GetName(), "")
}

// invalidObjects returns the stored objects that a new definition would not admit any more, a line
// each. They stay as they are, and the API server lets fields pass that do not change; but nobody
// could create them again.
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

// read reads the manifests.
func (in *installer) read() ([]source, error) {
	var err error
	if in.convert, err = conversionKinds("."); err != nil {
		return nil, err
	}
	var all []source
	for _, dir := range []string{in.crds, in.webhooks} {
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			sources, err := in.readFile(file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, sources...)
		}
	}
	return all, nil
}

// readFile reads the objects of a manifest that are installed.
func (in *installer) readFile(file string) (all []source, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var kind struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, err
		}
		newObject := in.scheme[kind.Kind]
		if newObject == nil {
			continue
		}
		obj := newObject()
		if err := yaml.UnmarshalStrict(document, obj); err != nil {
			return nil, err
		}
		if err := in.connect(obj); err != nil {
			return nil, err
		}
		all = append(all, source{file, obj})
	}
}

// connect makes the API server call the webhooks of an object where the operator serves them.
func (in *installer) connect(obj client.Object) error {
	connect := func(name string, c *admissionv1.WebhookClientConfig) error {
		if c.URL != nil {
			return nil
		}
		if c.Service == nil || c.Service.Path == nil {
			return fmt.Errorf("webhook %s has neither a URL nor a service with a path", name)
		}
		url := "https://" + in.address + *c.Service.Path
		c.URL, c.Service, c.CABundle = &url, nil, in.ca
		return nil
	}
	var errs []error
	switch o := obj.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			errs = append(errs, connect(o.Webhooks[i].Name, &o.Webhooks[i].ClientConfig))
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			errs = append(errs, connect(o.Webhooks[i].Name, &o.Webhooks[i].ClientConfig))
		}
	case *apiextensionsv1.CustomResourceDefinition:
		kind := schema.GroupKind{Group: o.Spec.Group, Kind: o.Spec.Names.Kind}
		if in.convert[kind] || o.Spec.Conversion != nil && o.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
			url := "https://" + in.address + "/convert"
			o.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: in.ca},
					ConversionReviewVersions: []string{"v1"},
				},
			}
		}
	}
	return errors.Join(errs...)
}

// conversionKinds returns the kinds with conversion webhooks in the PROJECT file of a folder, if there is
// one. The generated definitions do not have them: they come from patches of kustomize's.
func conversionKinds(folder string) (map[schema.GroupKind]bool, error) {
	project, err := projectfile.Read(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kinds := map[schema.GroupKind]bool{}
	for _, r := range project.Resources {
		if r.Webhooks != nil && r.Webhooks.Conversion {
			kinds[schema.GroupKind{Group: r.QualifiedGroup(), Kind: r.Kind}] = true
		}
	}
	return kinds, nil
}
