// Command flyball runs and serves control planes, and helps to write operators.
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

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "flyball",
		Short:         "A Kubernetes control plane in one process, and tools for those who write operators",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(up())
	return cmd
}
