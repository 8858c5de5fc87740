package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flyball.dev/cmd/flyball/internal/generate"
	"flyball.dev/cmd/flyball/internal/progress"
	"flyball.dev/cmd/flyball/internal/terminal"
	"flyball.dev/cmd/flyball/internal/watch"
)

// generateFlags are the flags of "flyball generate".
type generateFlags struct {
	options        generate.Options
	watch, verbose bool
	markers, help  int
}

// generateCommand returns the command "flyball generate".
func generateCommand() *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{
		Use:   "generate [flags] [OPTION...]",
		Short: "Generate deep copies, CRDs, RBAC and webhook manifests from markers",
		Long: `Generate code and manifests from the markers in Go source: deep copies (object), definitions of
custom resources (crd), roles (rbac), webhook configurations (webhook) and apply configurations
(applyconfiguration).

The options are those of controller-gen, and so is the output: generators with their options, paths,
and where to write. Without a generator it does what the project does itself: by the lines in its
PROJECT file (plugins: flyball.dev/v1: generate:), or by the commands controller-gen and flyball
generate in its Makefile, for the targets manifests and generate, and in go:generate lines. The
Makefile is read, and not run. A project of flyball init has

  rbac:roleName=manager-role crd webhook object:headerFile=hack/boilerplate.go.txt applyconfiguration
  paths=./... output:crd:artifacts:config=config/crd/bases

with the header if the file exists, and apply configurations for packages that have the marker
+kubebuilder:ac:generate=true. If the options of a project cannot be found, these apply; if they
would change a file that git tracks, nothing is written.

Files are written when all generators have succeeded, and then all or none. A file that is up to date
is not touched. An error names the file and the line, and nothing is written.`,
		Example: `  # In a project of Kubebuilder's layout
  flyball generate
  flyball generate --watch
  flyball generate --check     # for CI: fails if something is not up to date

  # The same project, with CRDs without descriptions
  flyball generate rbac:roleName=manager-role crd:maxDescLen=0 webhook object paths=./... \
      output:crd:artifacts:config=config/crd/bases

  # Print the CRDs of a package
  flyball generate crd paths=./api/v1 output:stdout

  # The markers for CRDs; more w for more detail
  flyball generate crd -w`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.options.Args = args
			switch {
			case f.help > 1: // -h alone is handled by cobra's help function below
				return generate.OptionsHelp(cmd.OutOrStdout(), f.help)
			case f.help == 1:
				return cmd.Help()
			case f.markers > 0:
				return generate.MarkersHelp(cmd.OutOrStdout(), args, f.markers)
			case f.watch:
				return watchAndGenerate(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
			}
			return generateOnce(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		},
	}
	f.add(cmd)
	usage := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		usage(cmd, args)
		fmt.Fprintln(cmd.OutOrStdout(), "\nOptions:")
		if err := generate.OptionsHelp(cmd.OutOrStdout(), 1); err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), err)
		}
	})
	return cmd
}

// add adds the flags to a command.
func (f *generateFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.options.Check, "check", false, "write nothing, and fail if a file is not up to date")
	flags.BoolVar(&f.options.Prune, "prune", false,
		"remove CRDs and deep copies that were generated once, and whose types are gone")
	flags.BoolVar(&f.watch, "watch", false, "generate again whenever the source changes, until Ctrl-C")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "list the files that are up to date, too")
	flags.StringSliceVar(&f.options.Tags, "load-build-tags", generate.DefaultTags, "the build tags to load packages with")
	flags.CountVarP(&f.markers, "which-markers", "w",
		"print the markers of the generators that are named: -ww and -www in more detail, -wwww as JSON")
	flags.CountVarP(&f.help, "detailed-help", "h",
		"print this help with all options: -hh and -hhh in more detail, -hhhh as JSON")
	flags.Bool("help", false, "print this help with all options")
	cmd.MarkFlagsMutuallyExclusive("check", "prune")
	cmd.MarkFlagsMutuallyExclusive("check", "watch")
}

// generateOnce generates code and manifests, and prints the changes.
func generateOnce(ctx context.Context, out, errOut io.Writer, f generateFlags) error {
	start := time.Now()
	result, err := runGenerate(ctx, errOut, f.options)
	if err != nil {
		return sourceError(err)
	}
	if len(result.Stdout) > 0 {
		if _, err := out.Write(result.Stdout); err != nil {
			return err
		}
		out = errOut // so that it can be piped
	}
	reportGenerated(out, errOut, result, f, time.Since(start))
	if f.options.Check && len(result.Changed()) > 0 {
		return fmt.Errorf("%d of %d files are not up to date: run flyball generate", len(result.Changed()), len(result.Files))
	}
	return nil
}

// runGenerate generates code and manifests. It prints a progress message if that takes long.
func runGenerate(ctx context.Context, errOut io.Writer, o generate.Options) (*generate.Result, error) {
	defer progress.Start(errOut, progress.Doing("flyball: listing the packages and generating"))()
	return generate.Run(ctx, o)
}

// sourceError adds the number of errors to an error in the source.
func sourceError(err error) error {
	var source generate.Diagnostics
	if !errors.As(err, &source) {
		return err
	}
	s := ""
	if len(source) > 1 {
		s = "s"
	}
	return &reportedError{lines: source.Error(), error: fmt.Errorf("%d error%s: nothing is written", len(source), s)}
}

// reportedError is an error with preceding lines that have no prefix, so that editors find the positions in them.
type reportedError struct {
	error
	lines string
}

// reportGenerated prints the result of a run.
func reportGenerated(out, errOut io.Writer, result *generate.Result, f generateFlags, took time.Duration) {
	for _, w := range result.Warnings {
		fmt.Fprintf(errOut, "%s\n", w)
	}
	counts := map[generate.State]int{}
	for _, file := range result.Files {
		counts[file.State]++
		line := fmt.Sprintf("%-10s%s", file.State, file.Path)
		switch {
		case file.State == generate.Unchanged && !f.verbose:
			continue
		case file.State == generate.Stale:
			line += " (" + result.WhyStale() + ")"
		case f.options.Check && file.State == generate.Updated:
			line = fmt.Sprintf("%-10s%s:%d differs", "outdated", file.Path, file.Line)
		case f.options.Check && file.State == generate.Created:
			line = fmt.Sprintf("%-10s%s", "missing", file.Path)
		}
		fmt.Fprintln(out, line)
	}
	var parts []string
	for _, state := range []generate.State{generate.Created, generate.Updated, generate.Removed, generate.Unchanged} {
		if counts[state] > 0 {
			name := string(state)
			if f.options.Check {
				name = map[generate.State]string{generate.Created: "missing", generate.Updated: "outdated",
					generate.Unchanged: "up to date"}[state]
			}
			parts = append(parts, fmt.Sprintf("%d %s", counts[state], name))
		}
	}
	if len(parts) == 0 {
		parts = []string{"no markers for these generators: nothing to write"}
	}
	fmt.Fprintf(out, "%s (%s: %s listing packages, %s generating)\n", strings.Join(parts, ", "), seconds(took),
		seconds(result.Load), seconds(result.Generate))
}

// seconds formats a duration in seconds.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// watchAndGenerate generates code and manifests, and repeats that after each change of the source, until ctx ends.
func watchAndGenerate(ctx context.Context, out, errOut io.Writer, f generateFlags) error {
	w, err := watch.New(".", generate.IsSource)
	if err != nil {
		return fmt.Errorf("cannot watch the files: %w", err)
	}
	defer w.Close()
	for {
		result, err := generateForWatch(ctx, out, errOut, f)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			fmt.Fprintln(errOut, terminal.Error(errOut, err.Error()))
		}
		fmt.Fprintln(out, "watching for changes; Ctrl-C ends")
		for {
			change, err := w.Next(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf("cannot watch the files: %w", err)
			}
			if !result.AllCurrent(change.Paths) {
				break
			}
		}
	}
}

// generateForWatch generates once, and prints the changes or the lines of an error.
func generateForWatch(ctx context.Context, out, errOut io.Writer, f generateFlags) (*generate.Result, error) {
	start := time.Now()
	result, err := runGenerate(ctx, errOut, f.options)
	if err != nil {
		err = sourceError(err)
		var reported *reportedError
		if errors.As(err, &reported) && ctx.Err() == nil {
			fmt.Fprintln(errOut, terminal.Error(errOut, reported.lines))
		}
		return nil, err
	}
	if _, err := out.Write(result.Stdout); err != nil {
		return nil, err
	}
	reportGenerated(out, errOut, result, f, time.Since(start))
	return result, nil
}
