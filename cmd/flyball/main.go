// Command flyball runs a Kubernetes control plane in one process.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "flyball:", err)
		os.Exit(1)
	}
}

// root returns the root command.
func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "flyball",
		Short:         "A Kubernetes control plane in one process",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(up(), userKubeconfig())
	return cmd
}
