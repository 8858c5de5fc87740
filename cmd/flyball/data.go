package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"flyball.dev/storage/datadir"
)

// data returns the command "flyball data".
func data() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Check and repair data directories",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(dataCheck())
	return cmd
}

// dataCheck returns the command "flyball data check".
func dataCheck() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "check DIRECTORY",
		Short: "Check a data directory for damage, and repair it",
		Long: `Check the data directory of a control plane that does not run: read all files, compare
the checksums, and print the number of records. The exit code is 1 if a file is damaged.

--repair keeps the intact records of the snapshot, and the writes of the log before the
first damaged one. Later writes are lost. The damaged files stay under names that end in
.damaged, and may be removed.`,
		Example: `  flyball data check .flyball/data
  flyball data check --repair .flyball/data`,
		Args: oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			if repair {
				return repairData(cmd.OutOrStdout(), args[0])
			}
			return checkData(cmd.OutOrStdout(), args[0])
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "keep the intact records, and lose the others")
	return cmd
}

func checkData(out io.Writer, dir string) error {
	report, err := datadir.Check(dir)
	if _, damaged := errors.AsType[*datadir.DamageError](err); damaged {
		fmt.Fprint(out, "intact: ")
		report.Write(out)
		return fmt.Errorf("%w\nto keep what is intact and lose the rest: flyball data check --repair %s", err, dir)
	}
	if err != nil {
		return err
	}
	report.Write(out)
	return nil
}

func repairData(out io.Writer, dir string) error {
	report, err := datadir.Repair(dir)
	if err != nil {
		return err
	}
	if len(report.Damage) == 0 {
		fmt.Fprint(out, "not damaged: ")
	}
	for _, damage := range report.Damage {
		fmt.Fprintln(out, "lost:", damage)
	}
	report.Write(out)
	return nil
}

// oneDirectory checks the arguments of a command that takes one directory.
func oneDirectory(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one directory, not %d arguments: see %s --help", len(args), cmd.CommandPath())
	}
	if args[0] == "" {
		return errors.New("the name of the directory must not be empty")
	}
	return nil
}
