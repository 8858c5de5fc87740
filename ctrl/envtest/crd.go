package envtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/webhook/conversion"
)

const (
	defaultPollInterval = 100 * time.Millisecond
	defaultMaxTime      = 10 * time.Second
)

// CRDInstallOptions are the options for installing definitions.
type CRDInstallOptions struct {
	// Scheme has Go types. Definitions of types that convert get a conversion webhook. The default is
	// scheme.Scheme of client-go.
	Scheme *runtime.Scheme

	// Paths are files and directories of definitions. Other objects in them are ignored.
	Paths []string

	// CRDs are definitions to install.
	CRDs []*apiextensionsv1.CustomResourceDefinition

	// ErrorIfPathMissing makes a path that does not exist an error.
	ErrorIfPathMissing bool

	// MaxTime is how long to wait until the definitions are served, 10 s by default, and PollInterval
	// how often to look, 100 ms by default.
	MaxTime      time.Duration
	PollInterval time.Duration

	// CleanUpAfterUse makes Environment.Stop delete the definitions.
	CleanUpAfterUse bool

	// WebhookOptions say where conversion webhooks are served. An Environment sets them.
	WebhookOptions WebhookInstallOptions
}

// setDefaults sets the options that have a default and are not set.
func (o *CRDInstallOptions) setDefaults() {
	if o.Scheme == nil {
		o.Scheme = scheme.Scheme
	}
	if o.MaxTime == 0 {
		o.MaxTime = defaultMaxTime
	}
	if o.PollInterval == 0 {
		o.PollInterval = defaultPollInterval
	}
}

// InstallCRDs reads and creates definitions, or updates those that exist, waits until they are
// served, and returns them. The conversion webhook of a kind is connected to where WebhookOptions
// says, and removed if no type in the scheme has conversions, unless
// WebhookOptions.IgnoreSchemeConvertible is set.
func InstallCRDs(config *rest.Config, options CRDInstallOptions) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	options.setDefaults()
	if err := ReadCRDFiles(&options); err != nil {
		return nil, fmt.Errorf("unable to read CRD files: %w", err)
	}
	if err := connectConversions(options.CRDs, options.Scheme, &options.WebhookOptions); err != nil {
		return nil, err
	}
	if err := createCRDs(config, options.CRDs, options.source); err != nil {
		return options.CRDs, fmt.Errorf("unable to create CRD instances: %w", err)
	}
	if err := WaitForCRDs(config, options.CRDs, options); err != nil {
		return options.CRDs, fmt.Errorf("something went wrong waiting for CRDs to appear as API resources: %w", err)
	}
	return options.CRDs, nil
}

// ReadCRDFiles reads the definitions in options.Paths and adds them to options.CRDs. Of those with
// the same name, the last one that is read is added. It takes the place of one in options.CRDs.
func ReadCRDFiles(options *CRDInstallOptions) error {
	if err := checkCRDs("CRDs", options.CRDs); err != nil {
		return err
	}
	var read []*apiextensionsv1.CustomResourceDefinition
	positions := map[string]int{}
	for _, path := range options.Paths {
		manifests, err := readManifests("CRDDirectoryPaths or CRDInstallOptions.Paths", path)
		if errors.Is(err, fs.ErrNotExist) && !options.ErrorIfPathMissing {
			continue
		}
		if err != nil {
			return err
		}
		for _, m := range manifests {
			if m.Kind != "CustomResourceDefinition" {
				continue
			}
			if m.APIVersion != apiextensionsv1.SchemeGroupVersion.String() {
				return m.errorf("a CustomResourceDefinition of %q, convert it to %s", m.APIVersion, apiextensionsv1.SchemeGroupVersion)
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := m.decode(crd); err != nil {
				return err
			}
			if crd.Spec.Names.Kind == "" || crd.Spec.Group == "" {
				continue
			}
			if position, ok := positions[crd.Name]; ok {
				log().Info("there is more than one definition of the same name, the last one is used", "name", crd.Name, "file", m.file)
				read[position] = crd
			} else {
				positions[crd.Name] = len(read)
				read = append(read, crd)
			}
		}
	}
	options.CRDs = slices.Clone(options.CRDs)
	for _, crd := range read {
		sameName := func(other *apiextensionsv1.CustomResourceDefinition) bool { return other.Name == crd.Name }
		if n := slices.IndexFunc(options.CRDs, sameName); n >= 0 {
			options.CRDs[n] = crd
		} else {
			options.CRDs = append(options.CRDs, crd)
		}
	}
	return nil
}

// checkCRDs returns an error that names the field if a definition in it is nil.
func checkCRDs(field string, crds []*apiextensionsv1.CustomResourceDefinition) error {
	if n := slices.Index(crds, nil); n >= 0 {
		return fmt.Errorf("%s[%d] is nil", field, n)
	}
	return nil
}

// source returns the file of a definition, for an error, or "".
func (o *CRDInstallOptions) source(name string) string {
	for _, path := range o.Paths {
		manifests, err := readManifests("", path)
		if err != nil {
			continue
		}
		for _, m := range manifests {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if m.Kind == "CustomResourceDefinition" && m.decode(crd) == nil && crd.Name == name {
				return m.file
			}
		}
	}
	return ""
}

// CreateCRDs creates definitions, or updates those that exist.
func CreateCRDs(config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition) error {
	return createCRDs(config, crds, func(string) string { return "" })
}

func createCRDs(config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition, source func(name string) string) error {
	c, err := newClient(config)
	if err != nil {
		return err
	}
	for _, crd := range crds {
		log().V(1).Info("installing CRD", "crd", crd.Name)
		if err := ensure(c, crd); err != nil {
			err = fmt.Errorf("unable to create CRD %q: %w", crd.Name, err)
			if file := source(crd.Name); file != "" {
				err = fmt.Errorf("%s: %w", file, err)
			}
			return err
		}
	}
	return nil
}

// newClient returns a client for definitions and webhook configurations.
func newClient(config *rest.Config) (client.Client, error) {
	c, err := client.New(config, client.Options{Scheme: installed()})
	if err != nil {
		return nil, fmt.Errorf("unable to create client: %w", err)
	}
	return c, nil
}

// ensure creates an object without a namespace, or updates the one that exists.
func ensure(c client.Client, obj client.Object) error {
	ctx := context.Background()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		existing := obj.DeepCopyObject().(client.Object)
		switch err := c.Get(ctx, client.ObjectKey{Name: obj.GetName()}, existing); {
		case apierrors.IsNotFound(err):
			obj.SetResourceVersion("")
			obj.SetUID("")
			return c.Create(ctx, obj)
		case err != nil:
			return err
		}
		obj.SetResourceVersion(existing.GetResourceVersion())
		obj.SetUID(existing.GetUID())
		return c.Update(ctx, obj)
	})
}

// UninstallCRDs reads and deletes definitions. It does not wait until they are gone.
func UninstallCRDs(config *rest.Config, options CRDInstallOptions) error {
	if err := ReadCRDFiles(&options); err != nil {
		return err
	}
	c, err := newClient(config)
	if err != nil {
		return err
	}
	for _, crd := range options.CRDs {
		log().V(1).Info("uninstalling CRD", "crd", crd.Name)
		if err := client.IgnoreNotFound(c.Delete(context.Background(), crd)); err != nil {
			return fmt.Errorf("unable to delete CRD %q: %w", crd.Name, err)
		}
	}
	return nil
}

// WaitForCRDs waits until discovery has all served versions of the definitions. It returns an error
// that names one that it has not, when options.MaxTime has passed.
func WaitForCRDs(config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition, options CRDInstallOptions) error {
	options.setDefaults()
	missing := map[schema.GroupVersionResource]bool{}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			if v.Served {
				missing[schema.GroupVersionResource{Group: crd.Spec.Group, Version: v.Name, Resource: crd.Spec.Names.Plural}] = true
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(context.Background(), options.PollInterval, options.MaxTime, true,
		func(context.Context) (bool, error) {
			lists := map[schema.GroupVersion]bool{}
			for gvr := range missing {
				lists[gvr.GroupVersion()] = true
			}
			for gv := range lists {
				list, err := d.ServerResourcesForGroupVersion(gv.String())
				if err != nil {
					last = err
					continue
				}
				for _, r := range list.APIResources {
					delete(missing, gv.WithResource(r.Name))
				}
			}
			return len(missing) == 0, nil
		})
	for gvr := range missing {
		return errors.Join(fmt.Errorf("%s is not served after %s: %w", gvr.GroupResource().WithVersion(gvr.Version), options.MaxTime, err), last)
	}
	return err
}

// connectConversions connects the conversion webhooks of definitions to where the webhooks are
// served.
func connectConversions(crds []*apiextensionsv1.CustomResourceDefinition, scheme *runtime.Scheme, o *WebhookInstallOptions) error {
	if len(o.LocalServingCAData) == 0 || len(crds) == 0 {
		return nil
	}
	hostPort, err := o.hostPort()
	if err != nil {
		return err
	}
	url := "https://" + hostPort + "/convert"
	convertible, err := convertibleKinds(scheme, crds)
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if crd.Spec.PreserveUnknownFields {
			continue
		}
		if !o.IgnoreSchemeConvertible && !convertible[kindOf(crd)] {
			// Manifests often have a conversion webhook before there is one, which would be refused.
			crd.Spec.Conversion = nil
			continue
		}
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1", "v1beta1"},
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: o.LocalServingCAData},
			},
		}
	}
	return nil
}

func kindOf(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupKind {
	return schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
}

// convertibleKinds returns the kinds of the definitions that have a type with conversions.
func convertibleKinds(scheme *runtime.Scheme, crds []*apiextensionsv1.CustomResourceDefinition) (map[schema.GroupKind]bool, error) {
	convertible := map[schema.GroupKind]bool{}
	for _, crd := range crds {
		for _, version := range scheme.VersionsForGroupKind(kindOf(crd)) {
			obj, err := scheme.New(version.WithKind(crd.Spec.Names.Kind))
			if err != nil {
				return nil, err
			}
			if ok, err := conversion.IsConvertible(scheme, obj); ok && err == nil {
				convertible[kindOf(crd)] = true
			}
		}
	}
	return convertible, nil
}

// mergeCRDs returns copies of the definitions of two lists. Of those with the same name, it is the
// last one.
func mergeCRDs(a, b []*apiextensionsv1.CustomResourceDefinition) []*apiextensionsv1.CustomResourceDefinition {
	var merged []*apiextensionsv1.CustomResourceDefinition
	positions := map[string]int{}
	for _, list := range [][]*apiextensionsv1.CustomResourceDefinition{a, b} {
		for _, crd := range list {
			position, ok := positions[crd.Name]
			if !ok {
				position = len(merged)
				positions[crd.Name] = position
				merged = append(merged, nil)
			}
			merged[position] = crd.DeepCopy()
		}
	}
	return merged
}

// init registers definitions in the scheme that clients have by default, as controller-runtime's
// package does: suites that use it read definitions with such clients.
func init() { utilruntime.Must(apiextensionsv1.AddToScheme(scheme.Scheme)) }
