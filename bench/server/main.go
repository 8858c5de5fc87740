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
	{"idle", "resident memory when n seconds have passed", 60, idle},
	{"pods", "resident memory for each of n pods that nobody has used for a minute", 100_000, pods},
	{"churn", "live heap two minutes after n pods were created and deleted", 100_000, churn},
	{"watch", "time until 1,000 watchers have received a write, of n writes", 200, watchLatency},
	{"watchers", "resident memory for n idle watchers", 10_000, idleWatchers},
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
func run(ctx context.Context, args []string) error {
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
	binary := flags.String("binary", "", "measure this flyball `file` instead of the control plane linked into this one")
	var o childOptions
	flags.BoolVar(&o.Controllers, "controllers", false, "run all controllers")
	flags.StringVar(&o.Profile, "profile", "", "write a CPU profile of the control plane to this `file`")
	flags.StringVar(&o.Heap, "heap", "", "write a heap profile of the control plane to this `file` whenever its heap is measured")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	s, err := startServer(ctx, *binary, o)
	if err != nil {
		return err
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
