// Package example runs the operators of the examples: with a control plane of their own in the same
// process, as a tour that checks itself, or against the cluster of a kubeconfig.
package example

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/log/zap"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/examples/internal/console"
)

// Example is an operator, with what it takes to run it anywhere.
type Example struct {
	// Name is the name of the command and of the folder.
	Name string
	// Does says what the operator does, as a sentence that begins with "It".
	Does string
	// AddToScheme adds the kinds that are not client-go's. It may be nil.
	AddToScheme func(*runtime.Scheme) error
	// Config has the manifests: definitions in crd/bases, the ClusterRole of the operator in
	// rbac/role.yaml, admission policies in policy, and the objects to begin with in samples. Objects
	// are created in the order of the names of their files. A folder that is not there is empty.
	Config fs.FS
	// SetUp adds the controllers and webhooks to a manager.
	SetUp func(ctrl.Manager) error
	// Webhooks, if not nil, says that the operator serves webhooks, and how they are installed. Its
	// NamePrefix is set to the name of the example.
	Webhooks *webhook.Install
	// Options, if not nil, changes the options of the manager, such as the options of its cache.
	Options func(*ctrl.Options)
	// Flags, if not nil, defines flags of the example's own.
	Flags func(*flag.FlagSet)
	// Invitation has commands to try while the operator runs, a line each.
	Invitation string
	// Tour returns the steps of the tour.
	Tour func(*World) []Step
}

// Main runs the example until it is interrupted, with the arguments of the command line, and exits
// the process if it fails.
func (e *Example) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := e.Run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", e.Name, err)
		os.Exit(1)
	}
}

// Run runs the example until ctx ends, with the arguments of a command line.
func (e *Example) Run(ctx context.Context, args []string, out io.Writer) error {
	f, err := e.parse(args, out)
	if err != nil {
		return err
	}
	switch {
	case f.tour:
		nothing := logr.New(log.NullLogSink{})
		log.SetLogger(nothing)
		klog.SetLogger(nothing) // of the control plane
		return e.runTour(ctx, out)
	case f.kubeconfig != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "":
		f.logger = zap.New(zap.UseFlagOptions(&f.zap))
		log.SetLogger(f.logger)
		return e.runOnCluster(ctx, f)
	default:
		out = console.Synchronized(out)
		f.logger = console.New(out)
		log.SetLogger(f.logger)
		return e.runLocally(ctx, f, out)
	}
}

// flags are the command line flags.
type flags struct {
	kubeconfig     string
	tour           bool
	metricsAddress string // "0" for none
	probeAddress   string // "0" for none
	leaderElect    bool
	webhookHost    string
	webhookPort    int
	zap            zap.Options // of the logger on a cluster
	logger         logr.Logger
}

// parse parses the command line.
func (e *Example) parse(args []string, out io.Writer) (flags, error) {
	f := flags{}
	set := flag.NewFlagSet(e.Name, flag.ContinueOnError)
	set.SetOutput(out)
	set.StringVar(&f.kubeconfig, "kubeconfig", "",
		"run against the cluster of this `file` ($KUBECONFIG by default); "+
			"without either, start a control plane in this process")
	set.BoolVar(&f.tour, "tour", false,
		"check what the operator does, step by step, on a control plane of its own, and exit")
	set.BoolVar(&f.leaderElect, "leader-elect", false,
		"enable leader election, so that only one of several replicas is active")
	set.StringVar(&f.metricsAddress, "metrics-bind-address", "0",
		"the `address` for metrics, such as :8080; 0 for none")
	set.StringVar(&f.probeAddress, "health-probe-bind-address", "0",
		"the `address` for health probes, such as :8081; 0 for none")
	if e.Webhooks != nil {
		set.StringVar(&f.webhookHost, "webhook-host", "127.0.0.1",
			"the `address` by which the API server of a cluster reaches this process, to install the webhooks there")
		set.IntVar(&f.webhookPort, "webhook-port", 9443, "the port for webhooks on a cluster")
	}
	if e.Flags != nil {
		e.Flags(set)
	}
	f.zap.BindFlags(set)
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unknown argument %q: only flags are accepted", set.Arg(0))
	}
	return f, nil
}

// NewScheme returns a scheme with the kinds of client-go and of the example.
func (e *Example) NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil || e.AddToScheme == nil {
		return scheme, err
	}
	return scheme, e.AddToScheme(scheme)
}
