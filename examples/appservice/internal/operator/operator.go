// Package operator sets up the manager of the AppService operator.
package operator

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/healthz"
	"flyball.dev/ctrl/metrics/server"
	appv1 "flyball.dev/examples/appservice/api/v1"
	"flyball.dev/examples/appservice/internal/controller"
)

// LeaderElectionID is the name of the Lease for which replicas of the operator compete.
const LeaderElectionID = "appservice.app.example.com"

// NewScheme returns a scheme with the kinds of client-go and AppService.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, appv1.AddToScheme(scheme)
}

// Options are the options of the operator that its flags set.
type Options struct {
	MetricsAddress string // "0" for none
	ProbeAddress   string // "0" for none
	LeaderElect    bool
	Logger         logr.Logger
	// Change, if not nil, is called with the options of the manager before it is created.
	Change func(*ctrl.Options)
}

// New returns the manager of the operator for a cluster, which is not started.
func New(cfg *rest.Config, o Options) (ctrl.Manager, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	skipNames := true // several replicas may run in one process
	options := ctrl.Options{
		Scheme:                        scheme,
		Logger:                        o.Logger,
		Metrics:                       server.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:        o.ProbeAddress,
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              LeaderElectionID,
		LeaderElectionReleaseOnCancel: true,
		Controller:                    config.Controller{SkipNameValidation: &skipNames},
	}
	if o.Change != nil {
		o.Change(&options)
	}
	mgr, err := ctrl.NewManager(cfg, options)
	if err != nil {
		return nil, err
	}
	r := &controller.AppServiceReconciler{
		Client:   mgr.GetClient(),
		Scheme:   mgr.GetScheme(),
		Recorder: mgr.GetEventRecorder("appservice"),
	}
	if err := r.SetupWithManager(mgr); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("readyz", healthz.Ping)
}

// Check returns an error if a cluster cannot be reached or does not serve AppServices.
func Check(cfg *rest.Config) error {
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err == nil {
		_, err = d.ServerVersion()
	}
	if err != nil {
		return fmt.Errorf("the cluster at %s cannot be reached: %w", cfg.Host, err)
	}
	served, err := d.ServerResourcesForGroupVersion(appv1.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil || !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool {
		return r.Kind == "AppService"
	}) {
		return fmt.Errorf("the cluster at %s has no AppServices: apply examples/appservice/config/crd/bases first", cfg.Host)
	}
	return nil
}

// Run runs the manager until ctx ends.
func Run(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("the operator failed: %w", err)
	}
	return nil
}
