package main

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/spf13/cobra"
)

// summary says what a file has.
type summary interface {
	// write writes the summary for people. Programs get it as JSON.
	write(out io.Writer) error
}

// showCommand returns a command "show FILE", which prints the summary of a file. With a damaged file, summarize may return the
// summary of the intact part beside the error.
func showCommand(short, example string, summarize func(file string) (summary, error)) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "show FILE",
		Short:   short,
		Example: example,
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			s, damage := summarize(args[0])
			if s == nil {
				return damage
			}
			if output == "json" {
				return errors.Join(printJSON(cmd.OutOrStdout(), s), damage)
			}
			return errors.Join(s.write(cmd.OutOrStdout()), damage)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the output format: json; by default a table")
	completeValues(cmd, "output", "json")
	return cmd
}

// oneFile checks the arguments of a command that takes one file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one file, not %d arguments: see %s --help", len(args), cmd.CommandPath())
	}
	if args[0] == "" {
		return errors.New("the name of the file must not be empty")
	}
	return nil
}

// counter counts the bytes that are written to it.
type counter atomic.Int64

func (c *counter) Write(p []byte) (int, error) {
	(*atomic.Int64)(c).Add(int64(len(p)))
	return len(p), nil
}
