// Command flyball runs a Kubernetes control plane in one process.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args)
	stop()
	os.Exit(code)
}

// run runs the program that the name in the first argument stands for, and returns its exit code.
func run(ctx context.Context, args []string) int {
	switch strings.TrimSuffix(filepath.Base(args[0]), ".exe") {
	case "etcd":
		return etcd(ctx, args[1:], os.Stdout, os.Stderr)
	case "kube-apiserver":
		if kubeAPIServer().ExecuteContext(ctx) != nil {
			return 1
		}
	default:
		if isVetTool(args[1:]) {
			runVet("flyball", args[1:])
		}
		if err := root().ExecuteContext(ctx); err != nil {
			var reported *reportedError
			if errors.As(err, &reported) {
				fmt.Fprintln(os.Stderr, reported.lines)
			}
			fmt.Fprintln(os.Stderr, "flyball:", err)
			return 1
		}
	}
	return 0
}

// root returns the root command.
func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "flyball",
		Short:         "A Kubernetes control plane in one process",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(up(), userKubeconfig(), assets(), vetCommand(), generateCommand(), devCommand())
	return cmd
}
