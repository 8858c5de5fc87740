package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/log"
	"flyball.dev/internal/kubeconfig"
)

func up() *cobra.Command {
	var file, listen string
	var verbosity int
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a control plane until Ctrl-C",
		Long: `Run a control plane in this process, in memory, over HTTPS with client certificates.

It writes a kubeconfig for an administrator, says in one line when it is ready, and
stops cleanly on Ctrl-C or SIGTERM. What was stored is then gone.

Errors and warnings, of the API server and of the controllers, are logged to standard
error; -v shows more.`,
		Example: `  flyball up
  flyball up --listen 127.0.0.1:6443 --kubeconfig /tmp/kubeconfig
  kubectl --kubeconfig .flyball/kubeconfig get namespaces`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logTo(verbosity)
			return runUp(cmd.Context(), cmd.OutOrStdout(), file, listen)
		},
	}
	cmd.Flags().StringVar(&file, "kubeconfig", kubeconfig.DefaultPath, "the file to write the administrator's kubeconfig to")
	cmd.Flags().IntVarP(&verbosity, "v", "v", 0, "how much to log to standard error: 0 is errors and warnings, 1 also that controllers start and stop, 2 also the events they record, up to 10")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "the address and port to listen on; port 0 takes a free one")
	return cmd
}

// logTo has everything in the process log to standard error, through klog as Kubernetes' own libraries do.
func logTo(verbosity int) {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("v", strconv.Itoa(verbosity)) // a number is always valid
	log.SetLogger(klog.Background())
}

func runUp(ctx context.Context, out io.Writer, file, listen string) error {
	began := time.Now()
	plane, err := controlplane.Start(ctx, controlplane.Options{Listen: listen})
	if err != nil {
		return err
	}
	if err := kubeconfig.Write(file, plane.Kubeconfig()); err != nil {
		plane.Stop()
		return err
	}
	fmt.Fprintf(out, "ready in %d ms at %s; try: kubectl --kubeconfig %s get namespaces\n",
		time.Since(began).Milliseconds(), plane.URL(), file)
	<-ctx.Done()
	return plane.Stop()
}
