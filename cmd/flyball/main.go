// Command flyball creates Kubernetes operators, and runs an operator together with a control plane. Under the names
// kube-apiserver and etcd it is the stand-in for these programs: the objects are in the process of kube-apiserver, and
// etcd has the keys of its own clients. Suites depend on etcd's slowness in one respect: they observe an object that is
// being deleted. So the store of the stand-in removes such an object after a delay (DeletionDelay).
//
// Five seconds after flyball up is ready, memory.go runs the garbage collector once and returns the garbage of the
// start to the operating system.
//
// # Dependencies
//
// controller-tools and x/tools are a small part of a cold build. So the command is in the module of the runtime, and go
// run ./cmd/flyball and go install work without a workspace. With cgo, kustomize makes the program larger: it imports
// package plugin, for which the linker keeps all methods, unless the build has the tag
// kustomize_disable_go_plugin_support.
//
// # Size
//
//	go build -tags kustomize_disable_go_plugin_support -ldflags="-s -w" ./cmd/flyball
//
// makes a program of 97 MB (2026-11-26), and of 136 MB with cgo and without the tag. The functions have these shares in
// MB, each with its line tables and types:
//
//	19  the types of k8s.io/api: protobuf and deep copies
//	 4  the apply configurations of client-go, which the methods of its clientset name
//	15  the other libraries of Kubernetes
//	14  our own
//	 8  CEL with its parser, and OpenAPI
//	 6  gRPC, protobuf and etcd's client
//	 5  kwok with gojq and sprig, kustomize, controller-tools
//	 5  flyball vet with go/types and x/tools
//	20  Go's standard library, and the rest
//
// The linker keeps every exported method of every type, since text/template calls methods by name. Without these
// methods the program would have 85 MB. But kwok's stages, controller-tools' apply configurations, flyball init,
// flyball lab, the flags of envtest and gRPC's net/trace all execute templates, and one of them is enough. The tag
// grpcnotrace removes the last one, the others would need an engine and a generator of our own.
//
// An operator is better off, because no package of ctrl looks up a method by a name in a variable
// (TestOperatorsKeepCalledMethods): a small one has 34 MB and not 42. An operator with a control plane executes no
// templates but gRPC's: with -tags grpcnotrace, examples/appservice has 70 MB and not 82.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	_ "flyball.dev/cmd/flyball/internal/help" // answers --help when it is initialized
	"flyball.dev/cmd/flyball/internal/hostprocess"
	"flyball.dev/cmd/flyball/internal/terminal"
)

func main() {
	hostprocess.Main()
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as with nohup
		signals = append(signals, syscall.SIGHUP) // the terminal has been closed
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args)
	stop()
	os.Exit(code)
}

// run runs the program that the name in args[0] selects, and returns its exit code.
func run(ctx context.Context, args []string) int {
	switch strings.TrimSuffix(filepath.Base(args[0]), ".exe") {
	case "etcd":
		return etcd(ctx, args[1:], os.Stdout, os.Stderr)
	case "kube-apiserver":
		if kubeAPIServer().ExecuteContext(ctx) != nil {
			return 1
		}
	case vetName:
		runVet("flyball vet", args[1:])
	default:
		switch {
		case len(args) > 2 && args[1] == compileNothing:
			return toolexec(ctx, args[2], args[3:])
		case os.Getenv(driverVariable) != "":
			if err := drivePackages(ctx, os.Stdin, os.Stdout, args[1:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		case isVetTool(args[1:]):
			runVet("flyball", args[1:])
		}
		if err := root().ExecuteContext(ctx); err != nil {
			var code exitCode
			if errors.As(err, &code) {
				return int(code)
			}
			var reported *reportedError
			if errors.As(err, &reported) {
				fmt.Fprintln(os.Stderr, terminal.Error(os.Stderr, reported.lines))
			}
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				fmt.Fprintln(os.Stderr, "flyball: interrupted")
				return interrupted
			}
			fmt.Fprintln(os.Stderr, terminal.Error(os.Stderr, "flyball: "+err.Error()))
			return 1
		}
	}
	return 0
}

// exitCode is the error of a command that has already printed the problem.
type exitCode int

// Error implements error.
func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// interrupted is the exit code after Ctrl-C, as in shells.
const interrupted = 128 + int(syscall.SIGINT)

// root returns the root command.
func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "flyball",
		Short: "Make operators for Kubernetes, and run them with a control plane of their own",
		Long: `Make operators for Kubernetes, and run them with a control plane of their own: without a cluster,
containers or other binaries.`,
		Example: `  # From an empty folder to an operator
  flyball init --domain example.com --repo github.com/me/shop
  flyball create api --group shop --version v1 --kind Order
  flyball dev

  # A control plane by itself, for kubectl and any client
  flyball up`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"A project:", []*cobra.Command{initProject(), create(), edit()}},
		{"Development:", []*cobra.Command{devCommand(), generateCommand(), vetCommand(), labCommand(), topCommand(), whyCommand()}},
		{"A cluster:", []*cobra.Command{install(), uninstall(), applyFiles(), planCommand(), runProgram(), recordCommand()}},
		{"A control plane:", []*cobra.Command{up(), userKubeconfig(), data(), snapshots(), replayCommand(), diffCommand(), assets()}},
	} {
		cmd.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			cmd.AddCommand(c)
		}
	}
	cmd.AddCommand(version())
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w: see %s --help", err, c.CommandPath())
	})
	return cmd
}

// noSuchCommand is the argument check of a command that only has commands below it.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return fmt.Errorf("unknown command %q for %q: its commands are %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
}

// noArgs returns an argument check for a command without arguments. instead tells the user what to do.
func noArgs(instead string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unexpected argument %q: %s", args[0], instead)
		}
		return nil
	}
}
