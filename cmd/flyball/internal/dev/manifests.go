package dev

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"flyball.dev/cmd/flyball/internal/projectfile"
	"flyball.dev/ctrl/client"
)

// read reads the definitions and the webhook configurations.
func (in *installer) read() ([]source, error) {
	var err error
	if in.convert, err = conversionKinds("."); err != nil {
		return nil, err
	}
	var all []source
	for _, dir := range []string{in.crds, in.webhooks} {
		sources, err := in.readFolder(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, sources...)
	}
	return all, nil
}

// readRoles reads the service account of the operator with its roles and bindings, and returns a line
// if it is another one than before. If no service account is bound to the generated role, there are
// none, and the operator is an administrator.
func (in *installer) readRoles() (roles []source, changes []string, err error) {
	if in.rbac == "" {
		return nil, nil, nil
	}
	if roles, err = in.readFolder(in.rbac); err != nil {
		return nil, nil, err
	}
	in.account = accountOf(roles)
	line := ""
	switch {
	case in.account != nil:
		line = fmt.Sprintf("the operator acts as the service account %s, with the roles in %s", in.account, in.rbac)
	case len(roles) > 0:
		line = fmt.Sprintf("the operator acts as an administrator: no binding in %s gives the role in %s to a service account", in.rbac, roleFile)
	}
	if line != in.accountLine && line != "" {
		changes = append(changes, line)
	}
	in.accountLine = line
	if in.account == nil {
		return nil, changes, nil
	}
	return roles, changes, nil
}

// readFolder reads the manifests in a folder.
func (in *installer) readFolder(dir string) (all []source, err error) {
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
