// Command appservice is an operator for AppServices: a Deployment and a Service for each.
//
// Without a kubeconfig it starts a control plane of its own in the same process, creates a sample,
// and prints what it does. With a kubeconfig it is an operator like any other and runs against that
// cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/log"
	"flyball.dev/ctrl/log/zap"
	"flyball.dev/examples/appservice/internal/console"
	"flyball.dev/examples/appservice/internal/operator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "appservice:", err)
		os.Exit(1)
	}
}

// flags are the command line flags.
type flags struct {
	kubeconfig string
	tour       bool
	operator   operator.Options
	zap        zap.Options // of the logger on a cluster
}

// parse parses the command line.
func parse(args []string, out io.Writer) (flags, error) {
	f := flags{}
	set := flag.NewFlagSet("appservice", flag.ContinueOnError)
	set.SetOutput(out)
	set.StringVar(&f.kubeconfig, "kubeconfig", "",
		"run against the cluster of this `file` ($KUBECONFIG by default); "+
			"without either, start a control plane in this process")
	set.BoolVar(&f.tour, "tour", false,
		"check the life of an AppService step by step on a control plane of its own, and exit")
	set.BoolVar(&f.operator.LeaderElect, "leader-elect", false,
		"enable leader election, so that only one of several replicas is active")
	set.StringVar(&f.operator.MetricsAddress, "metrics-bind-address", "0",
		"the `address` for metrics, such as :8080; 0 for none")
	set.StringVar(&f.operator.ProbeAddress, "health-probe-bind-address", "0",
		"the `address` for health probes, such as :8081; 0 for none")
	f.zap.BindFlags(set)
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unknown argument %q: only flags are accepted", set.Arg(0))
	}
	return f, nil
}

// run runs the command.
func run(ctx context.Context, args []string, out io.Writer) error {
	f, err := parse(args, out)
	if err != nil {
		return err
	}
	switch {
	case f.tour:
		log.SetLogger(logr.New(log.NullLogSink{}))
		return runTour(ctx, out)
	case f.kubeconfig != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "":
		f.operator.Logger = zap.New(zap.UseFlagOptions(&f.zap))
		log.SetLogger(f.operator.Logger)
		return runOnCluster(ctx, f)
	default:
		out = console.Synchronized(out)
		f.operator.Logger = console.New(out)
		log.SetLogger(f.operator.Logger)
		return runLocally(ctx, f.operator, out)
	}
}

// runOnCluster runs the operator against the cluster of a kubeconfig. It changes nothing else
// there.
func runOnCluster(ctx context.Context, f flags) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	cfg, err := loaded.ClientConfig()
	if err != nil {
		return fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	if err := operator.Check(cfg); err != nil {
		return err
	}
	f.operator.Change = func(o *ctrl.Options) { o.LeaderElectionNamespace = namespace }
	mgr, err := operator.New(cfg, f.operator)
	if err != nil {
		return err
	}
	return operator.Run(ctx, mgr)
}
