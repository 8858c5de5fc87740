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
	var scriptFile string
	cmd := &cobra.Command{
		Use:   "dev [flags] [-- OPERATOR-ARGUMENT...]",
		Short: "Run the operator of this project, and again whenever its source changes",
		Long: `Run the operator of the project in this folder on a control plane of its own, and again whenever
its source changes.

The control plane runs in this process, so its objects remain when the operator restarts. After a
change, the command generates code and manifests, as flyball generate does, and builds the operator. It
installs changed CRDs, webhook configurations and roles, stops the old operator with SIGTERM, and starts
the new one. If a step fails, such as the build, the command prints the error, and the old operator runs
on. It also prints the time of each step, up to the first requests of the new operator.

The options for generating are the project's own, from its PROJECT file, its Makefile or go:generate
lines. If they cannot be found, no file that git tracks is changed.

The CRDs, webhook configurations and roles come from kustomize build config/default, which make deploy
deploys, and from generated files that are not in it yet. --manifests names other folders.

The operator is the main package ./cmd, this folder, or the only main package below ./cmd. It gets the
kubeconfig in $KUBECONFIG. It acts as the service account in the binding of the role in role.yaml, or
else as the account of the Deployment, with all roles and bindings of that account. If they do not allow
a request, the command prints the marker that does. --as-admin lets the operator do everything.

The API server calls webhooks at 127.0.0.1. The operator finds their certificate in the default folder
of webhook servers, below $TMPDIR, which is set for the operator.

If the operator uses Flyball's runtime and has no console, it gets one, and prints its URL. flyball top and
flyball why find the console in this folder. --no-console leaves it out.

Ctrl-C stops the operator and then the control plane. All objects are lost, unless --data-dir keeps them.`,
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
			var err error
			if o.Script, err = loadScript(scriptFile); err != nil {
				return err
			}
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
	flags.BoolVar(&o.NoConsole, "no-console", false, "give the operator no console; one that its source sets stays")
	flags.BoolVar(&o.StackTraces, "stack-traces", false, "show the stack traces in the operator's log; by default "+
		"those after errors are folded to the frames in this project")
	flags.IntVar(&o.WebhookPort, "webhook-port", 9443, "the port at which the operator serves its webhooks")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", kubeconfig.DefaultPath, "the file to write the administrator's kubeconfig to")
	flags.StringVar(&o.DataDir, "data-dir", "",
		"the directory that keeps all objects for the next time; by default there is none, and they are in memory alone")
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:0", "the address and port of the API server; port 0 takes a free one")
	flags.StringVar(&scriptFile, "script", "", "FILE: what containers do, as of flyball up")
	flags.DurationVar(&o.Grace, "grace-period", 10*time.Second, "how long the operator may take to end before it is killed")
	flags.IntVarP(&verbosity, "v", "v", 0, "log level of the control plane, as of flyball up")
	refuseEmpty(flags, "kubeconfig", "data-dir", "listen", "script")
	return cmd
}
