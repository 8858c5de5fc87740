package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"flyball.dev/cmd/flyball/internal/generate"
	"flyball.dev/cmd/flyball/internal/progress"
	"flyball.dev/cmd/flyball/internal/projectfile"
	"flyball.dev/cmd/flyball/internal/scaffold"
)

// create returns the command "flyball create".
func create() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Add a kind or webhooks to the project in the current folder",
		Example: `  flyball create api --group shop --version v1 --kind Order
  flyball create webhook --group shop --version v1 --kind Order --defaulting`,
		Args: noArgs("use flyball create api or flyball create webhook"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(createAPI(), createWebhook())
	return cmd
}

// createAPI returns the command "flyball create api".
func createAPI() *cobra.Command {
	var o scaffold.APIOptions
	var namespaced, controller, generated bool
	cmd := &cobra.Command{
		Use:   "api",
		Short: "Add a kind, with its type and a controller",
		Long: `Add a kind to the project in the current folder: its Go type, a controller with tests, a
sample, roles, and the code that registers them. Then generate its deep copies, its
CustomResourceDefinition and the role of the operator.

On a terminal, the command asks whether to write the type and the controller, unless
--resource and --controller are given. If a step fails, the project stays unchanged.

With --resource=false, it writes a controller for a kind of Kubernetes, such as
apps/v1 Deployment, or, with --external-api-path, of another project.`,
		Example: `  flyball create api --group shop --version v1 --kind Order
  flyball create api --group shop --version v1 --kind Region --namespaced=false
  flyball create api --group apps --version v1 --kind Deployment --resource=false --controller
  flyball create api --group cert-manager --version v1 --kind Certificate --resource=false --controller \
    --external-api-path github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1 --external-api-domain io`,
		Args: noArgs("the kind is named by --group, --version and --kind"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := projectfile.Load("."); err != nil {
				return err
			}
			ask := asker(cmd.InOrStdin(), cmd.OutOrStdout())
			var err error
			if !cmd.Flags().Changed("resource") && ask != nil {
				if o.Resource, err = ask(cmd.Context(), "Create the type (resource)?"); err != nil {
					return err
				}
			}
			switch {
			case cmd.Flags().Changed("controller"):
				o.Controller = &controller
			case ask != nil:
				answer, err := ask(cmd.Context(), "Create a controller?")
				if err != nil {
					return err
				}
				o.Controller = &answer
			}
			o.ClusterScoped = !namespaced
			stop := progress.Start(cmd.ErrOrStderr(), progress.Doing("flyball: writing"))
			if generated {
				o.Generate = generateProject(cmd, stop)
			}
			changes, err := scaffold.CreateAPI(cmd.Context(), ".", o)
			stop()
			if err != nil {
				return err
			}
			report(cmd.OutOrStdout(), changes)
			fmt.Fprint(cmd.OutOrStdout(), "\nTry it:\n\n  go run ./cmd\n")
			if o.Resource {
				fmt.Fprint(cmd.OutOrStdout(), "  kubectl --kubeconfig .flyball/kubeconfig apply -k config/samples\n")
			}
			return nil
		},
	}
	kindFlags(cmd, &o.KindOptions, &generated)
	flags := cmd.Flags()
	flags.BoolVar(&o.Resource, "resource", true, "write the Go type of the kind")
	flags.BoolVar(&controller, "controller", true, "write a controller, unless the kind has one in another version")
	flags.BoolVar(&namespaced, "namespaced", true, "whether objects of the kind are in a namespace")
	return cmd
}

// createWebhook returns the command "flyball create webhook".
func createWebhook() *cobra.Command {
	var o scaffold.WebhookOptions
	var generated bool
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Add webhooks of a kind",
		Long: `Add webhooks of a kind to the project in the current folder, with tests, the manifests that
they need in a cluster, and the code that registers them. Then generate their configurations.

On the control plane of "go run ./cmd", webhooks need no certificates. In a cluster,
cert-manager issues them. With ENABLE_WEBHOOKS=false, the operator serves no webhooks.`,
		Example: `  flyball create webhook --group shop --version v1 --kind Order --defaulting --programmatic-validation
  flyball create webhook --group shop --version v1 --kind Order --conversion --spoke v1beta1`,
		Args: noArgs("the kind is named by --group, --version and --kind"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			stop := progress.Start(cmd.ErrOrStderr(), progress.Doing("flyball: writing"))
			if generated {
				o.Generate = generateProject(cmd, stop)
			}
			changes, err := scaffold.CreateWebhook(cmd.Context(), ".", o)
			stop()
			if err != nil {
				return err
			}
			report(cmd.OutOrStdout(), changes)
			return nil
		},
	}
	kindFlags(cmd, &o.KindOptions, &generated)
	flags := cmd.Flags()
	flags.BoolVar(&o.Defaulting, "defaulting", false, "write a webhook that sets defaults")
	flags.BoolVar(&o.Validation, "programmatic-validation", false, "write a webhook that validates")
	flags.BoolVar(&o.Conversion, "conversion", false, "write a webhook that converts between versions, with --version as the hub")
	flags.StringSliceVar(&o.Spoke, "spoke", nil, "the versions that are converted to and from --version; may be repeated")
	flags.StringVar(&o.DefaultingPath, "defaulting-path", "", "the path of the webhook that sets defaults")
	flags.StringVar(&o.ValidationPath, "validation-path", "", "the path of the webhook that validates")
	return cmd
}

// kindFlags adds the flags that identify a kind.
func kindFlags(cmd *cobra.Command, o *scaffold.KindOptions, generated *bool) {
	flags := cmd.Flags()
	flags.StringVar(&o.Group, "group", "", "the group of the kind, without the domain")
	flags.StringVar(&o.Version, "version", "", "the version of the kind, such as v1 or v1alpha1")
	flags.StringVar(&o.Kind, "kind", "", "the kind, such as Order")
	flags.StringVar(&o.Plural, "plural", "", "the plural of the kind, in lower case, if it is irregular")
	flags.StringVar(&o.ExternalAPIPath, "external-api-path", "", "the Go package of the type, for a kind of another project")
	flags.StringVar(&o.ExternalAPIDomain, "external-api-domain", "", "the domain of the group, for a kind of another project")
	flags.StringVar(&o.ExternalAPIModule, "external-api-module", "",
		"the module of --external-api-path, such as example.com/module@v1.2.3")
	flags.BoolVar(&o.Force, "force", false, "overwrite files that exist")
	flags.BoolVar(generated, "make", true, "generate code and manifests")
}

// edit returns the command "flyball edit".
func edit() *cobra.Command {
	var o scaffold.EditOptions
	var multiGroup bool
	cmd := &cobra.Command{
		Use:   "edit",
		Short: "Change the settings of the project in the current folder, or make its Helm chart",
		Long: `Change the settings of the project in the current folder, or make its Helm chart.

--plugins=helm/v2-alpha, the name of Kubebuilder's plugin, makes the chart dist/chart from the output
of kustomize build config/default. Run it again when config has changed. It writes the templates again,
except templates without the first line of generated ones, and the values that nobody has edited. It
writes Chart.yaml, NOTES.txt and .helmignore once.`,
		Example: `  flyball edit --multigroup
  flyball edit --multigroup=false
  flyball edit --plugins=helm/v2-alpha`,
		Args: noArgs("settings are flags, such as --multigroup"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("multigroup") {
				o.MultiGroup = &multiGroup
			}
			changes, err := scaffold.Edit(cmd.Context(), ".", o)
			if err != nil {
				return err
			}
			report(cmd.OutOrStdout(), changes)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&multiGroup, "multigroup", false, "whether new kinds are in a folder for their group")
	flags.StringSliceVar(&o.Plugins, "plugins", nil, "what to run: helm/v2-alpha makes a Helm chart")
	flags.StringVar(&o.OutputDir, "output-dir", "", "the folder for the folder chart (default dist)")
	flags.BoolVar(&o.Force, "force", false, "write the values of the chart anew, also those that are edited")
	completeValues(cmd, "plugins", "helm/v2-alpha")
	return cmd
}

// asker returns a function that asks a yes-or-no question, or nil if the input is not a terminal. The default answer is
// yes. The function returns an error only if ctx ends: Ctrl-C does not wait for an answer.
func asker(in io.Reader, out io.Writer) func(ctx context.Context, question string) (bool, error) {
	file, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	lines := scanLines(in)
	return func(ctx context.Context, question string) (bool, error) { return ask(ctx, lines, out, question) }
}

// scanLines reads lines in a goroutine, which ends at the end of the input.
func scanLines(in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return lines
}

// ask repeats a question until a line is a valid answer.
func ask(ctx context.Context, lines <-chan string, out io.Writer, question string) (bool, error) {
	for {
		fmt.Fprintf(out, "%s [Y/n] ", question)
		select {
		case <-ctx.Done():
			fmt.Fprintln(out)
			return false, ctx.Err()
		case line := <-lines: // an empty one at the end
			switch strings.ToLower(strings.TrimSpace(line)) {
			case "", "y", "yes":
				return true, nil
			case "n", "no":
				return false, nil
			}
		}
	}
}

// generateProject returns a function that generates the code and the manifests of the project in the current directory.
// Generating has a progress message of its own, so the function ends the one before by stop.
func generateProject(cmd *cobra.Command, stop func()) func(context.Context) error {
	return func(ctx context.Context) error {
		stop()
		f := generateFlags{options: generate.Options{Tags: generate.DefaultTags}}
		return generateOnce(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
	}
}
