// Package envtest stands in for controller-runtime's package of this name where the peer's tests
// start an environment: it starts a control plane in the process, reached over HTTPS.
package envtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
)

// Environment is a control plane without controllers.
type Environment struct {
	Scheme                *runtime.Scheme
	Config                *rest.Config
	CRDInstallOptions     CRDInstallOptions
	CRDs                  []*apiextensionsv1.CustomResourceDefinition
	CRDDirectoryPaths     []string
	ErrorIfCRDPathMissing bool
	ControlPlane          ControlPlane

	// DownloadBinaryAssets is an error in Start: there are no binaries.
	DownloadBinaryAssets        bool
	DownloadBinaryAssetsVersion string
	BinaryAssetsDirectory       string

	plane *controlplane.ControlPlane
}

// ControlPlane takes flags for programs, and ignores them.
type ControlPlane struct{}

// GetAPIServer returns itself.
func (c ControlPlane) GetAPIServer() ControlPlane { return c }

// Configure returns itself.
func (c ControlPlane) Configure() ControlPlane { return c }

// Append returns itself.
func (c ControlPlane) Append(string, ...string) ControlPlane { return c }

var errNoBinaries = errors.New("the control plane has no binaries, and one version")

// SetupEnvtestDefaultBinaryAssetsDirectory returns an error.
func SetupEnvtestDefaultBinaryAssetsDirectory() (string, error) { return "", errNoBinaries }

// CRDInstallOptions say which definitions Start installs.
type CRDInstallOptions struct {
	Scheme             *runtime.Scheme
	Paths              []string
	CRDs               []*apiextensionsv1.CustomResourceDefinition
	ErrorIfPathMissing bool
	MaxTime            time.Duration
	PollInterval       time.Duration
}

// Start starts the control plane and installs the definitions.
func (e *Environment) Start() (*rest.Config, error) {
	if e.DownloadBinaryAssets {
		return nil, errNoBinaries
	}
	options := controlplane.Options{Listen: "127.0.0.1:0", WithoutControllers: true}
	plane, err := controlplane.Start(context.Background(), options)
	if err != nil {
		return nil, err
	}
	e.plane = plane
	if e.Config, err = clientcmd.RESTConfigFromKubeConfig(plane.Kubeconfig()); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	e.Config.QPS, e.Config.Burst = 1000, 2000
	if e.Scheme == nil {
		e.Scheme = scheme.Scheme
	}
	o := e.CRDInstallOptions
	o.CRDs = append(o.CRDs, e.CRDs...)
	o.Paths = append(o.Paths, e.CRDDirectoryPaths...)
	o.ErrorIfPathMissing = o.ErrorIfPathMissing || e.ErrorIfCRDPathMissing
	if e.CRDInstallOptions.CRDs, err = InstallCRDs(e.Config, o); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e.Config, nil
}

// Stop stops the control plane.
func (e *Environment) Stop() error {
	if e.plane == nil {
		return nil
	}
	return e.plane.Stop()
}

// InstallCRDs creates the definitions, or updates those that exist, waits until they are
// established and returns them.
func InstallCRDs(config *rest.Config, o CRDInstallOptions) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	crds := o.CRDs
	for _, path := range o.Paths {
		read, err := readCRDs(path)
		if err != nil && (o.ErrorIfPathMissing || !errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		crds = append(crds, read...)
	}
	definitions := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(definitions); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: definitions})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	for _, crd := range crds {
		existing := &apiextensionsv1.CustomResourceDefinition{}
		switch err := c.Get(ctx, client.ObjectKeyFromObject(crd), existing); {
		case client.IgnoreNotFound(err) != nil:
			return nil, err
		case err != nil:
			if err := c.Create(ctx, crd.DeepCopy()); err != nil {
				return nil, err
			}
		default:
			changed := crd.DeepCopy()
			changed.ResourceVersion = existing.ResourceVersion
			if err := c.Update(ctx, changed); err != nil {
				return nil, err
			}
		}
	}
	return crds, waitForCRDs(ctx, c, crds)
}

func waitForCRDs(ctx context.Context, c client.Client, crds []*apiextensionsv1.CustomResourceDefinition) error {
	const interval, timeout = 10 * time.Millisecond, 10 * time.Second
	return wait.PollUntilContextTimeout(ctx, interval, timeout, true, func(ctx context.Context) (bool, error) {
		for _, crd := range crds {
			current := &apiextensionsv1.CustomResourceDefinition{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(crd), current); err != nil {
				return false, err
			}
			established := false
			for _, condition := range current.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					established = true
				}
			}
			if !established {
				return false, nil
			}
		}
		return true, nil
	})
}

// readCRDs reads the definitions in a file or in the files of a directory.
func readCRDs(path string) (crds []*apiextensionsv1.CustomResourceDefinition, err error) {
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			switch err := documents.Decode(crd); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			case crd.Kind == "CustomResourceDefinition":
				crds = append(crds, crd)
			}
		}
	})
	return crds, err
}
