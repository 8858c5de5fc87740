// Server measures what a control plane takes: memory for stored objects and for watchers, and the
// time of what must not depend on how many there are. The control plane runs in a process of its
// own, and the clients are client-go's, over HTTPS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// measurement is a subcommand.
type measurement struct {
	name, about string
	n           int // default of -n
	run         func(ctx context.Context, s *server, n int) error
}

var measurements = []measurement{
	{"idle", "anonymous memory when n seconds have passed", 60, idle},
	{"rest", "CPU time of n seconds with nothing to do but the nodes' Leases and status; with -nodes", 330, atRest},
	{"pods", "anonymous memory for each of n pods that nobody uses", 100_000, pods},
	{"running", "anonymous memory for each of n pods that the scheduler and the kubelets of the control plane have started", 50_000, running},
	{"lists", "time and memory of lists of n pods that nobody uses", 150_000, lists},
	{"growth", "CPU time for each object of lists of n and n/50 idle pods", 500_000, growth},
	{"create", "n pods created over HTTPS with 8 writers; with -data, in a data directory", 20_000, create},
	{"start", "time from exec until the first write over HTTPS, of n starts", 5, start},
	{"restart", "time until a control plane with n pods in its data directory answers", 100_000, restart},
	{"custom", "memory of n custom resources in proportion to their size, and the time of a get", 20_000, customMemory},
	{"custom-gets", "time of gets of n custom resources, beside typed objects and, with $FLYBALL_BENCH_PEER, another server", 3_000, customGets},
	{"churn", "live heap two minutes after n pods were created and deleted", 100_000, churn},
	{"watch", "time until 1,000 watchers have received a write, of n writes", 200, watchLatency},
	{"watchers", "anonymous memory for n idle watchers", 10_000, idleWatchers},
	{"pages", "time of listing n objects in pages and at once", 500_000, pages},
	{"crd", "time until a definition is served, of n definitions", 50, definitions},
	{"crd-memory", "memory and CPU time for five updates of n definitions with large schemas", 150, definitionUpdates},
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// run runs the measurement that the arguments name, or the control plane of one.
func run(ctx context.Context, args []string) (err error) {
	klog.SetLogger(logr.Discard())
	if isChild() {
		return runChild(ctx)
	}
	if len(args) == 0 {
		fmt.Print(usage())
		return nil
	}
	i := slices.IndexFunc(measurements, func(m measurement) bool { return m.name == args[0] })
	if i < 0 {
		return fmt.Errorf("there is no measurement %q:\n%s", args[0], usage())
	}
	m := measurements[i]
	flags := flag.NewFlagSet(m.name, flag.ContinueOnError)
	n := flags.Int("n", m.n, "how many")
	small := flags.Bool("small", false, "create pods with one container and little else")
	binary := flags.String("binary", "", "measure this flyball `file` instead of the control plane linked into this one")
	data := flags.Bool("data", false, "keep the objects in a data directory")
	etcd := flags.String("etcd-servers", "", "keep the objects in the etcd cluster at these `URLs`; needs -binary")
	kubeconfig := flags.String("kubeconfig", "", "measure the server of this `file`, if the measurement needs no process")
	var o childOptions
	flags.BoolVar(&o.Controllers, "controllers", false, "run all controllers")
	flags.IntVar(&o.Nodes, "nodes", 1, "the number of nodes, if all controllers run")
	flags.StringVar(&o.Profile, "profile", "", "write a CPU profile of the control plane to this `file`")
	flags.StringVar(&o.Heap, "heap", "", "write a heap profile of the control plane to this `file` whenever its heap is measured")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if o.EtcdServers = *etcd; *etcd != "" && *binary == "" {
		return errors.New("-etcd-servers needs -binary")
	}
	if *data {
		if o.DataDir, err = os.MkdirTemp("", "flyball-bench-data-"); err != nil {
			return err
		}
		defer os.RemoveAll(o.DataDir)
	}
	s, err := startServer(ctx, *binary, *kubeconfig, o)
	if err != nil {
		return err
	}
	if *small {
		s.pod = smallPod
	}
	return errors.Join(m.run(ctx, s, *n), s.stop())
}

func usage() string {
	var text strings.Builder
	for _, m := range measurements {
		fmt.Fprintf(&text, "  %-10s %s (-n %d)\n", m.name, m.about, m.n)
	}
	return text.String()
}
