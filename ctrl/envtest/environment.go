package envtest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client/config"
	"flyball.dev/ctrl/internal/bubble"
	logf "flyball.dev/ctrl/log"
)

func log() logr.Logger { return logf.Current().WithName("test-env") }

const (
	envUseExistingCluster = "USE_EXISTING_CLUSTER"
	envStartTimeout       = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT"
	envStopTimeout        = "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT"
	envAttachOutput       = "KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT"

	// StartTimeout and StopTimeout are in seconds. They have no effect.
	StartTimeout = 60
	StopTimeout  = 60

	defaultTimeout = 20 * time.Second
)

// Environment is a control plane for tests, with the definitions and webhooks that they need. The
// zero value is one without any. It must not be copied once it is started, and its methods must not
// be called at the same time, except for AddUser and Reset.
type Environment struct {
	// ControlPlane is the control plane. Its API server can be configured before Start.
	ControlPlane ControlPlane

	// Scheme has Go types. A definition gets a conversion webhook if a type of its kind has
	// conversions. The default is scheme.Scheme of client-go.
	Scheme *runtime.Scheme

	// Config is the configuration of clients, as a member of system:masters. Start sets it, except
	// that with an existing cluster it uses the one that is set.
	Config *rest.Config

	// KubeConfig is a kubeconfig file that corresponds to Config. Start sets it if it is empty, but
	// not with InMemory, where nothing outside of the process could use it.
	KubeConfig []byte

	// CRDInstallOptions are the options for installing definitions.
	CRDInstallOptions CRDInstallOptions

	// WebhookInstallOptions are the options for installing webhooks.
	WebhookInstallOptions WebhookInstallOptions

	// ErrorIfCRDPathMissing makes a path that does not exist an error, as does ErrorIfPathMissing of
	// CRDInstallOptions.
	ErrorIfCRDPathMissing bool

	// CRDs are definitions to install, besides those in CRDInstallOptions. Start sets it to all that
	// were installed.
	CRDs []*apiextensionsv1.CustomResourceDefinition

	// CRDDirectoryPaths are the files and directories of definitions to install, besides those in
	// CRDInstallOptions.
	CRDDirectoryPaths []string

	// DownloadBinaryAssets, DownloadBinaryAssetsVersion and DownloadBinaryAssetsIndexURL have no effect:
	// there are no binaries, and one version of Kubernetes.
	DownloadBinaryAssets         bool
	DownloadBinaryAssetsVersion  string
	DownloadBinaryAssetsIndexURL string

	// BinaryAssetsDirectory is where kubectl is, if KUBEBUILDER_ASSETS is not set.
	BinaryAssetsDirectory string

	// UseExistingCluster uses the cluster of Config, or of the current kubeconfig, instead of starting
	// a control plane. By default USE_EXISTING_CLUSTER decides.
	UseExistingCluster *bool

	// ControlPlaneStartTimeout and ControlPlaneStopTimeout have no effect. By default Start sets them
	// to the environment variables, or to 20 seconds.
	ControlPlaneStartTimeout time.Duration
	ControlPlaneStopTimeout  time.Duration

	// AttachControlPlaneOutput writes the log of the control plane's controllers to ControlPlane's
	// APIServer.Err, by default standard error. Otherwise they log nothing.
	AttachControlPlaneOutput bool

	// Controllers selects the controllers that run beside the API server, in the syntax of
	// kube-controller-manager's flag --controllers: "*" for all, so that Deployments get Pods and these
	// become ready, or "none". By default it is "garbage-collector,namespace": owned objects are
	// collected and namespaces end, as in a cluster, and unlike in controller-runtime's environments. The
	// variable FLYBALL_CONTROLLERS, if it is set, decides instead. This field is Flyball's own.
	Controllers string

	// DeletionDelay is how long a deletion takes if nothing else delays it: for so long the object, with
	// its deletion timestamp, can be observed. By default it is gone at once; with kube-apiserver and
	// etcd that takes 5 ms or more. A negative value means no delay, also where module compat has made
	// 5 ms the default. This field is Flyball's own.
	DeletionDelay time.Duration

	// Snapshot is the state to start with: a file of flyball snapshot save, or a recording of flyball record.
	// FILE@TIME is a moment of a recording; see record.ReadMoment. Without a time it is the end. Objects have their
	// UIDs. Controllers act on the state like on any other: the garbage collector deletes objects with owners that
	// the snapshot lacks. Webhooks of the snapshot are called at their addresses, unless WebhookInstallOptions has
	// webhooks with the same names. This field is Flyball's own.
	Snapshot string

	// InMemory opens no socket and writes no file, also for webhooks, so that everything can run in a
	// testing/synctest bubble: the environment is started and stopped in it. Config is then for
	// clients in this process only, and an operator's webhook server must be made with the options that
	// WebhookInstallOptions.ServerOptions returns. This field is Flyball's own.
	InMemory bool
}

// Start starts the control plane, installs the definitions and then the webhooks, and returns
// Config. If it returns an error, what it has started is stopped. It may be called again after Stop.
func (te *Environment) Start() (*rest.Config, error) {
	switch {
	case te.useExistingCluster() && te.Snapshot != "":
		return nil, errors.New("an existing cluster cannot start with a Snapshot: leave one of both out")
	case te.useExistingCluster():
		if err := bubble.Check("an existing cluster is used", "set UseExistingCluster to false, and InMemory"); err != nil {
			return nil, err
		}
	case !te.InMemory:
		if err := bubble.Check("the environment starts", "set InMemory"); err != nil {
			return nil, err
		}
	}
	if !te.useExistingCluster() && te.ControlPlane.plane() != nil {
		return nil, errStarted // and what runs goes on
	}
	cfg, err := te.start()
	if err != nil && !te.useExistingCluster() {
		err = errors.Join(err, te.ControlPlane.Stop())
	}
	if err != nil {
		return nil, errors.Join(err, te.WebhookInstallOptions.Cleanup())
	}
	return cfg, nil
}

// start is Start without the clean-up after an error.
func (te *Environment) start() (*rest.Config, error) {
	if te.Scheme == nil {
		te.Scheme = scheme.Scheme
	}
	if err := te.connect(); err != nil {
		return nil, err
	}
	if len(te.KubeConfig) == 0 && !te.InMemory {
		var err error
		if te.KubeConfig, err = kubeConfigOf(te.Config); err != nil {
			return nil, err
		}
	}
	te.WebhookInstallOptions.network = te.ControlPlane.network
	// The certificates are needed for conversion webhooks, before the definitions are installed.
	if err := te.WebhookInstallOptions.PrepWithoutInstalling(); err != nil {
		return nil, err
	}
	if err := errors.Join(checkCRDs("CRDs", te.CRDs), checkCRDs("CRDInstallOptions.CRDs", te.CRDInstallOptions.CRDs)); err != nil {
		return nil, err
	}
	o := &te.CRDInstallOptions
	if o.Scheme == nil {
		o.Scheme = te.Scheme
	}
	o.CRDs = mergeCRDs(o.CRDs, te.CRDs)
	o.Paths = union(o.Paths, te.CRDDirectoryPaths)
	o.ErrorIfPathMissing = o.ErrorIfPathMissing || te.ErrorIfCRDPathMissing
	o.WebhookOptions = te.WebhookInstallOptions
	crds, err := InstallCRDs(te.Config, *o)
	if err != nil {
		return nil, fmt.Errorf("unable to install CRDs onto control plane: %w", err)
	}
	te.CRDs = crds
	if err := te.WebhookInstallOptions.Install(te.Config); err != nil {
		return nil, fmt.Errorf("unable to install webhooks onto control plane: %w", err)
	}
	if plane := te.ControlPlane.plane(); plane != nil {
		if err := plane.Checkpoint(); err != nil {
			return nil, err
		}
	}
	return te.Config, nil
}

// connect starts the control plane, or finds the existing one, and sets Config.
func (te *Environment) connect() (err error) {
	if te.useExistingCluster() {
		if te.Config == nil {
			log().V(1).Info("automatically acquiring client configuration")
			if te.Config, err = config.GetConfig(); err != nil {
				return fmt.Errorf("unable to get configuration for existing cluster: %w", err)
			}
		}
		return nil
	}
	if err := te.configure(); err != nil {
		return err
	}
	log().V(1).Info("starting control plane")
	if err := te.ControlPlane.Start(); err != nil {
		return fmt.Errorf("unable to start control plane itself: %w", err)
	}
	admin, err := te.ControlPlane.AddUser(User{Name: "admin", Groups: []string{"system:masters"}}, &rest.Config{QPS: -1})
	if err != nil {
		return fmt.Errorf("unable to provision admin user: %w", err)
	}
	te.Config = admin.Config()
	return nil
}

// configure sets the options of the control plane.
func (te *Environment) configure() (err error) {
	for _, t := range []struct {
		timeout  *time.Duration
		variable string
	}{{&te.ControlPlaneStartTimeout, envStartTimeout}, {&te.ControlPlaneStopTimeout, envStopTimeout}} {
		if *t.timeout == 0 {
			*t.timeout = defaultTimeout
			if value := os.Getenv(t.variable); value != "" {
				if *t.timeout, err = time.ParseDuration(value); err != nil {
					return fmt.Errorf("the environment variable %s is not a duration: %w", t.variable, err)
				}
			}
		}
	}
	te.AttachControlPlaneOutput = te.AttachControlPlaneOutput || os.Getenv(envAttachOutput) == "true"
	server := te.ControlPlane.GetAPIServer()
	server.StartTimeout, server.StopTimeout = te.ControlPlaneStartTimeout, te.ControlPlaneStopTimeout
	if te.AttachControlPlaneOutput && server.Err == nil {
		server.Err = os.Stderr
	}
	te.ControlPlane.KubectlPath = cmp.Or(te.ControlPlane.KubectlPath, findKubectl(te.BinaryAssetsDirectory))
	server.selected, server.deletionDelay, server.inMemory, server.snapshot = te.Controllers, te.DeletionDelay, te.InMemory, te.Snapshot
	return nil
}

// Stop stops the control plane and removes the files of the webhooks' certificates. Nothing of the
// environment is left when it returns. If CRDInstallOptions.CleanUpAfterUse is set, the definitions
// are deleted first, which makes a difference only on an existing cluster. Stopping an environment
// that is not started does nothing.
func (te *Environment) Stop() error {
	var errs []error
	running := te.ControlPlane.plane() != nil || te.useExistingCluster() && te.Config != nil
	if te.CRDInstallOptions.CleanUpAfterUse && running {
		errs = append(errs, UninstallCRDs(te.Config, te.CRDInstallOptions))
	}
	errs = append(errs, te.WebhookInstallOptions.Cleanup())
	if !te.useExistingCluster() {
		errs = append(errs, te.ControlPlane.Stop())
	}
	return errors.Join(errs...)
}

// Reset brings the control plane back to the state after Start: objects, definitions and the
// kinds that they serve, and allocations such as cluster IPs and node ports. It takes microseconds, plus the
// time to compile the definitions of Start that were changed or deleted. The certificates of users
// and tokens of service accounts remain valid if their objects exist.
//
// Resource versions go on rising. Watches that are open get an error event 410 Gone and end, upon
// which caches list again. Requests that are being served when Reset is called are cancelled: they
// fail with 503 Service Unavailable, unless they have succeeded already, and leave nothing behind;
// requests that begin meanwhile wait. It is safe for concurrent use.
//
// It returns an error if the environment is not started, or uses an existing cluster.
//
// Reset is Flyball's own.
func (te *Environment) Reset() error {
	plane := te.ControlPlane.plane()
	if plane == nil {
		return errors.New("only a control plane that this environment has started can be reset")
	}
	return plane.Reset()
}

// AddUser returns a user of the environment: a configuration that has the settings of base, which
// may be nil, and the user's credentials. Nothing is authorized for a new user, unless it is in a
// group for which something is. It is safe for concurrent use.
func (te *Environment) AddUser(user User, base *rest.Config) (*AuthenticatedUser, error) {
	return te.ControlPlane.AddUser(user, base)
}

func (te *Environment) useExistingCluster() bool {
	if te.UseExistingCluster == nil {
		return strings.EqualFold(os.Getenv(envUseExistingCluster), "true")
	}
	return *te.UseExistingCluster
}
