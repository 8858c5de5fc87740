package main

import (
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"flyball.dev/cmd/flyball/internal/dev"
	"flyball.dev/internal/kubeconfig"
)

// devCommand returns the command "flyball dev".
func devCommand() *cobra.Command {
	var o dev.Options
	var verbosity int
	cmd := &cobra.Command{
		Use:   "dev [flags] [-- OPERATOR-ARGUMENT...]",
		Short: "Run the operator of this project, and again whenever its source changes",
		Long: `Run the operator of the project in this folder on a control plane of its own, and again whenever
its source changes.

The control plane runs in this process, so the objects in it remain when the operator is restarted.
After a change, code and manifests are generated as by flyball generate, the operator is built,
changed CRDs, webhook configurations and roles are installed, the old operator is stopped (SIGTERM) and
the new one is started. If something fails, such as the build, it is shown, and the old operator
runs on. What took how long is shown too, up to the first requests of the new operator.

What is generated, and with which options, is what the project does itself: by its PROJECT file, its
Makefile or go:generate lines. If that cannot be told, no file is changed that git tracks.

The CRDs, webhook configurations and roles are those that kustomize builds of config/default, which is
what make deploy deploys, and those that are generated and not in it yet; --manifests names others.

The operator is the main package ./cmd, this folder, or the only one below ./cmd. It gets the
kubeconfig in $KUBECONFIG, and acts as the service account to which a binding gives the role in
role.yaml, or a role to the Deployment, with all roles and bindings. What they do not allow is shown
with the marker that is missing. --as-admin lets the operator do everything.

Webhooks are called at 127.0.0.1, with a certificate that the operator finds in the default folder of
webhook servers (below $TMPDIR, which is set).

Ctrl-C stops the operator and then the control plane, when all objects are lost.`,
		Example: `  flyball dev
  flyball dev -- --leader-elect=false --zap-log-level=debug

  # In another terminal
  export KUBECONFIG=.flyball/kubeconfig
  kubectl apply -k config/samples`,
		Args: func(cmd *cobra.Command, args []string) error {
			if before := cmd.ArgsLenAtDash(); before > 0 || before < 0 && len(args) > 0 {
				return fmt.Errorf("unexpected argument %q; arguments of the operator stand after --", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			setUpLogging(verbosity)
			o.Args = args
			signal.Ignore(syscall.SIGPIPE) // the operator and the control plane are stopped first
			return dev.Run(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Main, "main", "", "the main package of the operator, such as ./cmd/manager; by default it is looked for")
	flags.StringArrayVar(&o.Generate, "generate", nil,
		"an option for generating, as of flyball generate, such as crd:maxDescLen=0; may be repeated")
	flags.BoolVar(&o.GenerateNothing, "no-generate", false, "generate nothing")
	flags.StringArrayVar(&o.Manifests, "manifests", nil, "a folder of manifests to install, as kustomize builds it if it has a "+
		"kustomization; may be repeated (default config/default, or else config/rbac, and what is generated)")
	flags.BoolVar(&o.AsAdmin, "as-admin", false, "run the operator as an administrator, who may do everything")
	flags.BoolVar(&o.StackTraces, "stack-traces", false, "show the stack traces in the operator's log; by default "+
		"those after errors are folded to the frames in this project")
	flags.IntVar(&o.WebhookPort, "webhook-port", 9443, "the port at which the operator serves its webhooks")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", kubeconfig.DefaultPath, "the file to write the administrator's kubeconfig to")
	flags.StringVar(&o.DataDir, "data-dir", "",
		"the directory that keeps all objects for the next time; by default there is none, and they are in memory alone")
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:0", "the address and port of the API server; port 0 takes a free one")
	flags.DurationVar(&o.Grace, "grace-period", 10*time.Second, "how long the operator may take to end before it is killed")
	flags.IntVarP(&verbosity, "v", "v", 0, "log level of the control plane, as of flyball up")
	return cmd
}
