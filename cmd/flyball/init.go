package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"flyball.dev/cmd/flyball/internal/progress"
	"flyball.dev/cmd/flyball/internal/projectfile"
	"flyball.dev/cmd/flyball/internal/scaffold"
)

// initProject returns the command "flyball init".
func initProject() *cobra.Command {
	var o scaffold.InitOptions
	fetch := true
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a project for an operator in the current folder",
		Long: `Make a project for an operator in the current folder, in Kubebuilder's layout: a PROJECT
file, which kubebuilder reads too, a Makefile, the manager in cmd, kustomize bases in
config, tests, a Dockerfile and a workflow for CI.

The folder must be empty, but for hidden files, go.mod, go.sum, LICENSE and *.md. If
anything fails, it is left as it was.

"go run ./cmd" then starts the operator with a control plane in the same process, or on
the cluster of --kubeconfig or KUBECONFIG.

With --runtime=controller-runtime the operator imports sigs.k8s.io/controller-runtime.
Flyball is then used for development and tests only.`,
		Example: `  mkdir shop && cd shop
  flyball init --domain example.com --repo github.com/me/shop
  flyball create api --group shop --version v1 --kind Order
  go run ./cmd`,
		Args: noArgs("the project is made in the current folder; --project-name is its name"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.SkipFetch = !fetch
			stop := progress.Start(cmd.ErrOrStderr(), progress.Doing("flyball: making the project, with go mod tidy"))
			changes, err := scaffold.Init(cmd.Context(), ".", o)
			stop()
			if err != nil {
				return err
			}
			report(cmd.OutOrStdout(), changes)
			fmt.Fprint(cmd.OutOrStdout(), "\nNow define a kind:\n\n  flyball create api --group GROUP --version v1 --kind KIND\n")
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Domain, "domain", "my.domain", "the domain of the API groups")
	flags.StringVar(&o.Repo, "repo", "", "the path of the Go module, such as github.com/me/shop (default that in go.mod)")
	flags.StringVar(&o.Name, "project-name", "", "the name of the project (default that of the folder)")
	flags.StringVar(&o.License, "license", "apache2", "the license in the header of Go files: apache2 or none")
	flags.StringVar(&o.Owner, "owner", "", "the owner of the copyright in the header of Go files")
	flags.StringVar(&o.Runtime, "runtime", projectfile.RuntimeFlyball, "the runtime to import: flyball or controller-runtime")
	flags.StringVar(&o.FlyballPath, "flyball-path", "",
		"the folder of the module flyball.dev, for a replace in go.mod (default where this program was built, if it was not published)")
	flags.BoolVar(&o.SkipGoVersionCheck, "skip-go-version-check", false, "accept any release of Go")
	flags.BoolVar(&fetch, "fetch-deps", true, "run go mod tidy")
	completeValues(cmd, "license", "apache2", "none")
	completeValues(cmd, "runtime", projectfile.RuntimeFlyball, projectfile.RuntimeControllerRuntime)
	return cmd
}

// completeValues makes shells complete the values of a flag.
func completeValues(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// report prints the changes that a command has made.
func report(out io.Writer, changes *scaffold.Changes) {
	for _, path := range changes.Created {
		fmt.Fprintf(out, "created %s\n", path)
	}
	for _, path := range changes.Updated {
		fmt.Fprintf(out, "updated %s\n", path)
	}
	for _, path := range changes.Removed {
		fmt.Fprintf(out, "removed %s\n", path)
	}
	for _, note := range changes.Notes {
		fmt.Fprintln(out, note)
	}
}
